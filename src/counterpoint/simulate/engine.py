"""The engine: runs an ExecutionPlan for one set of prices, exactly.

The schedule determines the order on every stream; the engine computes the times. Streams slow each
other down: between two events, every piece of work progresses at a constant rate, which depends on
what runs concurrently:

    compute beside a collective      1 / (1 + contention.compute)
    a collective beside compute      1 / (1 + contention.collective)
    compute beside n other compute   1 / (1 + n): they share one device
    a collective that a TPU's core runs beside one of its links     1 / 2, and so does that one

If an iteration of a loop begins in the same state as the one before, it takes the same course; then
all further iterations are multiplied. The state is the remaining work of the other streams.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import numpy as np

from counterpoint.simulate.plan import (
    LINKS,
    AsyncLaunch,
    Choice,
    ExecutionPlan,
    Join,
    Load,
    Loop,
    MainWork,
    PlanSteps,
    Seconds,
    WorkBlock,
)

MOST_SPANS: Final = 1_000_000
"""Maximum number of spans of a Timeline; beyond, one iteration represents several."""


@dataclass(slots=True, eq=False)
class BlockExecution:
    """One execution of a block: times, and the share of its work done by then."""

    block: int
    times: list[float] = field(default_factory=list[float])
    done: list[float] = field(default_factory=list[float])
    # Repetitions as count and distance (backward if negative), innermost loop first.
    again: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    # Stretching about a moment by a factor: one iteration that represents several.
    stretches: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def ended(self) -> bool:
        return bool(self.done) and self.done[-1] == 1.0

    @property
    def count(self) -> int:
        return int(np.prod([count for count, _ in self.again], dtype=np.int64))

    def note(self, at: float, share: float) -> None:
        """Record the share of its work done at `at`."""
        self.times.append(at)
        self.done.append(share)

    def shifts(self) -> Seconds:
        """Return the offset of each of its executions from this one."""
        shifts = np.zeros(1)
        for count, distance in self.again:
            shifts = (np.arange(count)[:, None] * distance + shifts[None, :]).ravel()
        return shifts

    def when(self, shares: Seconds) -> Seconds:
        """Return the times at which these shares of its work are done."""
        times = np.interp(shares, self.done, self.times)
        for about, factor in self.stretches:
            times = about + (times - about) * factor
        return times


@dataclass(slots=True, eq=False)
class ExecutionTrace:
    """The entries of one run. An engine without a trace only sums up.

    Only turns of a loop that were simulated are recorded. Equal turns are one entry, with their
    number and the time from one to the next, so eighty layers cost no more than one.
    """

    plan: ExecutionPlan
    entries: list[BlockExecution] = field(default_factory=list[BlockExecution])
    shortened: int = 0  # number of loops with fewer iterations shown than run

    def begin(self, block: int) -> BlockExecution:
        entry = BlockExecution(block)
        self.entries.append(entry)
        return entry

    def repeat(
        self, since: int, flying: list[BlockExecution], turns: int, length: float, began: float
    ) -> None:
        """Repeat the iteration that began with entry `since` `turns` more times.

        Work still in progress is then part of the last iteration, and occurred in earlier ones as
        well.
        """
        count, distance, factor = turns + 1, length, 1.0
        spans = sum(self._spans(entry) for entry in self.entries[since:])
        if spans * count > MOST_SPANS:
            shown = max(1, MOST_SPANS // max(spans, 1))
            factor, count = count / shown, shown
            distance = length * factor
            self.shortened += 1
        for entry in self.entries[since:]:
            if entry.ended:
                entry.again = [(repeats, spacing * factor) for repeats, spacing in entry.again]
                entry.again.append((count, distance))
                if factor != 1.0:
                    entry.stretches.append((began, factor))
        for entry in flying:
            entry.times = [time + turns * length for time in entry.times]
            entry.again.append((count, -distance))

    def _spans(self, entry: BlockExecution) -> int:
        block = self.plan.blocks[entry.block]
        return (block.last - block.first) * entry.count


_ALIKE: Final = 1e-9
"""Tolerance, in seconds and as a share, for two states to count as equal."""

MOST_TURNS: Final = 256
"""Iterations of a loop that are simulated before their average is multiplied."""


@dataclass(slots=True, eq=False)
class RunningBlock:
    """A block on another stream that is not done yet."""

    number: int
    block: WorkBlock
    left: float
    entry: BlockExecution | None
    ended: bool = False


@dataclass(slots=True)
class ExecutionCounts:
    """Executions of each block, and loops without a steady state."""

    unsteady: set[str] = field(default_factory=set[str])
    counts: list[int] = field(default_factory=list[int])

    def scaled(self, counts: list[int], turns: int) -> None:
        """Repeat the executions since `counts` `turns` more times."""
        self.counts = [
            current + turns * (current - earlier)
            for current, earlier in zip(self.counts, counts, strict=True)
        ]


State = tuple[tuple[tuple[int, float], ...], ...]


class Engine:
    """One run of a plan.

    `times` has the time of each block alone, `slowing` its relative slowdown by contention.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        times: list[float],
        slowing: list[float],
        trace: ExecutionTrace | None = None,
    ) -> None:
        self.now = 0.0
        self.sums = ExecutionCounts(counts=[0] * len(plan.blocks))
        self._plan = plan
        self._times = times
        self._slowing = slowing
        self._trace = trace
        self._links = [number for number, name in enumerate(plan.streams) if name.startswith(LINKS)]
        self._queues: list[deque[RunningBlock]] = [deque() for _ in plan.streams]
        self._open: dict[str, deque[RunningBlock]] = {}  # launched and not yet waited for
        self._launched = 0

    def run(self) -> float:
        """Run the plan and return the seconds until everything is done."""
        self._steps(self._plan.steps)
        for queue in self._queues:
            while queue:
                self._wait(queue[-1])
        return self.now

    def _steps(self, steps: PlanSteps) -> None:
        for step in steps:
            match step:
                case MainWork():
                    self._work(step.block)
                case AsyncLaunch():
                    self._launch(step)
                case Join():
                    self._join(step)
                case Loop():
                    self._loop(step)
                case Choice():
                    self._steps(self._longest(step))

    def _longest(self, choice: Choice) -> PlanSteps:
        return max(choice.branches, key=lambda branch: serial_time(branch, self._times))

    def _work(self, block: WorkBlock) -> None:
        self.sums.counts[block.index] += 1
        whole = left = self._times[block.index]
        entry = self._trace.begin(block.index) if self._trace else None
        if entry:
            entry.note(self.now, 0.0)
        while left > 0:
            rate, rates = self._rates(block)
            passed = self._next_event(rates, left / rate)
            left = 0.0 if passed >= left / rate else left - passed * rate
            self._advance(passed, rates)
            if entry and left:
                entry.note(self.now, 1 - left / whole)
        if entry:
            entry.note(self.now, 1.0)

    def _launch(self, step: AsyncLaunch) -> None:
        block = step.block
        self.sums.counts[block.index] += 1
        entry = self._trace.begin(block.index) if self._trace else None
        self._launched += 1
        flight = RunningBlock(self._launched, block, self._times[block.index], entry)
        queue = self._queues[block.stream]
        queue.append(flight)
        if len(queue) == 1:
            self._start(flight)
        self._open.setdefault(step.start, deque()).append(flight)

    def _start(self, flight: RunningBlock) -> None:
        """Start a block; if it takes no time, it ends at once and the next on its stream starts."""
        queue = self._queues[flight.block.stream]
        while True:
            if flight.entry:
                flight.entry.note(self.now, 0.0)
            if flight.left > 0:
                return
            self._land(flight)
            if not queue:
                return
            flight = queue[0]

    def _end(self, flight: RunningBlock) -> None:
        """End a block and start the next on its stream."""
        self._land(flight)
        queue = self._queues[flight.block.stream]
        if queue:
            self._start(queue[0])

    def _land(self, flight: RunningBlock) -> None:
        flight.left, flight.ended = 0.0, True
        if flight.entry:
            flight.entry.note(self.now, 1.0)
        self._queues[flight.block.stream].popleft()

    def _join(self, step: Join) -> None:
        queues = [queue for start in step.starts if (queue := self._open.get(start))]
        if queues:
            # The oldest: an iteration may launch for the next one before it waits for its own.
            self._wait(min(queues, key=lambda queue: queue[0].number).popleft())

    def _wait(self, flight: RunningBlock) -> None:
        while not flight.ended:
            _, rates = self._rates(None)
            passed = self._next_event(rates, float("inf"))
            self._advance(passed, rates)

    def _rates(self, main: WorkBlock | None) -> tuple[float, list[tuple[RunningBlock, float]]]:
        """Return the current rate of the main stream's block, and those of other streams."""
        heads = [queue[0] for queue in self._queues if queue]
        if not heads:
            return 1.0, []
        blocks = [flight.block for flight in heads]
        loads = [block.load for block in (*blocks, *([main] if main else []))]
        computing, communicating = loads.count(Load.COMPUTE), Load.COLLECTIVE in loads
        beside = [block for block in blocks if block.stream in self._links]
        shared = [main, *beside] if main and main.load is Load.COLLECTIVE and beside else []

        def rate(block: WorkBlock) -> float:
            if block.load is Load.COMPUTE:
                return 1 / (computing + self._slowing[block.index] * communicating)
            alone = 1 / (1 + self._slowing[block.index] * (computing > 0))
            return alone / 2 if block in shared else alone

        rates = [(flight, rate(flight.block)) for flight in heads]
        return (rate(main) if main else 1.0), rates

    def _next_event(self, rates: list[tuple[RunningBlock, float]], own: float) -> float:
        return min([own, *(flight.left / rate for flight, rate in rates)])

    def _advance(self, passed: float, rates: list[tuple[RunningBlock, float]]) -> None:
        self.now += passed
        for flight, rate in rates:
            if flight.left / rate <= passed:
                self._end(flight)
            else:
                flight.left -= passed * rate

    def _loop(self, loop: Loop) -> None:
        trips = 1 if loop.trips is None else loop.trips
        state = self._state()
        first = self.now
        iteration = 0
        while iteration < trips:
            began, since = self.now, len(self._trace.entries) if self._trace else 0
            counts = list(self.sums.counts)
            self._steps(loop.condition)
            self._steps(loop.body)
            iteration += 1
            before, state = state, self._state()
            steady = _alike(before, state)
            if iteration == MOST_TURNS and not steady:
                self.sums.unsteady.add(loop.name)
                began, steady = self.now - (self.now - first) / iteration, True
            if steady and iteration < trips:
                self._repeat(since, trips - iteration, self.now - began, began)
                self.sums.scaled(counts, trips - iteration)
                break
        self._steps(loop.condition)

    def _repeat(self, since: int, turns: int, length: float, began: float) -> None:
        if self._trace:
            flying = [flight.entry for queue in self._queues for flight in queue if flight.entry]
            self._trace.repeat(since, flying, turns, length, began)
        self.now += turns * length

    def _state(self) -> State:
        return tuple(
            tuple((flight.block.index, flight.left) for flight in queue) for queue in self._queues
        )


def serial_time(steps: PlanSteps, times: list[float]) -> float:
    """Return the time of steps executed one after another."""
    total = 0.0
    for step in steps:
        match step:
            case MainWork() | AsyncLaunch():
                total += times[step.block.index]
            case Loop():
                trips = 1 if step.trips is None else step.trips
                condition = serial_time(step.condition, times)
                total += (condition + serial_time(step.body, times)) * trips + condition
            case Choice():
                total += max(serial_time(branch, times) for branch in step.branches)
            case Join():
                pass
    return total


def _alike(a: State, b: State) -> bool:
    """Return whether the remaining work of the other streams is the same."""
    if a == b:
        return True
    if [len(queue) for queue in a] != [len(queue) for queue in b]:
        return False
    pairs = zip(chain(*a), chain(*b), strict=True)
    return all(
        block == other and abs(left - rest) <= _ALIKE * min(1.0, max(left, rest))
        for (block, left), (other, rest) in pairs
    )
