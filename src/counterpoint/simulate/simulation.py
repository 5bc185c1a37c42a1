"""The simulation of a Program on a cost model: its result, and what the result is based on."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np

from counterpoint.core import UsageError
from counterpoint.core.columns import Intervals, union
from counterpoint.cost import CostModel, PriceFamily, PriceSource
from counterpoint.hardware import Target
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.model import launches
from counterpoint.hlo.origin import provenance
from counterpoint.hlo.schedule import is_done, trip_count
from counterpoint.hlo.work import category
from counterpoint.simulate.drawing import draw, draw_spans
from counterpoint.simulate.engine import MOST_SPANS, MOST_TURNS, Engine, ExecutionTrace, serial_time
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import (
    ExecutionPlan,
    Load,
    Seconds,
    is_asynchronous,
    load,
    price_plan,
)
from counterpoint.simulate.priced_plan import PricedPlan
from counterpoint.timeline import Device, Lane, Timeline
from counterpoint.timeline.ops import lane


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpricedInstruction:
    """An instruction without a price: bounds for the time of all its executions."""

    instruction: str
    times: int
    low_s: float
    high_s: float
    share: float  # of the step, at most
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncountedLoop:
    """A loop of unknown trip count; one trip is counted."""

    instruction: str
    each_s: float
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JitteredSteps:
    """Step times of a seeded sample of disturbed runs, in seconds."""

    samples: tuple[float, ...]
    median_s: float
    p10_s: float
    p90_s: float


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
    critical_path_s: float  # the step if communication and copies took no time
    busiest_lane_s: float  # work of the busiest stream
    jittered: JitteredSteps | None
    notes: tuple[str, ...]

    @cached_property
    def timeline(self) -> Timeline:
        """The step as a Timeline, drawn on first access."""
        return self.draw()


def communicating_s(
    program: Program, case: PricedPlan, course: ExecutionTrace
) -> tuple[float, float]:
    """Return seconds of communication, and of exposed communication, from the Timeline's spans."""
    lanes = np.array(
        [
            str(lane(category(program, instruction), instruction.opcode))
            for instruction in case.plan.instructions
        ]
    )
    spans = draw_spans(case, course)
    span_lanes = lanes[spans["op"].to_numpy()]
    start, end = spans["start_ps"].to_numpy(), (spans["start_ps"] + spans["dur_ps"]).to_numpy()

    def during(one: Lane) -> Intervals:
        return union(start[span_lanes == one], end[span_lanes == one])

    communication = during(Lane.COLLECTIVE)
    return communication.total / 1e12, (communication - during(Lane.COMPUTE)).total / 1e12


_DRAWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Disturb every piece of work, and let collectives wait for the slowest of their ranks.

    `noise` is the standard deviation of the logarithm of one execution's time; `straggling` that of
    the speed of a whole device over one step.

    Each execution takes a little more or less than its price. That averages out within a step, but
    a collective waits for the slowest of its ranks, and the more ranks, the later that is. Besides,
    whole devices are slower than others, and all run at the pace of the slowest.
    """

    noise: float = 0.0
    straggling: float = 0.0
    ranks: int = 1
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.noise < 0 or self.straggling < 0 or self.ranks < 1 or self.samples < 1:
            raise UsageError(
                f"{self} can't be drawn",
                why="noise and straggling are 0 or more, ranks and samples 1 or more",
            )


def disturb(jitter: Jitter, case: PricedPlan, times: Seconds) -> JitteredSteps:
    """Run the case repeatedly; `times` has how often each instruction runs in a step."""
    generator = np.random.default_rng(jitter.seed)
    samples = sorted(
        case.step_s(_disturbed(jitter, case, times, generator)) for _ in range(jitter.samples)
    )
    p10, median, p90 = np.percentile(samples, [10, 50, 90]).tolist()
    return JitteredSteps(samples=tuple(samples), median_s=median, p10_s=p10, p90_s=p90)


def _disturbed(
    jitter: Jitter, case: PricedPlan, times: Seconds, generator: np.random.Generator
) -> Seconds:
    costs, is_compute = case.prices.likely, case.loads == Load.COMPUTE
    collectives = (case.loads == Load.COLLECTIVE) & (costs > 0)
    slowest = _slowest_of(jitter.ranks, generator)
    evened = jitter.noise / np.sqrt(np.maximum(times, 1))
    disturbed = costs * np.exp(evened * generator.standard_normal(len(costs)))
    disturbed[is_compute] *= np.exp(jitter.straggling * slowest[0])
    meetings = times[collectives].sum()
    if meetings:
        # Every rank deviates by this much between two collectives; assumed equal for all of them.
        strays = jitter.noise * np.sqrt((times * costs**2)[is_compute].sum() / meetings)
        evened_out: Seconds = slowest.std() / np.sqrt(np.maximum(times[collectives], 1))
        wait: Seconds = slowest.mean() + evened_out * generator.standard_normal(len(evened_out))
        disturbed[collectives] += strays * np.maximum(wait, 0)
    return disturbed


def _slowest_of(ranks: int, generator: np.random.Generator) -> Seconds:
    """Return samples of the largest of `ranks` normal numbers."""
    tail = -np.expm1(np.log(generator.uniform(1e-12, 1, _DRAWS)) / ranks)
    normal = NormalDist()
    return np.array([-normal.inv_cdf(min(max(share, 1e-300), 1 - 1e-16)) for share in tail])


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A plan with measured times; `each` are seconds of one execution per instruction.

    It runs a program's own schedule with measured times. The gain if some work took no time is the
    difference of two replays: work behind a collective that is gone moves up, but only as far as
    the next thing it has to wait for. Contention is contained in the measured times and stays
    there.
    """

    plan: ExecutionPlan
    names: tuple[str, ...]
    each: Seconds
    gap_s: float

    def step_s(self, free: Collection[str] = ()) -> float:
        """Return the step time if `free` instructions took no time and needed no launch."""
        left = np.array([name not in free for name in self.names])
        costs: Seconds = self.each * left
        return _engine(self.plan, costs + self.gap_s * (costs > 0)).run()


def replay(program: Program, seconds: Mapping[str, float], gap_s: float = 0.0) -> Replay:
    """Build a Replay from the time of instructions in a whole step, by name; others take none.

    An async instruction is identified by its start. If one runs several times, each execution takes
    an even share. `gap_s` is the time the device needs between two pieces of work on a stream.
    """
    plan = lay_out(program)
    names = tuple(instruction.name for instruction in plan.instructions)
    engine = _engine(plan, np.zeros(len(names)))
    engine.run()
    sizes = [block.last - block.first for block in plan.blocks]
    times = np.repeat(np.array(engine.sums.counts, np.float64), sizes) * plan.weights
    total = np.array([seconds.get(name, 0.0) for name in names], np.float64)
    each = np.divide(total, times, out=np.zeros_like(total), where=times > 0)
    return Replay(plan, names, each, gap_s)


def _engine(plan: ExecutionPlan, costs: Seconds) -> Engine:
    return Engine(plan, plan.block_sums(costs).tolist(), [0.0] * len(plan.blocks))


_DEEPEST = 64


def overlap_gain_s(program: Program, replay: Replay, names: Collection[str]) -> float:
    """Return by how many seconds the step would be shorter if `names` were overlapped.

    The gain if the main stream did not stop for these collectives but went on meanwhile:

        schedule     work.1  gather.........  work.2 (needs it)  work.3 (does not)
        overlapped   work.1  work.3           work.2
                             gather.........

    They start when their operands are ready. Work that needs them, directly or through others,
    keeps its order and runs when they are done; all other work keeps its order and goes ahead. The
    memory that it takes to keep more values alive is ignored.
    """
    costs = {
        name: seconds + replay.gap_s if seconds else 0.0
        for name, seconds in zip(replay.names, replay.each.tolist(), strict=True)
    }
    before = _OverlapWalk(program, costs, frozenset()).seconds(program.entry)
    after = _OverlapWalk(program, costs, frozenset(names)).seconds(program.entry)
    return max(0.0, before - after)


@dataclass(slots=True)
class _OverlapWalk:
    """Walks computations; each is walked once, for one execution of it."""

    program: Program
    costs: Mapping[str, float]
    asked: frozenset[str]
    _known: dict[str, float] = field(default_factory=dict[str, float])

    def seconds(self, computation: str, depth: int = 0) -> float:
        """Return the seconds of one execution."""
        if computation not in self._known:
            self._known[computation] = 0.0  # a computation that calls itself is damaged
            run = _Run(self, depth)
            self._known[computation] = run.of(self.program.computations[computation].instructions)
        return self._known[computation]

    def cost(self, it: Instruction, depth: int) -> float:
        """Return the cost of an instruction with all that it calls."""
        if it.opcode not in ("while", "conditional", "call") or depth > _DEEPEST:
            return self.costs.get(it.name, 0.0)
        inside = [self.seconds(name, depth + 1) for name in it.calls]
        if it.opcode == "while":
            return inside[0] * (trip_count(self.program, it) or 1) if inside else 0.0
        return max(inside, default=0.0) if it.opcode == "conditional" else sum(inside)


@dataclass(slots=True)
class _Run:
    """One execution of a computation: when each resource is free and each value available."""

    walk: _OverlapWalk
    depth: int
    now: float = 0.0
    _free: dict[Load, float] = field(default_factory=dict[Load, float])
    _there: dict[str, float] = field(default_factory=dict[str, float])

    def of(self, instructions: Collection[Instruction]) -> float:
        """Return the seconds until everything is done."""
        ahead, behind = self._parted(instructions)
        while ahead or behind:
            take_behind = not ahead or (bool(behind) and self._may_go_first(behind[0], ahead[0]))
            self._do((behind if take_behind else ahead).popleft())
        return max([self.now, *self._free.values()])

    def _may_go_first(self, it: Instruction, other: Instruction) -> bool:
        """Return whether it precedes the other and all its operands are ready."""
        if it.index > other.index or any(name not in self._there for name in it.operands):
            return False
        return self._ready(it) <= self.now

    def _ready(self, it: Instruction) -> float:
        return max((self._there[name] for name in it.operands), default=0.0)

    def _do(self, it: Instruction) -> None:
        ready, cost = self._ready(it), self.walk.cost(it, self.depth)
        if not launches(it):
            self._there[it.name] = ready
        elif is_asynchronous(it) or it.name in self.walk.asked:
            stream = load(self.walk.program, it)
            called = ready if it.name in self.walk.asked else max(self.now, ready)
            began = max(called, self._free.get(stream, 0.0))
            self._there[it.name] = self._free[stream] = began + cost
        else:
            self.now = max(self.now, ready) + (0.0 if is_done(it) else cost)
            self._there[it.name] = self.now

    def _parted(
        self, instructions: Collection[Instruction]
    ) -> tuple[deque[Instruction], deque[Instruction]]:
        """Separate instructions that do not need the selected collectives from those that do."""
        needing: set[str] = set()
        ahead: deque[Instruction] = deque()
        behind: deque[Instruction] = deque()
        for instruction in instructions:
            needs = bool(needing.intersection(instruction.operands))
            (behind if needs else ahead).append(instruction)
            if needs or instruction.name in self.walk.asked:
                needing.add(instruction.name)
        return ahead, behind


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
    case = PricedPlan(plan, price_plan(program, plan, model), model.contention, model.launch_s)
    course = ExecutionTrace(plan)
    engine = case.engine(case.prices.likely, course)
    step_s = engine.run()
    times = case.times(engine.sums.counts)
    reach = dict(_reaches(case, step_s))
    loads = case.by_load(times)
    communicating, exposed = communicating_s(program, case, course)
    uncounted = tuple(_uncounted(program, case))
    notes = tuple(_notes(case, course, engine, uncounted, device_name or _name(target)))
    device = _device(target, device_name)
    return Simulation(
        draw=lambda: replace(draw(program, case, course, step_s, device, target, hlo), notes=notes),
        step_s=step_s,
        low_s=step_s - math.hypot(0.0, *(min(0.0, low) for low, _ in reach.values())),
        high_s=step_s + math.hypot(0.0, *(max(0.0, high) for _, high in reach.values())),
        reach_s=reach,
        rests_on=case.prices.by_source(times),
        exposed_s=exposed,
        communicating_s=communicating,
        communication_s=loads[Load.COLLECTIVE],
        compute_s=loads[Load.COMPUTE],
        unpriced=tuple(_unpriced(case, times, step_s)),
        uncounted=uncounted,
        critical_path_s=case.critical_path_s(),
        busiest_lane_s=case.busiest_lane_s(engine.sums.counts),
        jittered=disturb(jitter, case, times) if jitter else None,
        notes=notes,
    )


def _reaches(case: PricedPlan, step_s: float) -> Iterator[tuple[PriceFamily, tuple[float, float]]]:
    """Yield the change of the step if all prices of one family are at an end of their range."""
    for family, low, high in case.prices.families():
        yield family, (case.step_s(low) - step_s, case.step_s(high) - step_s)
    reach = case.contention.reach
    if reach and (case.contention.compute or case.contention.collective):
        low_s, high_s = (case.slowed(share).step_s(case.prices.likely) for share in (-reach, reach))
        yield PriceFamily.CONTENTION, (low_s - step_s, high_s - step_s)


def _unpriced(case: PricedPlan, times: Seconds, step_s: float) -> Iterator[UnpricedInstruction]:
    """Yield instructions for which only a bound is known, largest first."""
    rows = zip(case.plan.instructions, case.prices.prices, times.tolist(), strict=True)
    found = [
        UnpricedInstruction(
            instruction=instruction.name,
            times=round(count),
            low_s=price.low * count,
            high_s=price.high * count,
            share=price.high * count / step_s if step_s else 0.0,
            how=price.how,
        )
        for instruction, price, count in rows
        if price.source is PriceSource.BOUND and count
    ]
    yield from sorted(found, key=lambda bound: -bound.high_s)


def _uncounted(program: Program, case: PricedPlan) -> Iterator[UncountedLoop]:
    times = case.block_times(case.prices.likely).tolist()
    for loop in case.plan.loops:
        if loop.trips is None:
            instruction = program.instruction(loop.name)
            where = provenance(program, instruction) if instruction else None
            yield UncountedLoop(
                instruction=loop.name,
                each_s=serial_time(loop.body, times) + serial_time(loop.condition, times),
                source=where.source if where else None,
            )


def _notes(
    case: PricedPlan,
    course: ExecutionTrace,
    engine: Engine,
    uncounted: tuple[UncountedLoop, ...],
    chip: str | None,
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
    """Return the device with the name used by profiles, so that its peak rates are found."""
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
