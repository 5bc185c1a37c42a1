"""`counterpoint pgle auto`, `manual` and `nsys`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from counterpoint.cli.digest import digest_of_compared
from counterpoint.cli.notebooks import with_notebook
from counterpoint.cli.options import flat
from counterpoint.cli.output import write_output
from counterpoint.cli.printing import (
    document_text,
    print_report,
    say_line,
    write_file,
    write_result,
)
from counterpoint.cli.workload import ProfileOptions, WorkloadOptions, make_request
from counterpoint.core import UsageError
from counterpoint.core.bounds import check_number
from counterpoint.core.printable import printable
from counterpoint.report.document import Document
from counterpoint.report.pgle.feedback_document import auto_document, feedback_document, times_line
from counterpoint.report.pgle.feedback_json import auto_json, feedback_json
from counterpoint.workflow.feedback import (
    AutoOptions,
    AutoResult,
    Feedback,
    FeedbackTask,
    LoopOptions,
    NsysSource,
    auto_script,
    manual_script,
    nsys_script,
)
from counterpoint.workflow.feedback import auto as run_auto
from counterpoint.workflow.feedback import manual as run_manual
from counterpoint.workflow.feedback import nsys as run_nsys

_HOME: Final = Path("counterpoint-runs")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The output.

    Args:
        print_only: Print the equivalent plain commands, and run nothing.
        json: Print the report as JSON.
    """

    print_only: bool = False
    json: bool = False


def make_task(
    way: str,
    command: Sequence[str],
    workload: WorkloadOptions,
    profile: ProfileOptions,
    loop: LoopOptions = LoopOptions(),
) -> FeedbackTask:
    """Return the workload with its options, to be run several times."""
    if not command:
        raise UsageError("no command was given", next=f"counterpoint pgle {way} -- python train.py")
    loop.check()
    request = make_request(with_notebook(command), workload, profile, echo="stderr")
    if request.window is None:
        raise UsageError(
            "--no-profile: this command needs a profile",
            next="omit --no-profile",
        )
    return FeedbackTask(
        request=request,
        directory=request.directory or _directory(way),
        **vars(loop),
    )


def _directory(way: str) -> Path:
    return _HOME / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-pgle-{way}"


def say(line: str) -> None:
    """Print one line of progress next to the output of the workload."""
    say_line(f"counterpoint: {line}")


def feedback_digest(feedback: Feedback) -> Iterator[str]:
    """Yield the digest of runs without and with a profile if they were compared."""
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
    """Print the report and save it with its runs; the digest is for the log of the job."""
    text = data()
    write_output(directory / "report.json", text)
    write_output(directory / "report.txt", document_text(document))
    if as_json:
        write_result(text)
        return
    print_report(document)
    for line in digest:
        say(printable(line))
    say(f"report saved as {shlex.quote(str(directory / 'report.txt'))} and report.json")


def auto(
    *command: str,
    runs: int | None = None,
    no_before: bool = False,
    nsys: bool = False,
    report: ReportOptions = ReportOptions(),
    workload: WorkloadOptions = WorkloadOptions(),
    window: ProfileOptions = ProfileOptions(),
) -> int:
    """Let JAX measure the first calls of each function, and recompile it with the result.

    Exit code 0 if a program was compiled with JAX's measurements, else 1.

    Args:
        command: The command to run, after `--`.
        runs: Calls of each function that JAX measures; by default JAX_PGLE_PROFILING_RUNS, or 3.
        no_before: Skip the unchanged run that the optimized one is compared with.
        nsys: Record the optimized program with Nsight Systems.
    """
    if runs is not None:
        check_number("--runs", runs, 1, instead=3)
    how = AutoOptions(calls=runs, before=not no_before, nsys=nsys)
    task = make_task("auto", command, workload, window)
    if report.print_only:
        write_file(auto_script(task, how))
        return 0
    result = run_auto(task, how, say)
    document = auto_document(result)
    deliver(
        task.directory, document, lambda: auto_json(result), _digest(result), as_json=report.json
    )
    return 0 if result.used else 1


def _digest(result: AutoResult) -> Iterator[str]:
    if result.scores is None or result.before is None or result.after is None:
        return iter(())
    before, after = result.scores
    times = times_line([before], [after], result.comparison)
    return digest_of_compared(times, (result.after, result.before))


def manual(
    *command: str,
    profile: Path | None = None,
    loop: Annotated[LoopOptions, flat] = LoopOptions(),
    report: ReportOptions = ReportOptions(),
    workload: WorkloadOptions = WorkloadOptions(),
    window: ProfileOptions = ProfileOptions(),
) -> int:
    """Profile a run, compile with the measured costs, and prove that they were used.

    Exit code 0 if the compiler's use of the profile is proved, else 1.

    Args:
        command: The command to run, after `--`.
        profile: Use this profile instead of measuring one.
    """
    task = make_task("manual", command, workload, window, loop)
    if report.print_only:
        write_file(manual_script(task, profile))
        return 0
    return _deliver_feedback(task, run_manual(task, say, profile), report)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NsightOptions:
    """The measurement by Nsight Systems.

    Args:
        from_: An existing export (.sqlite, .nsys-rep, nsys-jax zip); several are its ranks.
        nsys_option: An option for `nsys profile`: --nsys-option=--delay=60.
        disable_async: Measure with async collectives off, which compiles a different program.
    """

    from_: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = ()
    nsys_option: tuple[str, ...] = ()
    disable_async: bool = False


def nsys(
    *command: str,
    nsight: NsightOptions = NsightOptions(),
    loop: Annotated[LoopOptions, flat] = LoopOptions(),
    report: ReportOptions = ReportOptions(),
    workload: WorkloadOptions = WorkloadOptions(),
    window: ProfileOptions = ProfileOptions(),
) -> int:
    """Profile a run with Nsight Systems, compile with its costs, and prove that they were used.

    Exit code 0 if the compiler's use of the profile is proved, else 1.

    Args:
        command: The command to run, after `--`.
    """
    how = NsysSource(nsight.from_, nsight.nsys_option, disable_async=nsight.disable_async)
    task = make_task("nsys", command, workload, window, loop)
    if report.print_only:
        write_file(nsys_script(task, how))
        return 0
    return _deliver_feedback(task, run_nsys(task, how, say), report)


def _deliver_feedback(task: FeedbackTask, feedback: Feedback, report: ReportOptions) -> int:
    """Print and save what came of a workflow; return its exit code."""
    document = feedback_document(feedback)
    data, digest = lambda: feedback_json(feedback), feedback_digest(feedback)
    deliver(task.directory, document, data, digest, as_json=report.json)
    return 0 if feedback.used else 1
