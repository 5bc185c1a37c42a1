"""From Settings to a Forecast: what the compiler is told, what it returns, what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.compile import Compiled, ForPrediction, Task, Workload, for_prediction
from counterpoint.cost import CostModel
from counterpoint.cost.build import build_model
from counterpoint.cost.measured import Measured
from counterpoint.cost.scalars import Scalars
from counterpoint.cost.tables import Table
from counterpoint.cost.what_if import WhatIf
from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.simulate import Jitter, Simulation, simulate
from counterpoint.workflow.prediction.memory_fit import memory_fit
from counterpoint.workflow.prediction.prediction import Forecast
from counterpoint.workflow.prediction.variants import Variant

_STREAMS: Final = "xla_gpu_experimental_enable_collective_multi_streaming"
_TRUE: Final = ("true", "True", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A target, and what prices instructions on it."""

    target: Target
    scalars: Scalars | None = None
    measured: Measured | None = None
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
    """On how many streams XLA puts collectives: the same program on more is another step."""
    return 2 if settings.flags.get(_STREAMS) in _TRUE else 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One compile that is wanted: its Settings, and what they come to without a device."""

    variant: Variant
    assumed: ForPrediction
    task: Task


def asked(workload: Workload, target: Target, variant: Variant, timeout_s: float) -> Asked:
    """What to compile a variant with."""
    settings = variant.settings
    options = {**settings.flags, **dict(settings.options)}
    # The flags are options already; the rest says what JAX's allocator leaves the program, too.
    environment = {name: it for name, it in settings.variables.items() if name != "XLA_FLAGS"}
    assumed = for_prediction(workload, target, options, environment)
    task = Task(
        workload=workload,
        target=target,
        options=dict(assumed.options),
        environment=environment,
        timeout_s=timeout_s,
    )
    return Asked(variant, assumed, task)


def forecast(bench: Bench, wanted: Asked, compiled: Compiled) -> Forecast:
    """What the compiled program takes."""
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


def forecast_scheduled(bench: Bench, variant: Variant, program: Program) -> Forecast:
    """The same of a program that was scheduled elsewhere, under whatever Settings."""
    return Forecast(
        name=variant.name,
        settings=variant.settings,
        program=program,
        simulation=bench.simulate(program, variant.settings, hlo=program.written),
        memory=memory_fit(None, bench.target, variant.settings.variables),
        notes=("this program was scheduled already: it is simulated as it is",),
    )
