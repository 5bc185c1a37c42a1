"""From Settings to a Forecast: the input of the compiler, its output, and the simulated step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.compile import (
    AssumedOptions,
    CompiledProgram,
    CompileTask,
    assumed_options,
    compile_all,
)
from counterpoint.compile.inputs import Workload
from counterpoint.core import CounterpointError, InputError
from counterpoint.cost import CostModel, MeasuredCosts, Scalars, WhatIf, build_model
from counterpoint.cost.tables import Table
from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.simulate import Jitter, Simulation, simulate
from counterpoint.workflow.forecast.carried_costs import TransferredCosts, transfer_costs
from counterpoint.workflow.forecast.memory_fit import memory_fit
from counterpoint.workflow.forecast.prediction import Forecast, RankedCandidate
from counterpoint.workflow.forecast.ranking import ranked
from counterpoint.workflow.forecast.unknown_flags import PredictionOptions, Say, with_the_others
from counterpoint.workflow.subject.subject import (
    PredictionSubject,
    Variant,
    candidate,
    with_unique_names,
)

_STREAMS: Final = "xla_gpu_experimental_enable_collective_multi_streaming"
_TRUE: Final = ("true", "True", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingContext:
    """A target, and what prices instructions on it."""

    target: Target
    scalars: Scalars | None = None
    measured: MeasuredCosts | None = None
    tables: Sequence[Table] = ()
    jitter: Jitter | None = None

    def model(self, what_if: WhatIf | None = None) -> CostModel:
        return build_model(
            self.target,
            scalars=self.scalars,
            measured=self.measured,
            tables=self.tables,
            what_if=what_if,
        )

    def simulate(
        self,
        program: Program,
        settings: Settings,
        *,
        hlo: bytes | None = None,
        what_if: WhatIf | None = None,
    ) -> Simulation:
        gpu = self.target.known_gpu
        return simulate(
            program,
            self.model(what_if),
            target=self.target,
            device_name=gpu.description if gpu else None,
            jitter=self.jitter if what_if is None else None,
            hlo=hlo,
            communication_streams=communication_streams(settings),
        )


def communication_streams(settings: Settings) -> int:
    """Return the number of streams for collectives, which changes the step of the same program."""
    return 2 if settings.flags.get(_STREAMS) in _TRUE else 1


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """A requested compile: its Settings, and how they are compiled without a device."""

    variant: Variant
    assumed: AssumedOptions
    task: CompileTask


def compile_request(
    workload: Workload, target: Target, variant: Variant, timeout_s: float
) -> CompileRequest:
    """Return the compile request of a variant."""
    settings = variant.settings
    options = {**settings.flags, **dict(settings.options)}
    # The flags are options already; the rest decides what JAX's allocator leaves the program, too.
    environment = {name: value for name, value in settings.variables.items() if name != "XLA_FLAGS"}
    assumed = assumed_options(workload, target, options, environment)
    task = CompileTask(
        workload=workload,
        target=target,
        options=dict(assumed.options),
        environment=environment,
        timeout_s=timeout_s,
    )
    return CompileRequest(variant, assumed, task)


def forecast(bench: PricingContext, wanted: CompileRequest, compiled: CompiledProgram) -> Forecast:
    """Simulate the compiled program, and check its memory."""
    environment = wanted.variant.settings.variables
    fit = memory_fit(compiled.memory, bench.target, environment, wanted.assumed.memory_fraction)
    return Forecast(
        name=wanted.variant.name,
        settings=wanted.variant.settings,
        program=compiled.program,
        simulation=bench.simulate(compiled.program, wanted.variant.settings, hlo=compiled.hlo),
        memory=fit,
        compiled=compiled,
        notes=(*wanted.assumed.notes, *compiled.notes),
    )


def forecast_scheduled(bench: PricingContext, variant: Variant, program: Program) -> Forecast:
    """Do the same for a program that was scheduled elsewhere, under unknown Settings."""
    return Forecast(
        name=variant.name,
        settings=variant.settings,
        program=program,
        simulation=bench.simulate(program, variant.settings, hlo=program.written),
        memory=memory_fit(None, bench.target, variant.settings.variables),
        notes=("this program was scheduled already: it is simulated as it is",),
    )


BASE: Final = "base"


@dataclass(frozen=True, slots=True)
class PredictionInputs:
    """The common inputs of the parts of one prediction."""

    subject: PredictionSubject
    bench: PricingContext
    question: PredictionOptions
    say: Say


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastBatch:
    """The base and all candidates in their order, and the bench with all that priced them."""

    base: Forecast
    standings: tuple[RankedCandidate, ...] = ()
    bench: PricingContext
    carried: TransferredCosts | None


def forecasts(work: PredictionInputs) -> ForecastBatch:
    """Forecast the base and the candidates, in their order, with the base among them."""
    settings = work.subject.settings.merged(work.question.settings)
    base = Variant(BASE, settings)
    others = with_unique_names(
        candidate(choice, settings, chip=work.bench.target.gpu)
        if isinstance(choice, str)
        else choice
        for choice in work.question.candidates
    )
    if work.subject.program is not None:
        return _scheduled(work, base, others)
    wanted, results = _compile(work, [base, *others])
    first = results[0]
    if isinstance(first, CounterpointError):
        raise first
    carried = _carried(work, first.program)
    bench = replace(work.bench, measured=carried.measured if carried else None)
    work.say("simulating")
    outcomes = [
        result if isinstance(result, CounterpointError) else forecast(bench, request, result)
        for request, result in zip(wanted, results, strict=True)
    ]
    base_forecast = outcomes[0]
    if isinstance(base_forecast, CounterpointError):
        raise base_forecast
    standings = _standings([base, *others], outcomes)
    return ForecastBatch(base=base_forecast, standings=standings, bench=bench, carried=carried)


def _scheduled(work: PredictionInputs, base: Variant, others: Sequence[Variant]) -> ForecastBatch:
    program = work.subject.program
    changed = [*base.settings.flags, *dict(base.settings.options)]
    if program is None or others or changed or work.question.pgle:
        what = "--candidate" if others else f"--set {changed[0]}" if changed else "--pgle"
        raise InputError(
            f"{what}: {work.subject.origin} is scheduled already, so no setting changes it",
            why="XLA can't compile one of those again",
            next="give the program before XLA's passes: JAX_DUMP_IR_TO=ir, or -- python train.py",
        )
    carried = _carried(work, program)
    bench = replace(work.bench, measured=carried.measured if carried else None)
    work.say("simulating")
    base_forecast = forecast_scheduled(bench, base, program)
    return ForecastBatch(base=base_forecast, bench=bench, carried=carried)


def _compile(
    work: PredictionInputs, variants: Sequence[Variant]
) -> tuple[list[CompileRequest], list[CompiledProgram | CounterpointError]]:
    """Compile all variants in parallel; an error of the base ends the rest."""
    workload = work.subject.workload
    if workload is None:
        raise ValueError("a scheduled program is not compiled")
    timeout_s = work.question.timeout_s
    wanted = [
        compile_request(workload, work.bench.target, variant, timeout_s) for variant in variants
    ]
    results: dict[int, CompiledProgram | CounterpointError] = {}
    work.say(f"compiling {work.subject.name} for {work.bench.target}")
    for number, result in compile_all(
        [request.task for request in wanted], work.question.jobs, work.say
    ):
        results[number] = result
        if number == 0 and isinstance(result, CounterpointError):
            flags = wanted[0].variant.settings.flags
            raise with_the_others(result, flags, work.question.recipes)
    return wanted, [results[number] for number in range(len(wanted))]


def _carried(work: PredictionInputs, program: Program) -> TransferredCosts | None:
    if work.question.profile is None:
        return None
    work.say(f"reading {work.question.profile}")
    return transfer_costs(work.question.profile, program, work.bench.target)


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
