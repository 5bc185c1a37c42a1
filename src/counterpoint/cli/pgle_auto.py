"""`counterpoint pgle auto`: AutoPGLE set up right, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.cli.digest import digest_of_compared
from counterpoint.cli.numbers import WholeNumber
from counterpoint.cli.workflow import ReportOptions, deliver, make_task, say
from counterpoint.cli.workload import ProfileOptions, Switch, WorkloadOptions
from counterpoint.core.errors import UsageError
from counterpoint.report.auto_document import auto_document
from counterpoint.report.workflow_json import auto_json
from counterpoint.report.workflow_sections import times_line
from counterpoint.workflow.feedback.auto import CALLS, Auto, How, auto_script
from counterpoint.workflow.feedback.auto import auto as run_auto


def auto(
    *command: str,
    runs: WholeNumber = CALLS,
    no_before: Switch = False,
    nsys: Switch = False,
    report: ReportOptions | None = None,
    workload: WorkloadOptions | None = None,
    window: ProfileOptions | None = None,
) -> int:
    """Let JAX measure the first calls of each function, and compile it anew with that.

    Exit code 0 when a program was compiled with what JAX measured, 1 when not.

    Args:
        command: What to run, behind `--`.
        runs: Calls of each function that JAX measures.
        no_before: Leave out the run before, to which the optimised one is compared.
        nsys: Record the optimised program with Nsight Systems.
        report: What is printed.
        workload: How it is run.
        window: What is profiled before and after.
    """
    if runs < 1:
        raise UsageError(f"--runs takes a number from 1 on, not {runs}", next="--runs 3")
    report = report or ReportOptions()
    how = How(calls=runs, before=not no_before, nsys=nsys)
    task = make_task("auto", command, workload, window)
    if report.print_only:
        print(auto_script(task, how), end="")
        return 0
    made = run_auto(task, how, say)
    document = auto_document(made)
    deliver(task.directory, document, lambda: auto_json(made), _digest(made), as_json=report.json)
    return 0 if made.used else 1


def _digest(made: Auto) -> Iterator[str]:
    if made.scores is None or made.before is None or made.after is None:
        return iter(())
    before, after = made.scores
    times = times_line([before], [after], made.comparison)
    return digest_of_compared(times, (made.after, made.before))
