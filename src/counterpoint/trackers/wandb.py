"""Weights & Biases: numbers in the run's summary, tables, and the page as an artifact."""

from __future__ import annotations

import os
from typing import Any

from counterpoint.report.summary import FINDING_COLUMNS, Summary
from counterpoint.trackers.tracker import (
    FIGURE_COLUMNS,
    PREFIX,
    PROJECT,
    Destination,
    LoggedResult,
    figure_rows,
    finding_rows,
    page_file,
)


def log(wandb: Any, result: LoggedResult, to: Destination) -> str:  # noqa: ANN401 - untyped client
    """Log the result; into the run that `WANDB_RUN_ID` names if no other is named."""
    summary = result.summary
    with wandb.init(
        project=to.project or os.environ.get("WANDB_PROJECT") or PROJECT,
        id=to.run_id,
        name=None if _is_resumed(to) else summary.title,
        resume="allow" if _is_resumed(to) else None,
        settings=_settings(wandb),
    ) as run:
        run.summary.update({PREFIX + it.name: it.value for it in summary.figures})
        run.log(_tables(wandb, summary))
        if result.page is not None:
            _log_page(wandb, run, result.page)
        return str(run.url or run.dir)


def _is_resumed(to: Destination) -> bool:
    return bool(to.run_id or os.environ.get("WANDB_RUN_ID"))


def _settings(wandb: Any) -> Any:  # noqa: ANN401
    """Return settings that leave what the training recorded of itself in the run alone."""
    wanted = {"console": "off", "disable_git": True, "x_disable_stats": True}
    wanted |= {"x_disable_meta": True, "save_code": False}
    known = getattr(wandb.Settings, "model_fields", wanted)
    return wandb.Settings(**{name: value for name, value in wanted.items() if name in known})


def _tables(wandb: Any, summary: Summary) -> dict[str, Any]:  # noqa: ANN401
    tables = {PREFIX + "numbers": wandb.Table(columns=[*FIGURE_COLUMNS], data=figure_rows(summary))}
    if summary.findings:
        rows = finding_rows(summary)
        tables[PREFIX + "findings"] = wandb.Table(columns=[*FINDING_COLUMNS], data=rows)
    return tables


def _log_page(wandb: Any, run: Any, page: str) -> None:  # noqa: ANN401
    artifact = wandb.Artifact(f"counterpoint-{run.id}", type="counterpoint-report")
    with page_file(page) as path:
        artifact.add_file(str(path), name=path.name)
        run.log_artifact(artifact)
