"""Forecast: what becomes of Settings, from the compiler's input to the simulated step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.compile.assumptions import AssumedOptions, assumed_options
from counterpoint.compile.compiler import CompiledProgram
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.task import CompileTask
from counterpoint.core import UsageError
from counterpoint.cost.build import build_model
from counterpoint.cost.measured import MeasuredCosts
from counterpoint.cost.model import CostModel
from counterpoint.cost.scalars import Scalars
from counterpoint.cost.tables import Table
from counterpoint.cost.what_if import WhatIf
from counterpoint.flags.settings import Settings
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.jitter import Jitter
from counterpoint.simulate.simulation import Simulation, simulate
from counterpoint.workflow.forecast.loop_trips import LoopTrips
from counterpoint.workflow.forecast.ranking import Forecast, memory_fit
from counterpoint.workflow.variant import Variant

_DUMP: Final = "xla_dump_to"
_STREAMS: Final = "xla_gpu_experimental_enable_collective_multi_streaming"
_TRUE: Final = ("true", "True", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PricingContext:
    """A target, and what prices instructions on it."""

    target: Target
    scalars: Scalars | None = None
    measured: MeasuredCosts | None = None
    measured_parts: Sequence[MeasuredCosts | None] = ()  # of a step that runs several programs
    tables: Sequence[Table] = ()
    jitter: Jitter | None = None
    trips: LoopTrips = field(default_factory=LoopTrips)

    def of_part(self, number: int) -> PricingContext:
        """Return the context of one program of a step, with the costs that are its own."""
        if not self.measured_parts:
            return self
        return replace(self, measured=self.measured_parts[number], measured_parts=())

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
            f"--schedule-only and {_DUMP} exclude each other",
            why="libtpu is stopped as soon as it has dumped the schedule, before it dumps the rest",
            next="omit --schedule-only",
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
    program, told = pricing.trips.applied(compiled.program)
    fit = memory_fit(compiled.memory, pricing.target, environment, wanted.assumed.memory_fraction)
    return Forecast(
        name=wanted.variant.name,
        settings=wanted.variant.settings,
        program=program,
        simulation=pricing.simulate(program, wanted.variant.settings, hlo=compiled.hlo),
        memory=fit,
        compiled=compiled,
        notes=(*wanted.assumed.notes, *compiled.notes, *told),
    )


def forecast_scheduled(pricing: PricingContext, variant: Variant, program: Program) -> Forecast:
    """Do the same for a program that was scheduled elsewhere, under unknown Settings."""
    notes = ["this program is already scheduled; it is simulated as it is"]
    if pricing.target.tpu is not None:
        notes.append(
            "XLA's estimates are of the generation of TPU that the program was compiled for, which"
            f" it does not state: {pricing.target.tpu.tpu.name} is assumed"
        )
    written = program.written
    program, told = pricing.trips.applied(program)
    return Forecast(
        name=variant.name,
        settings=variant.settings,
        program=program,
        simulation=pricing.simulate(program, variant.settings, hlo=written),
        memory=memory_fit(None, pricing.target, variant.settings.variables),
        notes=(*notes, *told),
    )
