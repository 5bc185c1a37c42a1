"""`counterpoint calibrate`: fit the few parameters of the cost model to measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.options import Force, OutputPath
from counterpoint.cli.output import check_output, write_output
from counterpoint.cli.printing import print_report, say_wrote, write_result
from counterpoint.cli.progress import Progress
from counterpoint.core import UsageError
from counterpoint.runs.layout import is_run

ENDING = ".toml"


def calibrate(
    *recordings: Annotated[str, Parameter(name="RUN...", negative=())],
    target: str | None = None,
    calibration: Path | None = None,
    out: OutputPath = None,
    force: Force = False,
    json: bool = False,
) -> None:
    """Fit the few numbers of the cost model (rates of GEMMs, memory, network) to measured runs.

    The accuracy elsewhere is estimated by held-out data: kinds of work, and whole steps
    if several were measured, are left out in turn.

    Args:
        recordings: Runs, profiles or saved Timelines, each of one program on the target.
        target: The devices they were measured on: 8xH100, or 8x8xH100:400G for eight hosts.
        calibration: Start from an earlier calibration instead of the chip's defaults.
        out: The output file: .toml, for `predict --calibration`.
        json: Print the fit as JSON.
    """
    if not recordings:
        raise UsageError(
            "no recording was given", next="counterpoint calibrate RUN --target 8xH100 -o h100.toml"
        )
    if target is None:
        raise UsageError(
            "--target is missing: which GPUs were these measured on?",
            next="use --target 8xH100",
        )
    if out is not None:
        check_output(out, force=force, endings=(ENDING,))
    from counterpoint.cost.scalars import default_scalars, read_scalars
    from counterpoint.hardware.targets import parse_target
    from counterpoint.report.predict.calibration_document import (
        calibration_document,
        calibration_json,
    )
    from counterpoint.runs.timeline import read
    from counterpoint.workflow.calibration import calibrate as fit

    where = parse_target(target)
    usual = default_scalars(where.gpu)
    start = usual if calibration is None else read_scalars(calibration).over(usual, where.gpu)
    with Progress("reading") as progress:
        timelines = [read(path) for path in recordings]
        progress.say("fitting")
        found = fit(timelines, where, start=start)
    if out is not None and found.fitted:
        write_output(out, found.toml())
        say_wrote(out)
    if json:
        write_result(calibration_json(found, str(out) if out and found.fitted else None))
    else:
        next_command = _next(recordings, str(where), calibration, out) if found.fitted else ""
        print_report(calibration_document(found, next_command, str(where)))
    found.refuse_nothing(*recordings[:1])


def _next(recordings: Sequence[str], target: str, start: Path | None, out: Path | None) -> str:
    """Return the next command: save the fit, or predict the measured run or the user's program."""
    if out is None:
        begun = [] if start is None else ["--calibration", str(start)]
        words = ["calibrate", *recordings, "--target", target, *begun, "-o", "calibration.toml"]
        return shlex.join(["counterpoint", *words])
    workload = [recordings[0]] if is_run(recordings[0]) else ["--", "python", "train.py"]
    words = ["predict", "--target", target, "--calibration", str(out), *workload]
    return shlex.join(["counterpoint", *words])
