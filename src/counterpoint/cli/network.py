"""`counterpoint network`: what a step asks of the links between devices, and what they give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.explained_run import find_run
from counterpoint.cli.numbers import MaybeWholeNumber, WholeNumber
from counterpoint.cli.profiles import as_typed, check_asked, device_numbers, look_into, tell
from counterpoint.diagnose.network.analysis import analyse
from counterpoint.hardware import parse_target
from counterpoint.report.network_document import network_document
from counterpoint.report.network_json import network_json


def network(  # noqa: PLR0913 - the options of the command
    *paths: str,
    step: MaybeWholeNumber = None,
    device: str | None = None,
    target: str | None = None,
    top: WholeNumber = 10,
    jobs: MaybeWholeNumber = None,
    json: Annotated[bool, Parameter(show_default=False)] = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Say what a training step asks of the network.

    Args:
        paths: A Run, file, log directory, zip, pattern, URL or stored Timeline, measured or
            predicted; several are the hosts of one run.
        step: Look at this step alone.
        device: Look at these devices alone: their numbers with commas between, e.g. 0,1.
        target: The machine it ran on, e.g. 8xH100 or 64x8xH100:8x400G: tells how fast links are.
        top: Rows in each table.
        jobs: Read so many hosts at a time; by default one per core, where there is much to read.
        json: Print everything as JSON, uncut.
        out: Write to this file: .json as JSON, .txt or .md as text.
        force: Overwrite the file.
    """
    devices = device_numbers(device)
    check_asked(paths, top, out, "network", json=json, force=force)
    run = find_run(paths)
    machine = None if target is None else parse_target(target)
    analysis = look_into(
        paths,
        lambda timeline: analyse(timeline, step=step, devices=devices, run=run, target=machine),
        jobs,
        "analysing",
    )
    tell(
        lambda: network_document(analysis, top, as_typed(paths)),
        lambda: network_json(analysis),
        out,
        json=json,
    )
