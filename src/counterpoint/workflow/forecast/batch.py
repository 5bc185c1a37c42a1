"""Batches of forecasts: a base and its candidates, compiled at once and simulated one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.pool import compile_all
from counterpoint.core import CounterpointError, InputError
from counterpoint.flags.jaxlib import installed_version
from counterpoint.hlo.model.program import Program
from counterpoint.workflow.forecast.forecast import (
    CompileRequest,
    PricingContext,
    compile_request,
    forecast,
    forecast_scheduled,
)
from counterpoint.workflow.forecast.iteration import forecast_in_turn
from counterpoint.workflow.forecast.measured_costs import TransferredCosts, transfer_costs
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.forecast.ranking import Forecast, RankedCandidate, ranked
from counterpoint.workflow.forecast.unknown_flags import unknown_to_xla_flags, with_the_others
from counterpoint.workflow.subject import PredictionSubject
from counterpoint.workflow.variant import Variant, candidate, with_unique_names

BASE: Final = "base"

_LARGE: Final = 60 << 10
"""Bytes of StableHLO: a step of MaxText, which libtpu compiles in one to five minutes."""

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PredictionInputs:
    """The common inputs of the parts of one prediction."""

    subject: PredictionSubject
    pricing: PricingContext
    question: PredictionOptions
    say: Say


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastBatch:
    """The base and all candidates in their order, and the context that priced them."""

    base: Forecast
    standings: tuple[RankedCandidate, ...] = ()
    pricing: PricingContext
    carried: tuple[TransferredCosts, ...] = ()  # to each program of the step


def forecasts(work: PredictionInputs) -> ForecastBatch:
    """Forecast the base and the candidates, in their order, with the base among them."""
    settings = work.subject.settings.merged(work.question.settings)
    base = Variant(BASE, settings)
    others = with_unique_names(
        candidate(choice, settings, chip=work.pricing.target.gpu)
        if isinstance(choice, str)
        else choice
        for choice in work.question.candidates
    )
    if work.subject.program is not None:
        return _scheduled(work, base, others)
    wanted, results = _compile(work, [base, *others])
    main = work.subject.main if work.subject.cycle else 0
    programs: list[Program] = []
    for result in results[0]:
        if isinstance(result, CounterpointError):
            raise result
        programs.append(result.program)
    carried = _carried(work, programs, main)
    pricing = _measured(work.pricing, carried)
    work.say("simulating")
    outcomes = [
        _outcome(work, pricing, requests, compiled)
        for requests, compiled in zip(wanted, results, strict=True)
    ]
    base_forecast = outcomes[0]
    if isinstance(base_forecast, CounterpointError):
        raise base_forecast
    standings = _standings([base, *others], outcomes)
    return ForecastBatch(base=base_forecast, standings=standings, pricing=pricing, carried=carried)


def _outcome(
    work: PredictionInputs,
    pricing: PricingContext,
    requests: Sequence[CompileRequest],
    compiled: Sequence[CompiledProgram | CounterpointError],
) -> Forecast | CounterpointError:
    """Return the forecast of one variant, or the error of the first program that has one."""
    subject = work.subject
    parts: list[Forecast] = []
    for number, (request, result) in enumerate(zip(requests, compiled, strict=True)):
        if isinstance(result, CounterpointError):
            return result
        parts.append(forecast(pricing.of_part(number), request, result))
    if not subject.cycle:
        return parts[0]
    alive = [part.alive_bytes for part in subject.cycle]
    return forecast_in_turn(
        work.pricing, parts, subject.order, subject.main, alive, subject.updates
    )


def _scheduled(work: PredictionInputs, base: Variant, others: Sequence[Variant]) -> ForecastBatch:
    program = work.subject.program
    changed = [*base.settings.flags, *dict(base.settings.options)]
    if program is None or others or changed or work.question.wants_gain:
        what = "candidate=" if others else f"set={changed[0]}" if changed else "pgle="
        raise InputError(
            f"`{what}`: {work.subject.origin} is already scheduled, so settings cannot change it",
            why="XLA can't compile a scheduled module again",
            next="pass the program before XLA's passes: JAX_DUMP_IR_TO=ir, or -- python train.py",
        )
    carried = _carried(work, [program], 0)
    pricing = _measured(work.pricing, carried)
    work.say("simulating")
    base_forecast = forecast_scheduled(pricing, base, program)
    return ForecastBatch(base=base_forecast, pricing=pricing, carried=carried)


def _compile(
    work: PredictionInputs, variants: Sequence[Variant]
) -> tuple[list[list[CompileRequest]], list[list[CompiledProgram | CounterpointError]]]:
    """Compile the programs of all variants in parallel; an error of the base ends the rest."""
    subject = work.subject
    if subject.workload is None:
        raise ValueError("a scheduled program is not compiled")
    workloads = [part.workload for part in subject.cycle] or [subject.workload]
    timeout_s, only = work.question.timeout_s, work.question.schedule_only
    wanted = [
        [
            compile_request(workload, work.pricing.target, variant, timeout_s, schedule_only=only)
            for workload in workloads
        ]
        for variant in variants
    ]
    size = len(workloads)
    version = installed_version()
    results: dict[int, CompiledProgram | CounterpointError] = {}
    for number, variant in enumerate(variants):
        error = unknown_to_xla_flags(variant.settings, version)
        if error is not None and number == 0:
            raise error
        if error is not None:
            results |= dict.fromkeys(range(number * size, (number + 1) * size), error)
    numbers = [number for number in range(len(wanted) * size) if number not in results]
    verb = "scheduling" if only else "compiling"
    names = ", ".join(workload.name for workload in workloads)
    main = wanted[0][subject.main if subject.cycle else 0]
    work.say(f"{verb} {names} for {work.pricing.target}{_expected([main])}")
    tasks = [wanted[number // size][number % size].task for number in numbers]
    for at, result in compile_all(tasks, work.question.jobs, work.say):
        number = numbers[at]
        results[number] = result
        if number < len(workloads) and isinstance(result, CounterpointError):
            flags = wanted[0][0].variant.settings.flags
            raise with_the_others(result, flags, work.question.recipes)
    return wanted, [
        [results[variant * size + number] for number in range(size)]
        for variant in range(len(variants))
    ]


def _expected(requests: Sequence[CompileRequest]) -> str:
    """Return what is known of the time that libtpu takes; XLA:GPU takes seconds."""
    task = requests[0].task
    if task.target.tpu is None:
        return ""
    if task.schedule_only:
        return " by libtpu, which takes seconds each; minutes for TPU7x, or if layers are no loop"
    large = len(task.workload.program) > _LARGE
    return " by libtpu, which takes one to five minutes each" if large else " by libtpu"


def _carried(
    work: PredictionInputs, programs: Sequence[Program], main: int
) -> tuple[TransferredCosts, ...]:
    if work.question.profile is None:
        return ()
    work.say(f"reading {work.question.profile}")
    return transfer_costs(work.question.profile, programs, main, work.pricing.target)


def _measured(pricing: PricingContext, carried: Sequence[TransferredCosts]) -> PricingContext:
    """Return the context with the costs of each program of the step."""
    costs = [one.measured for one in carried]
    if len(costs) == 1:
        return replace(pricing, measured=costs[0])
    return replace(pricing, measured_parts=costs)


def _standings(
    variants: Sequence[Variant], forecasts: Sequence[Forecast | CounterpointError]
) -> tuple[RankedCandidate, ...]:
    if len(variants) < 2:
        return ()
    return ranked(
        [
            RankedCandidate(
                name=variant.name, settings=variant.settings, is_base=not number, error=result
            )
            if isinstance(result, CounterpointError)
            else RankedCandidate(
                name=variant.name,
                settings=variant.settings,
                is_base=not number,
                forecast=result,
                exposed_ms=result.simulation.exposed_s * 1e3,
            )
            for number, (variant, result) in enumerate(zip(variants, forecasts, strict=True))
        ]
    )
