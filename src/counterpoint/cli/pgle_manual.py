"""`counterpoint pgle manual`: measure a run, run with what was measured, prove and compare."""

from __future__ import annotations

from pathlib import Path
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
from counterpoint.cli.workload import ProfileOptions, WorkloadOptions
from counterpoint.report.feedback_document import feedback_document
from counterpoint.report.workflow_json import feedback_json
from counterpoint.workflow.feedback.manual import manual as run_manual
from counterpoint.workflow.feedback.manual import manual_script


def manual(
    *command: str,
    profile: Annotated[Path | None, Parameter(show_default=False)] = None,
    loop: LoopOptions | None = None,
    report: ReportOptions | None = None,
    workload: WorkloadOptions | None = None,
    window: ProfileOptions | None = None,
) -> int:
    """Profile a run, give the compiler what it cost, and prove that it was used.

    Exit code 0 when the compiler used the profile, 1 when that is not proved.

    Args:
        command: What to run, behind `--`.
        profile: Use this profile instead of measuring one.
        loop: How the profile is made and tried.
        report: What is printed.
        workload: How it is run.
        window: What is profiled.
    """
    report = report or ReportOptions()
    task = make_task("manual", command, workload, window, loop)
    if report.print_only:
        print(manual_script(task, profile), end="")
        return 0
    feedback = run_manual(task, say, profile)
    document = feedback_document(feedback)
    data, digest = lambda: feedback_json(feedback), feedback_digest(feedback)
    deliver(task.directory, document, data, digest, as_json=report.json)
    return 0 if feedback.used else 1
