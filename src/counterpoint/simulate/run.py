"""`simulate`: Program x CostModel -> Simulation. Docs: docs/concepts/simulate.md."""

from __future__ import annotations

import math
from collections.abc import Iterator

from counterpoint.cost import CostModel, Family, Source
from counterpoint.hardware.target import Target
from counterpoint.hlo import Program, provenance
from counterpoint.simulate.case import Case
from counterpoint.simulate.course import MOST_SPANS, Course
from counterpoint.simulate.drawing import draw
from counterpoint.simulate.engine import MOST_TURNS, Engine, alone
from counterpoint.simulate.exposure import communicating_s
from counterpoint.simulate.jitter import Jitter, disturb
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import Seconds
from counterpoint.simulate.prices import ask
from counterpoint.simulate.simulation import Simulation, Uncounted, Unpriced
from counterpoint.simulate.stands_for import stands_for
from counterpoint.simulate.streams import Load
from counterpoint.timeline.device import Device, Host


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

    `hlo` is the module as the compiler wrote it: with it the Timeline carries its program on disk
    too. `device_name` names the chip where there is no target. `communication_streams` are more
    than one where XLA was told so (`xla_gpu_experimental_enable_collective_multi_streaming`).
    """
    plan = lay_out(program, communication_streams=communication_streams)
    case = Case(plan, ask(program, plan, model), model.contention, model.launch_s)
    course = Course(plan)
    engine = case.engine(case.prices.likely, course)
    step_s = engine.run()
    times = case.times(engine.sums.counts)
    reach = dict(_reaches(case, step_s))
    loads = case.by_load(times)
    talks, exposed = communicating_s(program, case, course)
    uncounted = tuple(_uncounted(program, case))
    notes = tuple(_notes(case, course, engine, uncounted, device_name or _name(target)))
    host = Host(name=stands_for(target), source=program.name)
    where = (host, _device(target, device_name))
    return Simulation(
        draw=lambda: draw(program, case, course, step_s, where, notes, hlo),
        step_s=step_s,
        low_s=step_s - math.hypot(0.0, *(min(0.0, low) for low, _ in reach.values())),
        high_s=step_s + math.hypot(0.0, *(max(0.0, high) for _, high in reach.values())),
        reach_s=reach,
        rests_on=case.prices.by_source(times),
        exposed_s=exposed,
        communicating_s=talks,
        communication_s=loads[Load.COLLECTIVE],
        compute_s=loads[Load.COMPUTE],
        unpriced=tuple(_unpriced(case, times, step_s)),
        uncounted=uncounted,
        critical_path_s=case.critical_path_s(),
        busiest_lane_s=case.busiest_lane_s(engine.sums.counts),
        jittered=disturb(jitter, case, times) if jitter else None,
        notes=notes,
    )


def _reaches(case: Case, step_s: float) -> Iterator[tuple[Family, tuple[float, float]]]:
    """What the step gains and loses if all prices of one family are at an end of their range."""
    for family, low, high in case.prices.families():
        yield family, (case.step_s(low) - step_s, case.step_s(high) - step_s)
    reach = case.contention.reach
    if reach and (case.contention.compute or case.contention.collective):
        low_s, high_s = (case.slowed(by).step_s(case.prices.likely) for by in (-reach, reach))
        yield Family.CONTENTION, (low_s - step_s, high_s - step_s)


def _unpriced(case: Case, times: Seconds, step_s: float) -> Iterator[Unpriced]:
    """What only a bound is known of, the largest first."""
    rows = zip(case.plan.instructions, case.prices.prices, times.tolist(), strict=True)
    found = [
        Unpriced(
            instruction=it.name,
            times=round(count),
            low_s=price.low * count,
            high_s=price.high * count,
            share=price.high * count / step_s if step_s else 0.0,
            how=price.how,
        )
        for it, price, count in rows
        if price.source is Source.BOUND and count
    ]
    yield from sorted(found, key=lambda one: -one.high_s)


def _uncounted(program: Program, case: Case) -> Iterator[Uncounted]:
    times = case.block_times(case.prices.likely).tolist()
    for loop in case.plan.loops:
        if loop.trips is None:
            instruction = program.instruction(loop.name)
            where = provenance(program, instruction) if instruction else None
            yield Uncounted(
                instruction=loop.name,
                each_s=alone(loop.body, times) + alone(loop.condition, times),
                source=where.source if where else None,
            )


def _notes(
    case: Case, course: Course, engine: Engine, uncounted: tuple[Uncounted, ...], chip: str | None
) -> Iterator[str]:
    yield (
        "predicted: XLA's schedule of the program, run on a cost model of"
        f" {chip or 'a device that was not named'}; one device stands for all"
    )
    for loop in uncounted:
        where = f" ({loop.source})" if loop.source else ""
        yield (
            f"nobody knows how often {loop.instruction}{where} runs: one turn is counted, each more"
            f" takes about {loop.each_s * 1e3:,.3g} ms, so the step takes at least what is said"
        )
    for choice in case.plan.choices:
        yield f"which branch {choice.name} takes is not known: the longest is counted"
    for name in sorted(engine.sums.unsteady):
        yield (
            f"{name} did not settle within {MOST_TURNS} turns: the mean of these is counted for the"
            " others"
        )
    if course.shortened:
        yield (
            f"a step has more than {MOST_SPANS:,} operations: one turn of a loop stands for"
            " several in the Timeline; times are right, counts are not"
        )


def _name(target: Target | None) -> str | None:
    return None if target is None else str(target)


def _device(target: Target | None, name: str | None) -> Device:
    """The device by the name that a profile would give it, so that its peaks are found."""
    if target is None:
        return Device(ordinal=0, kind="gpu", chip=name)
    gpu = target.known_gpu if target.own_chip is None else None
    chip = target.chip
    return Device(
        ordinal=0,
        kind="gpu",
        chip=name or (gpu.description if gpu else chip.name),
        peak_flops=chip.bf16_flops,
        peak_bytes=chip.hbm_bytes,
    )
