"""`counterpoint pgle check`: whether a profile fits a program, and what it lacks."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.numbers import WholeNumber
from counterpoint.cli.progress import Progress
from counterpoint.core.errors import UsageError
from counterpoint.pgle.check import Coverage, check_profile
from counterpoint.pgle.files import read_profile
from counterpoint.pgle.judgement import COVERAGE, Judgement, judge
from counterpoint.pgle.subject import Subject, find_subject
from counterpoint.report.pgle_check_document import pgle_check_document, pgle_check_json
from counterpoint.report.terminal import print_document


def check(
    profile: Path,
    *,
    program: Path,
    module: str | None = None,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> int:
    """Say how much of a program a profile covers, and whether it was made of it.

    Exit code 1 where it covers too little, or is of another program.

    Args:
        profile: The profile: .pbtxt, .pb, or a directory of <fingerprint>.pbtxt.
        program: An HLO file after optimisation, a directory of XLA dumps, a Run, or a profile
            that embeds its HLO (the last two tell times).
        module: Check against this module; else the step's, or the largest.
        min_coverage: Least share of instructions, and of collectives, with a cost.
        min_time: Least share of measured device time with a cost; 0.9 where times are known.
        top: Rows in each table.
        json: Print everything as JSON, uncut.
    """
    _check_share("--min-coverage", min_coverage)
    _check_share("--min-time", min_time)
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    costs = read_profile(profile)
    with Progress("reading") as progress:
        progress.say(f"reading {program.name}")
        subject = find_subject(program, module)
    coverage = check_profile(costs, subject.program, subject.measured, subject.circumstances)
    judgement = judge(coverage, min_coverage, min_time)
    _print(profile, subject, coverage, judgement, (program, top, json))
    return 0 if judgement.passed else 1


def _check_share(option: str, share: float | None) -> None:
    if share is not None and not 0 <= share <= 1:
        raise UsageError(f"{option} takes a share from 0 to 1, not {share:g}", next=f"{option} 0.9")


def _print(
    profile: Path,
    subject: Subject,
    coverage: Coverage,
    judgement: Judgement,
    shown: tuple[Path, int, bool],
) -> None:
    program, top, as_json = shown
    next_step = judgement.next or _use(profile, program)
    if as_json:
        text = pgle_check_json(coverage, judgement, str(profile), subject.where, next_step)
        sys.stdout.write(text)
        return
    print_document(
        pgle_check_document(coverage, judgement, str(profile), subject.where, top, next_step),
        sys.stdout,
    )


def _use(profile: Path, program: Path) -> str:
    words = ["counterpoint", "pgle", "apply", str(profile), "--program", str(program)]
    return shlex.join([*words, "--target", "8xH100"])
