"""Trackio: numbers and the findings as a table in the local database, the page as an artifact."""

from __future__ import annotations

import os
from typing import Any

from counterpoint.report.summary import FINDING_COLUMNS
from counterpoint.trackers.tracker import (
    PREFIX,
    PROJECT,
    Destination,
    LoggedResult,
    finding_rows,
    page_file,
    safe_name,
)


def log(trackio: Any, result: LoggedResult, to: Destination) -> str:  # noqa: ANN401 - untyped client
    """Log the result; a run is named by its name."""
    summary = result.summary
    project = to.project or os.environ.get("TRACKIO_PROJECT") or PROJECT
    given = {} if to.run_id is None else {"name": to.run_id, "resume": "must"}
    run = trackio.init(project=project, embed=False, **({"name": summary.title} | given))
    try:
        values: dict[str, Any] = {PREFIX + it.name: it.value for it in summary.figures}
        if summary.findings:
            rows = finding_rows(summary)
            values[PREFIX + "findings"] = trackio.Table(columns=[*FINDING_COLUMNS], data=rows)
        trackio.log(values)
        if result.page is not None and hasattr(trackio, "log_artifact"):
            with page_file(result.page) as path:
                name = f"counterpoint-{safe_name(run.name)}"
                trackio.log_artifact(str(path), name=name, type="counterpoint-report")
    finally:
        trackio.finish()
    return f"run {run.name} of project {project}"
