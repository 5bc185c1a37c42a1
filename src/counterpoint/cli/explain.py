"""`counterpoint explain`: read profiles, and say where a median step goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.explained_run import find_run
from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.cli.profiles import as_typed, check_asked, device_numbers, look_into, tell
from counterpoint.diagnose.explain import explain as explain_timeline
from counterpoint.diagnose.metrics.groups import By
from counterpoint.hardware import parse_target
from counterpoint.report.explain_document import explain_document
from counterpoint.report.json import explain_json


def explain(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    by: By | None = None,
    jobs: MaybeWholeNumber = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say where a training step goes.

    Args:
        paths: A Run, file, log directory, zip, pattern or URL; several are the hosts of one run.
        step: Explain this step alone.
        device: Explain these devices alone: their numbers with commas between, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G: tells how fast links are.
        top: Rows in each table.
        by: Sum ops up by scope (layers of one kind together), source line, category, or not (op);
            by default the finest that shows most of the step in its rows.
        jobs: Read so many hosts at a time; by default one per core, where there is much to read.
        json: Print everything as JSON, uncut.
        out: Write to this file: .json as JSON, .txt or .md as text.
        force: Overwrite the file.
    """
    devices = device_numbers(device)
    check_asked(paths, top, out, "explain", json=json, force=force)
    run = find_run(paths)
    machine = None if target is None else parse_target(target)
    explanation = look_into(
        paths,
        lambda timeline: explain_timeline(
            timeline, step=step, devices=devices, run=run, target=machine
        ),
        jobs,
        "explaining",
    )
    tell(
        lambda: explain_document(explanation, top, run, as_typed(paths), by),
        lambda: explain_json(explanation, run),
        out,
        json=json,
    )
