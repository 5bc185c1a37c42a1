"""The simulation of a Program on a cost model: its result, and what the result is based on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from counterpoint.core.columns import Intervals, union
from counterpoint.cost.model import CostModel, PriceFamily, PriceSource
from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.target import Target
from counterpoint.hlo.category import category
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.simulate.drawing import draw, draw_spans
from counterpoint.simulate.engine import MOST_SPANS, MOST_TURNS, Engine, ExecutionTrace, serial_time
from counterpoint.simulate.jitter import Jitter, JitteredSteps, disturb
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import (
    Load,
    Seconds,
)
from counterpoint.simulate.priced_plan import PricedPlan, price_plan
from counterpoint.timeline.model import Device, Lane, Timeline
from counterpoint.timeline.ops import lane


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpricedInstruction:
    """An instruction without a price: bounds for the time of all its executions."""

    instruction: str
    times: int
    low_s: float
    high_s: float
    share: float  # of the longest step within its prices' ranges
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedLoop:
    """A loop of unknown trip count; one trip is counted."""

    instruction: str
    each_s: float
    source: str | None


_OF_PUBLISHED: Final = frozenset(
    {PriceFamily.MATMUL, PriceFamily.ATTENTION, PriceFamily.DOMAIN, PriceFamily.NETWORK}
)
"""Kinds of work that most of a published step is: products and communication."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """One predicted step.

    The range reflects errors of prices: independent between families, equal within one.
    """

    draw: Callable[[], Timeline] = field(repr=False)
    step_s: float
    low_s: float
    high_s: float
    reach_s: Mapping[PriceFamily, tuple[float, float]]  # effect of each family alone on the step
    rests_on: Mapping[PriceSource, float]  # seconds of work, by source of their prices
    exposed_s: float  # communication with no compute beside it
    communicating_s: float  # any communication, exposed or hidden
    communication_s: float  # work of communication, without contention
    compute_s: float
    unpriced: tuple[UnpricedInstruction, ...]
    uncounted: tuple[UncountedLoop, ...]
    critical_path_s: float  # the step if communication and async copies took no time
    busiest_lane_s: float  # work of the busiest stream
    jittered: JitteredSteps | None
    notes: tuple[str, ...]
    on_tpus: bool = False
    as_published: float = 1.0  # share of the work that published steps consist of

    @property
    def lower_bound(self) -> bool:
        """Whether a loop may take more iterations than the one that is counted."""
        return bool(self.uncounted)

    @cached_property
    def timeline(self) -> Timeline:
        """The step as a Timeline, drawn on first access."""
        return self.draw()


def communicating_s(
    program: Program, priced: PricedPlan, trace: ExecutionTrace
) -> tuple[float, float]:
    """Return seconds of communication, and of exposed communication, from the Timeline's spans."""
    lanes = np.array(
        [
            str(lane(category(program, instruction), instruction.opcode))
            for instruction in priced.plan.instructions
        ]
    )
    spans = draw_spans(priced, trace)
    span_lanes = lanes[spans["op"].to_numpy()]
    start, end = spans["start_ps"].to_numpy(), (spans["start_ps"] + spans["dur_ps"]).to_numpy()

    def during(one: Lane) -> Intervals:
        return union(start[span_lanes == one], end[span_lanes == one])

    communication = during(Lane.COLLECTIVE)
    return communication.total / 1e12, (communication - during(Lane.COMPUTE)).total / 1e12


def simulate(
    program: Program,
    model: CostModel,
    *,
    target: Target | None = None,
    device_name: str | None = None,
    jitter: Jitter | None = None,
    hlo: bytes | None = None,
    communication_streams: int = 1,
) -> Simulation:
    """Run one step of a scheduled program on a device of the target.

    `hlo` is the module as written by the compiler: with it a stored Timeline contains its program.
    `device_name` names the chip if there is no target. `communication_streams` exceeds one if XLA
    was configured so (`xla_gpu_experimental_enable_collective_multi_streaming`).
    """
    plan = lay_out(program, communication_streams=communication_streams)
    priced = PricedPlan(plan, price_plan(program, plan, model), model.contention, model.launch_s)
    trace = ExecutionTrace(plan)
    engine = priced.engine(priced.prices.likely, trace)
    step_s = engine.run()
    times = priced.times(engine.sums.counts)
    reach = dict(_reaches(priced, step_s))
    high_s = step_s + math.hypot(0.0, *(max(0.0, high) for _, high in reach.values()))
    loads = priced.by_load(times)
    communicating, exposed = communicating_s(program, priced, trace)
    uncounted = tuple(_uncounted(program, priced))
    chip = find_chip(device_name)
    machine = chip.name if chip else device_name or (str(target) if target else None)
    notes = tuple(_notes(priced, trace, engine, uncounted, machine))
    device = _device(target, device_name)
    return Simulation(
        draw=lambda: replace(
            draw(program, priced, trace, step_s, device, target, hlo), notes=notes
        ),
        step_s=step_s,
        low_s=step_s - math.hypot(0.0, *(min(0.0, low) for low, _ in reach.values())),
        high_s=high_s,
        reach_s=reach,
        rests_on=priced.prices.by_source(times),
        exposed_s=exposed,
        communicating_s=communicating,
        communication_s=loads[Load.COLLECTIVE],
        compute_s=loads[Load.COMPUTE],
        unpriced=tuple(_unpriced(priced, times, high_s)),
        uncounted=uncounted,
        critical_path_s=priced.critical_path_s(),
        busiest_lane_s=priced.busiest_lane_s(engine.sums.counts),
        jittered=disturb(jitter, priced, times) if jitter else None,
        notes=notes,
        on_tpus=target is not None and target.tpu is not None,
        as_published=priced.prices.share_of(_OF_PUBLISHED, times),
    )


def _reaches(
    priced: PricedPlan, step_s: float
) -> Iterator[tuple[PriceFamily, tuple[float, float]]]:
    """Yield the change of the step if all prices of one family are at an end of their range."""
    for family, low, high in priced.prices.families():
        yield family, (priced.step_s(low) - step_s, priced.step_s(high) - step_s)
    reach = priced.contention.reach
    if reach and (priced.contention.compute or priced.contention.collective):
        low_s, high_s = (
            priced.slowed(share).step_s(priced.prices.likely) for share in (-reach, reach)
        )
        yield PriceFamily.CONTENTION, (low_s - step_s, high_s - step_s)


def _unpriced(
    priced: PricedPlan, times: Seconds, longest_s: float
) -> Iterator[UnpricedInstruction]:
    """Yield instructions for which only a bound is known, largest first."""
    rows = zip(priced.plan.instructions, priced.prices.prices, times.tolist(), strict=True)
    bounds = [
        UnpricedInstruction(
            instruction=instruction.name,
            times=round(count),
            low_s=price.low * count,
            high_s=price.high * count,
            share=min(1.0, price.high * count / longest_s) if longest_s else 0.0,
            how=price.how,
        )
        for instruction, price, count in rows
        if price.source is PriceSource.BOUND and count
    ]
    yield from sorted(bounds, key=lambda bound: -bound.high_s)


def _uncounted(program: Program, priced: PricedPlan) -> Iterator[UncountedLoop]:
    times = priced.block_times(priced.prices.likely).tolist()
    for loop in priced.plan.loops:
        if loop.trips is None:
            instruction = program.instruction(loop.name)
            where = provenance(program, instruction) if instruction else None
            yield UncountedLoop(
                instruction=loop.name,
                each_s=serial_time(loop.body, times) + serial_time(loop.condition, times),
                source=where.source if where else None,
            )


def _notes(
    priced: PricedPlan,
    trace: ExecutionTrace,
    engine: Engine,
    uncounted: tuple[UncountedLoop, ...],
    chip: str | None,
) -> Iterator[str]:
    yield (
        "predicted: XLA's schedule of the program, run on a cost model of"
        f" {chip or 'an unnamed device'}; one device represents all"
    )
    for loop in uncounted:
        where = f" ({loop.source})" if loop.source else ""
        yield (
            f"the trip count of {loop.instruction}{where} is unknown: it is counted once, and the"
            f" predicted step is a lower bound; each further iteration takes about"
            f" {loop.each_s * 1e3:,.3g} ms"
        )
    for choice in priced.plan.choices:
        yield f"the branch taken by {choice.name} is unknown; the longest is counted"
    for name in sorted(engine.sums.unsteady):
        yield (
            f"{name} did not become periodic within {MOST_TURNS} iterations; the others"
            " are counted with the mean of these"
        )
    if trace.shortened:
        yield (
            f"a step has more than {MOST_SPANS:,} operations: one iteration of a loop represents"
            " several in the Timeline; times are right, counts are not"
        )


def _device(target: Target | None, name: str | None) -> Device:
    """Return the device with the name used by profiles, so that its peak rates are found."""
    if target is None:
        return Device(ordinal=0, kind="gpu", chip=name)
    gpu = target.known_gpu if target.own_chip is None else None
    chip = target.chip
    return Device(
        ordinal=0,
        kind="gpu" if target.tpu is None else "tpu",
        chip=name or (gpu.description if gpu else chip.name),
        peak_flops=chip.bf16_flops,
        peak_bytes=chip.hbm_bytes,
    )
