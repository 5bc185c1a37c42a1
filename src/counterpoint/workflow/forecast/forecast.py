"""From Settings to a Forecast: the input of the compiler, its output, and the simulated step."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final, TypeAlias

from counterpoint.compile import (
    TIMEOUT_S,
    AssumedOptions,
    CompiledProgram,
    CompileTask,
    assumed_options,
    compile_all,
)
from counterpoint.compile.inputs import Workload
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.frozen import frozen
from counterpoint.cost import CostModel, MeasuredCosts, Scalars, WhatIf, build_model
from counterpoint.cost.tables import Table
from counterpoint.flags import Settings
from counterpoint.flags.lifecycle import removal_of
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.simulate import Jitter, Simulation, simulate
from counterpoint.workflow.forecast.measured_costs import TransferredCosts, transfer_costs
from counterpoint.workflow.forecast.ranking import Forecast, RankedCandidate, memory_fit, ranked
from counterpoint.workflow.subject import PredictionSubject
from counterpoint.workflow.variant import Variant, candidate, with_unique_names

_DUMP: Final = "xla_dump_to"
_STREAMS: Final = "xla_gpu_experimental_enable_collective_multi_streaming"
_TRUE: Final = ("true", "True", "1")


@frozen(kw_only=True)
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


@frozen
class CompileRequest:
    """A requested compile: its Settings, and how they are compiled without a device."""

    variant: Variant
    assumed: AssumedOptions
    task: CompileTask


def compile_request(
    workload: Workload,
    target: Target,
    variant: Variant,
    timeout_s: float,
    *,
    schedule_only: bool = False,
) -> CompileRequest:
    """Return the compile request of a variant."""
    settings = variant.settings
    options = {**settings.flags, **dict(settings.options)}
    if schedule_only and _DUMP in options:
        raise UsageError(
            f"`schedule_only=` and {_DUMP} exclude each other",
            why="libtpu is stopped as soon as it has dumped the schedule, before it dumps the rest",
            next=Retry(without=("schedule_only",)),
        )
    # The flags are options already; the rest decides what JAX's allocator leaves the program, too.
    environment = {name: value for name, value in settings.variables.items() if name != "XLA_FLAGS"}
    assumed = assumed_options(workload, target, options, environment)
    task = CompileTask(
        workload=workload,
        target=target,
        options=dict(assumed.options),
        environment=environment,
        timeout_s=timeout_s,
        schedule_only=schedule_only,
    )
    return CompileRequest(variant, assumed, task)


def forecast(
    pricing: PricingContext, wanted: CompileRequest, compiled: CompiledProgram
) -> Forecast:
    """Simulate the compiled program, and check its memory."""
    environment = wanted.variant.settings.variables
    fit = memory_fit(compiled.memory, pricing.target, environment, wanted.assumed.memory_fraction)
    return Forecast(
        name=wanted.variant.name,
        settings=wanted.variant.settings,
        program=compiled.program,
        simulation=pricing.simulate(compiled.program, wanted.variant.settings, hlo=compiled.hlo),
        memory=fit,
        compiled=compiled,
        notes=(*wanted.assumed.notes, *compiled.notes),
    )


def forecast_scheduled(pricing: PricingContext, variant: Variant, program: Program) -> Forecast:
    """Do the same for a program that was scheduled elsewhere, under unknown Settings."""
    notes = ["this program is already scheduled; it is simulated as it is"]
    if pricing.target.tpu is not None:
        notes.append(
            "XLA's estimates are of the generation of TPU that the program was compiled for, which"
            f" it does not state: {pricing.target.tpu.tpu.name} is assumed"
        )
    return Forecast(
        name=variant.name,
        settings=variant.settings,
        program=program,
        simulation=pricing.simulate(program, variant.settings, hlo=program.written),
        memory=memory_fit(None, pricing.target, variant.settings.variables),
        notes=tuple(notes),
    )


BASE: Final = "base"


@frozen
class PredictionInputs:
    """The common inputs of the parts of one prediction."""

    subject: PredictionSubject
    pricing: PricingContext
    question: PredictionOptions
    say: Say


@frozen(kw_only=True)
class ForecastBatch:
    """The base and all candidates in their order, and the context that priced them."""

    base: Forecast
    standings: tuple[RankedCandidate, ...] = ()
    pricing: PricingContext
    carried: TransferredCosts | None


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
    first = results[0]
    if isinstance(first, CounterpointError):
        raise first
    carried = _carried(work, first.program)
    pricing = replace(work.pricing, measured=carried.measured if carried else None)
    work.say("simulating")
    outcomes = [
        result if isinstance(result, CounterpointError) else forecast(pricing, request, result)
        for request, result in zip(wanted, results, strict=True)
    ]
    base_forecast = outcomes[0]
    if isinstance(base_forecast, CounterpointError):
        raise base_forecast
    standings = _standings([base, *others], outcomes)
    return ForecastBatch(base=base_forecast, standings=standings, pricing=pricing, carried=carried)


def _scheduled(work: PredictionInputs, base: Variant, others: Sequence[Variant]) -> ForecastBatch:
    program = work.subject.program
    changed = [*base.settings.flags, *dict(base.settings.options)]
    if program is None or others or changed or work.question.pgle:
        what = "candidate=" if others else f"set={changed[0]}" if changed else "pgle="
        raise InputError(
            f"`{what}`: {work.subject.origin} is already scheduled, so settings cannot change it",
            why="XLA can't compile a scheduled module again",
            next="pass the program before XLA's passes: JAX_DUMP_IR_TO=ir, or -- python train.py",
        )
    carried = _carried(work, program)
    pricing = replace(work.pricing, measured=carried.measured if carried else None)
    work.say("simulating")
    base_forecast = forecast_scheduled(pricing, base, program)
    return ForecastBatch(base=base_forecast, pricing=pricing, carried=carried)


def _compile(
    work: PredictionInputs, variants: Sequence[Variant]
) -> tuple[list[CompileRequest], list[CompiledProgram | CounterpointError]]:
    """Compile all variants in parallel; an error of the base ends the rest."""
    workload = work.subject.workload
    if workload is None:
        raise ValueError("a scheduled program is not compiled")
    timeout_s, only = work.question.timeout_s, work.question.schedule_only
    wanted = [
        compile_request(workload, work.pricing.target, variant, timeout_s, schedule_only=only)
        for variant in variants
    ]
    results: dict[int, CompiledProgram | CounterpointError] = {}
    verb = "scheduling" if only else "compiling"
    work.say(f"{verb} {work.subject.name} for {work.pricing.target}{_expected(wanted)}")
    for number, result in compile_all(
        [request.task for request in wanted], work.question.jobs, work.say
    ):
        results[number] = result
        if number == 0 and isinstance(result, CounterpointError):
            flags = wanted[0].variant.settings.flags
            raise with_the_others(result, flags, work.question.recipes)
    return wanted, [results[number] for number in range(len(wanted))]


_LARGE: Final = 60 << 10
"""Bytes of StableHLO: a step of MaxText, which libtpu compiles in one to five minutes."""


def _expected(requests: Sequence[CompileRequest]) -> str:
    """Return what is known of the time that libtpu takes; XLA:GPU takes seconds."""
    task = requests[0].task
    if task.target.tpu is None:
        return ""
    if task.schedule_only:
        return " by libtpu, which takes seconds each; minutes for TPU7x, or if layers are no loop"
    large = len(task.workload.program) > _LARGE
    return " by libtpu, which takes one to five minutes each" if large else " by libtpu"


def _carried(work: PredictionInputs, program: Program) -> TransferredCosts | None:
    if work.question.profile is None:
        return None
    work.say(f"reading {work.question.profile}")
    return transfer_costs(work.question.profile, program, work.pricing.target)


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


Say: TypeAlias = Callable[[str], None]


@frozen(kw_only=True)
class PredictionOptions:
    """The inputs of a prediction other than its workload and target."""

    settings: Settings = field(default_factory=Settings)
    recipes: Sequence[str] = ()  # names and files that the settings came from
    candidates: Sequence[Variant | str] = ()
    profile: Path | str | None = None  # prices from it: PGLE profile, recording or Run
    against: Path | str | None = None  # a Run or profile to compare with
    what_if: Sequence[str] = ()
    pgle: bool = False
    pgle_out: Path | None = None
    overwrite: bool = False  # the file at pgle_out
    nccl_tables: Sequence[Path] = ()
    gemm_table: Path | None = None
    kernel_table: Path | None = None
    calibration: Path | str | None = None  # the output of `counterpoint calibrate`
    jitter: int | None = None  # seed
    inherited: Mapping[str, str] = field(default_factory=dict[str, str])  # of the shell; not used
    devices: int | None = None  # to lower a function for; default: the target's
    jobs: int | None = None
    timeout_s: float = TIMEOUT_S
    schedule_only: bool = False  # on TPUs: no machine code, and so no estimates of cycles

    def refuse_those_of_others(self, target: Target) -> None:
        """Refuse what only predictions on GPUs have so far, and on GPUs what only TPUs have."""
        if target.tpu is None:
            if self.schedule_only:
                raise UsageError(
                    f"`schedule_only=` is for TPUs, and {target} has GPUs",
                    why="XLA:GPU compiles a step in seconds, machine code included",
                    next=Retry(without=("schedule_only",)),
                )
            return
        given = [name for name in _OF_GPUS if getattr(self, name)]
        if given:
            name = {"nccl_tables": "nccl_table"}.get(given[0], given[0])
            raise UsageError(
                f"`{name}=` is for GPUs, and {target} has TPUs",
                why="docs/guide/tpu.md lists what predictions on TPUs have",
                next=Retry(without=(name,)),
            )


_OF_GPUS: Final = ("nccl_tables", "gemm_table", "kernel_table", "calibration")
_MARK: Final = "has no option "
_MOST: Final = 8


def with_the_others(
    error: CounterpointError, flags: Iterable[str], recipes: Sequence[str]
) -> CounterpointError:
    """Return the error with the other removed flags, and the command that corrects a file."""
    if not isinstance(error, UsageError) or _MARK not in error.what:
        return error
    first = error.what.rpartition(_MARK)[2]
    others = [name for name in dict.fromkeys(flags) if name != first and removal_of(name)]
    removed = ", ".join(others[:_MOST]) + (
        f" and {len(others) - _MOST} more" if others[_MOST:] else ""
    )
    file = next(
        (recipe for recipe in recipes if Path(recipe).is_file() and first in _text(recipe)), None
    )
    then = f"counterpoint flags check {shlex.quote(file)} --fix" if file else error.next
    return UsageError(
        error.what + (f"; also removed: {removed}" if others else ""), why=error.why, next=then
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
