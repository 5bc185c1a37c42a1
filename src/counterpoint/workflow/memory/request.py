"""`memory`: from a workload to the report of its memory, and to what makes it fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from counterpoint.compile.inputs.workload import Workload
from counterpoint.core import UsageError
from counterpoint.core.opening import read_input
from counterpoint.core.unpacking import unpack
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.memory.plan import plan_from_proto
from counterpoint.hlo.reader import read_program
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.memory.fit import fit_candidates, fit_tries
from counterpoint.workflow.memory.report import MemoryReport, memory_report, report_of_forecast
from counterpoint.workflow.prediction import Prediction, predict, predict_command
from counterpoint.workflow.prediction.prediction import read_question

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """What is asked for.

    Args:
        workload: A path, a function or a loaded one; not used for a command.
        command: The words of a command to lower; none: `workload` is asked about.
        target: The machine; None: that of the workload, if it has one.
        program: The program of several.
        options: How it is compiled and priced.
        at: An instruction of the schedule; None: the peak.
        fit: Whether changes are compiled that may make it fit.
    """

    workload: Workload | str
    command: Sequence[str] = ()
    target: Target | None = None
    program: str | None = None
    options: PredictionOptions
    at: str | None = None
    fit: bool = False


def memory(
    workload: Workload | Path | str,
    *,
    target: Target | str | None = None,
    program: str | None = None,
    at: str | None = None,
    fit: bool = False,
    **asked_for: Any,  # noqa: ANN401 - the fields of PredictionOptions
) -> MemoryReport:
    """Return what a step holds in a device's memory, whose it is, and what would make it fit.

    `asked_for` are fields of PredictionOptions, as in
    `memory("ir", target="8xH100", settings=...)`; `at` is an instruction of the schedule instead of
    the peak. With `fit`, changes of the settings are compiled and priced.
    """
    where = parse_target(target, tpus=True) if isinstance(target, str) else target
    request = MemoryRequest(
        workload=workload if isinstance(workload, Workload) else str(workload),
        target=where,
        program=program,
        options=read_question(None, asked_for),
        at=at,
        fit=fit,
    )
    return requested_memory(request)


def requested_memory(request: MemoryRequest, say: Say = lambda _: None) -> MemoryReport:
    """Return the memory of a step: by the plan in the file, or by a compile."""
    planned = None if request.command else _planned(request)
    if planned is not None:
        return planned
    prediction = _predicted(request, request.options, say)
    report = report_of_forecast(prediction.base, prediction.target, at=request.at)
    if not request.fit or report.budget is None:
        return report
    candidates = fit_candidates(prediction.target, report.analysis.needs, report.budget)
    if not candidates:
        return report
    tried = _predicted(request, replace(request.options, candidates=tuple(candidates)), say)
    return replace(report, tries=tuple(fit_tries(tried.candidates, prediction.base.step_s)))


def _planned(request: MemoryRequest) -> MemoryReport | None:
    """Return the report of a file with the plan of a compile; None if it is no such file."""
    if isinstance(request.workload, Workload) or not (path := Path(request.workload)).is_file():
        return None
    data = unpack(read_input(path), str(path))
    plan = plan_from_proto(data, str(path))
    if plan is None:
        return None
    if request.fit:
        raise UsageError(
            "--fit compiles the program again, and this file has the compiled one",
            next="pass the program before XLA's passes: a function, a command or StableHLO",
        )
    settings = request.options.settings
    report = memory_report(
        read_program(data),
        plan,
        request.target,
        environment=settings.variables,
        flags=settings.flags,
        at=request.at,
    )
    return replace(report, is_compiled=True)


def _predicted(request: MemoryRequest, options: PredictionOptions, say: Say) -> Prediction:
    if request.command:
        return predict_command(
            list(request.command), request.target, request.program, options, keep=None, say=say
        )
    return predict(
        request.workload,
        target=request.target,
        program=request.program,
        question=replace(options, inherited=dict(os.environ)),
        say=say,
    )
