"""`counterpoint log`: numbers, findings and the page of a result, for experiment trackers."""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.options import Machine, Reading, Selection
from counterpoint.cli.pages import explained_page, study_page
from counterpoint.cli.printing import say_line, write_result
from counterpoint.cli.profiles import (
    as_typed,
    check_paths,
    find_run,
    read_and_analyze,
    recorded_on,
)
from counterpoint.core import UsageError
from counterpoint.core.printable import counted_noun
from counterpoint.report.summary import (
    Summary,
    summarize_explanation,
    summarize_run,
    summarize_study,
    summary_json,
)
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
from counterpoint.trackers import (
    Destination,
    LoggedResult,
    TrackerName,
    hide_secrets,
    log_result,
    require_client,
)
from counterpoint.tune.study import is_study
from counterpoint.view.page import PageContent, one_file

if TYPE_CHECKING:
    from counterpoint.diagnose.explanation import Explanation
    from counterpoint.hardware.target import Target
    from counterpoint.timeline.model import Timeline

_LARGEST: Final = 20_000_000
"""Bytes of a page: trackers refuse more."""
_ROWS: Final = 20
_Made = tuple[Summary, Callable[[], PageContent] | None]


def log(
    *paths: str,
    to: TrackerName | None = None,
    project: str | None = None,
    run_id: str | None = None,
    directory: Annotated[Path | None, Parameter(name="--dir")] = None,
    target: Machine = None,
    json: bool = False,
) -> None:
    """Log a result to an experiment tracker: numbers, findings as a table, and the report.

    The tracker's own variables apply: WANDB_MODE=offline, WANDB_PROJECT, MLFLOW_TRACKING_URI, ...

    Args:
        paths: A Run, a study, or profiles; several profiles are the hosts of one run.
        to: The tracker; its client must be installed here.
        project: W&B's or Trackio's project, MLflow's experiment; by default the one that the
            tracker's variables name, else `counterpoint`.
        run_id: Log into this run of the tracker instead of a new one; by default the one that
            WANDB_RUN_ID or MLFLOW_RUN_ID names. Trackio identifies runs by name.
        directory: Directory for TensorBoard's event file; by default tensorboard/NAME, with a NAME
            of its own for each Run, study and profile.
        json: Print the numbers and findings as JSON; without --to, nothing is logged.
    """
    _check(to, project, run_id, directory, json=json)
    if to is not None and paths and all(map(_is_there, paths)):  # else reading says what is missing
        require_client(to)
    summary, page = _read(paths, target)
    if json:
        write_result(summary_json(summary))
    if to is None:
        return
    text = None if page is None else _page_text(page())
    place = log_result(
        to,
        LoggedResult(summary=summary, page=text),
        Destination(project=project, run_id=run_id, directory=directory),
    )
    report = "no report" if text is None else f"a report of {len(text.encode()):,} bytes"
    found = f"{len(summary.figures)} numbers, {counted_noun(len(summary.findings), 'finding')}"
    say_line(f"logged {found} and {report} to {to}: {place}")


def _is_there(path: str) -> bool:
    return "://" in path or Path(path).exists() or bool(glob.glob(path))  # noqa: PTH207


def _check(
    to: str | None,
    project: str | None,
    run_id: str | None,
    directory: Path | None,
    *,
    json: bool,
) -> None:
    if to is None and not json:
        raise UsageError(
            "--to is missing: name the tracker, wandb, tensorboard, mlflow or trackio",
            next="use --to wandb",
        )
    if directory is not None and to != "tensorboard":
        raise UsageError("--dir applies only to TensorBoard", next="use --to tensorboard")
    if run_id is not None and to in (None, "tensorboard"):
        raise UsageError(
            "--run-id applies only to W&B, MLflow and Trackio",
            why="TensorBoard's runs are directories, which --dir names",
            next="omit --run-id",
        )
    if project is not None and to in (None, "tensorboard"):
        raise UsageError(
            "--project applies only to W&B, MLflow and Trackio",
            why="TensorBoard has no projects; --dir names the directory",
            next="omit --project",
        )


def _read(paths: tuple[str, ...], target: str | None) -> _Made:
    check_paths(paths, _ROWS, "log")
    if len(paths) == 1 and is_study(Path(paths[0])):
        return _study(Path(paths[0]))
    if len(paths) == 1 and is_run(paths[0]):
        run = read_run(paths[0])
        if not run.profiles:
            return replace(summarize_run(run), title=_name_of_run(run)), None
    return _profile(paths, recorded_on(target))


def _study(directory: Path) -> _Made:
    from counterpoint.cli.tune_show import next_command
    from counterpoint.tune.conclusion import conclude
    from counterpoint.tune.study import plan_of, read_study

    study = read_study(directory)
    conclusion = conclude(study, plan_of(study))
    next_line = next_command(conclusion, study, directory)
    began = study.began
    name = _name(directory.resolve().name, began.at, began.cwd, began.question)
    summary = summarize_study(conclusion, name)
    return summary, lambda: study_page(conclusion, directory, _ROWS, next_line)


def _profile(paths: tuple[str, ...], machine: Target | None) -> _Made:
    from counterpoint.diagnose.explanation import explain

    run, named = find_run(paths), as_typed(paths)
    explanation, timeline = read_and_analyze(
        paths,
        lambda timeline: (explain(timeline, run=run, target=machine), timeline),
        "explaining",
        Selection(),
        Reading(),
    )
    title = _name_of_run(run) if run is not None else _name_of_profile(paths)
    summary = summarize_explanation(explanation, title, run)
    return summary, lambda: _explained(timeline, explanation, named, run, machine)


def _name_of_run(run: Run) -> str:
    """Return a name of this Run alone: `run.name` is that of its script."""
    return _name(run.path.resolve().name, run.started.isoformat(), run.cwd, *run.command)


def _name_of_profile(paths: tuple[str, ...]) -> str:
    """Return a name of these files alone: those of one host have equal names in every run."""
    files = [Path(path).resolve() for path in sorted(paths)]
    written = [str(file.stat().st_mtime_ns) for file in files if file.exists()]
    return _name(Path(paths[0]).name or paths[0], *map(str, files), *written)


def _name(shown: str, *identity: str) -> str:
    import hashlib

    mark = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:6]
    return f"{shown}-{mark}"


def _explained(
    timeline: Timeline,
    explanation: Explanation,
    named: tuple[str, ...],
    run: Run | None,
    machine: Target | None,
) -> PageContent:
    from counterpoint.report.explain.explain_document import explain_document
    from counterpoint.report.explain.explain_json import explain_json

    document = explain_document(explanation, _ROWS, run, named)
    text = explain_json(explanation, run)
    return explained_page(timeline, explanation, document, text, named, run, machine)


def _page_text(content: PageContent) -> str | None:
    """Return the page without secrets; without timelines or none at all if it is too large."""
    for page in (content, replace(content, timelines=())):
        text = hide_secrets(one_file(page, limit=_LARGEST))
        if len(text.encode()) <= _LARGEST:
            return text
    return None
