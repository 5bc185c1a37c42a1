"""`counterpoint pgle nsys`: the same loop, measured by Nsight Systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.workflow import (
    LoopOptions,
    ReportOptions,
    deliver,
    feedback_digest,
    make_task,
    say,
)
from counterpoint.cli.workload import Many, ProfileOptions, Switch, WorkloadOptions
from counterpoint.report.feedback_document import feedback_document
from counterpoint.report.workflow_json import feedback_json
from counterpoint.workflow.feedback.nsys import Nsight, nsys_script
from counterpoint.workflow.feedback.nsys import nsys as run_nsys


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class NsightOptions:
    """How Nsight Systems measures.

    Args:
        from_: An export that exists (.sqlite, .nsys-rep, nsys-jax zip); several are its ranks.
        nsys_option: Passed on to `nsys profile`: --nsys-option=--delay=60.
        disable_async: Measure with async collectives off, as older guides do: another program.
    """

    from_: Annotated[
        tuple[str, ...], Parameter(name="--from", show_default=False, consume_multiple=True)
    ] = ()
    nsys_option: Many = ()
    disable_async: Switch = False


def nsys(
    *command: str,
    nsight: NsightOptions | None = None,
    loop: LoopOptions | None = None,
    report: ReportOptions | None = None,
    workload: WorkloadOptions | None = None,
    window: ProfileOptions | None = None,
) -> int:
    """Profile a run with Nsight Systems, give the compiler what it cost, and prove it was used.

    Exit code 0 when the compiler used the profile, 1 when that is not proved.

    Args:
        command: What to run, behind `--`.
        nsight: How it is measured.
        loop: How the profile is made and tried.
        report: What is printed.
        workload: How it is run.
        window: What is profiled in the compared runs, where the program names no steps.
    """
    report, given = report or ReportOptions(), nsight or NsightOptions()
    how = Nsight(given.from_, given.nsys_option, disable_async=given.disable_async)
    task = make_task("nsys", command, workload, window, loop)
    if report.print_only:
        print(nsys_script(task, how), end="")
        return 0
    feedback = run_nsys(task, how, say)
    document = feedback_document(feedback)
    data, digest = lambda: feedback_json(feedback), feedback_digest(feedback)
    deliver(task.directory, document, data, digest, as_json=report.json)
    return 0 if feedback.used else 1
