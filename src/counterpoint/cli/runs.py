"""`counterpoint runs`: the runs in a directory, and how they ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.wording import print_report, write_result
from counterpoint.core import InputError
from counterpoint.report.runs import runs_document, runs_json
from counterpoint.runs import Run, find_runs, read_run


def runs(
    directory: Path = Path("counterpoint-runs"),
    *,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """List runs, oldest first.

    Args:
        directory: Directory of runs, or one run.
        json: Print everything as JSON.
    """
    readable: list[Run] = []
    broken: list[tuple[Path, str]] = []
    for path in find_runs(directory):
        try:
            readable.append(read_run(path))
        except InputError as damage:
            broken.append((path, damage.what))
    readable.sort(key=lambda run: run.started)
    if json:
        write_result(runs_json(readable, broken))
    else:
        print_report(runs_document(readable, broken, str(directory)))
