"""The command that follows `memory`: what makes the step fit, or where it goes."""

from __future__ import annotations

import shlex

from counterpoint.core.notebook import as_typed
from counterpoint.workflow.memory.fit import FitTry
from counterpoint.workflow.memory.report import MemoryReport
from counterpoint.workflow.memory.request import MemoryRequest


def next_command(report: MemoryReport, request: MemoryRequest) -> str:
    """Return the next command for the same workload."""
    subject = ["--", *as_typed(request.command)] if request.command else [str(request.workload)]
    target = ["--target", str(request.target or "8xH100")]
    best = next((it for it in report.tries if it.fits), None)
    if best is not None:
        return shlex.join(["counterpoint", "predict", *target, *_options(best), *subject])
    if report.short_by is not None and not (report.tries or report.is_compiled):
        return shlex.join(["counterpoint", "memory", "--fit", *target, *subject])
    return shlex.join(["counterpoint", "predict", *target, "--explain", *subject])


def _options(best: FitTry) -> list[str]:
    """Return a try's settings as options of `predict`."""
    words = best.settings.split()
    return [
        f"--set={word.removeprefix('--')}" if word.startswith("-") else f"--env={word}"
        for word in words
    ]
