"""What the commands of the PGLE workflows share: options, the task they make, the report left."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cyclopts import Parameter

from counterpoint.cli.digest import digest_of_compared
from counterpoint.cli.numbers import WholeNumber
from counterpoint.cli.output import write_output
from counterpoint.cli.workload import ProfileOptions, Switch, WorkloadOptions, make_request
from counterpoint.core.errors import UsageError
from counterpoint.pgle.make import check_percentile
from counterpoint.report.document import Document, printable
from counterpoint.report.terminal import plain_text, print_document
from counterpoint.report.workflow_sections import times_line
from counterpoint.workflow.feedback.feedback import Feedback
from counterpoint.workflow.feedback.task import Task

_HOME: Final = Path("counterpoint-runs")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How the profile is made, and how much is run to see what it gains.

    Args:
        repeats: Pairs of runs without and with the profile, in ABBA order.
        percentile: Which of an instruction's times becomes its cost.
        min_coverage: Stop where the profile covers a smaller share of its program.
    """

    repeats: WholeNumber = 1
    percentile: float = 50.0
    min_coverage: float = 0.9


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is printed.

    Args:
        print_only: Print the plain commands that this stands for, and run nothing.
        json: Print the report as JSON.
    """

    print_only: Switch = False
    json: Switch = False


def make_task(
    way: str,
    command: Sequence[str],
    workload: WorkloadOptions | None,
    profile: ProfileOptions | None,
    loop: LoopOptions | None = None,
) -> Task:
    """The workload with its options, to be run several times."""
    loop = loop or LoopOptions()
    if not command:
        raise UsageError("no command was given", next=f"counterpoint pgle {way} -- python train.py")
    if loop.repeats < 1:
        raise UsageError(
            f"--repeats takes a number from 1 on, not {loop.repeats}", next="--repeats 1"
        )
    check_percentile(loop.percentile)
    if not 0 <= loop.min_coverage <= 1:
        raise UsageError(f"--min-coverage takes a share from 0 to 1, not {loop.min_coverage:g}")
    request = make_request(
        command, workload or WorkloadOptions(), profile or ProfileOptions(), echo="stderr"
    )
    if request.window is None:
        raise UsageError(
            "--no-profile, but a profile is what this is about",
            next="leave --no-profile out",
        )
    return Task(
        request=request,
        directory=request.directory or _directory(way),
        repeats=loop.repeats,
        percentile=loop.percentile,
        min_coverage=loop.min_coverage,
    )


def _directory(way: str) -> Path:
    return _HOME / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-pgle-{way}"


def say(line: str) -> None:
    """One line of progress, beside what the workload prints."""
    print(f"counterpoint: {line}", file=sys.stderr)


def feedback_digest(feedback: Feedback) -> Iterator[str]:
    """The two lines of runs without and with a profile, where they were compared."""
    if not feedback.used:
        return iter(())
    without, with_profile = feedback.without, feedback.with_profile
    times = times_line(without.scores, with_profile.scores, feedback.comparison)
    measured = () if feedback.measured is None else (feedback.measured,)
    return digest_of_compared(times, (*with_profile.runs, *measured, *without.runs))


def deliver(
    directory: Path,
    document: Document,
    data: Callable[[], str],
    digest: Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Print the report, and keep it beside what it reports on; the digest is for the job's log."""
    text = data()
    write_output(directory / "report.json", text)
    write_output(directory / "report.txt", plain_text(document))
    if as_json:
        sys.stdout.write(text)
        return
    print_document(document, sys.stdout)
    for line in digest:
        say(printable(line))
    say(f"the same in {shlex.quote(str(directory / 'report.txt'))} and report.json")
