"""Why a step holds so much: causes that the plan and the schedule show.

A cause has the bytes that it concerns, which are not what removing it would save: moving one array
moves the peak. What a change saves is known from compiling it (`fit.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from counterpoint.hlo.memory.owners import Owner, Owners
from counterpoint.hlo.memory.plan import BlockKind
from counterpoint.hlo.memory.uses import ArrayAt
from counterpoint.hlo.schedule import enclosing
from counterpoint.workflow.memory.analysis import MemoryAnalysis
from counterpoint.workflow.memory.budget import Budget

_LEAST = 0.01
"""Share of the need from which a cause is worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCause:
    """Something that holds more than it must, and what to do about it."""

    what: str
    bytes: int
    advice: str


def causes_of(owners: Owners, analysis: MemoryAnalysis, budget: Budget | None) -> list[MemoryCause]:
    """Return the causes, largest first."""
    found = [
        *_held_twice(owners),
        *_copies(analysis),
        *_early(owners, analysis),
        *_crowded(analysis, budget),
    ]
    least = _LEAST * analysis.needs
    return sorted((it for it in found if it.bytes > least), key=lambda it: -it.bytes)


def _held_twice(owners: Owners) -> Iterator[MemoryCause]:
    """Yield arguments that are not donated, beside outputs of their size."""
    kept = Counter(
        argument.shape.bytes
        for argument in owners.arguments.values()
        if not argument.is_donated and argument.is_state
    )
    made = Counter(block.size for block in owners.plan.blocks_of(BlockKind.OUTPUT))
    size = sum(size * count for size, count in (kept & made).items())
    yield MemoryCause(
        what="state that is held twice: it is returned, and its old buffers are not donated",
        bytes=size,
        advice="jax.jit(step, donate_argnums=...) of the state",
    )


def _copies(analysis: MemoryAnalysis) -> Iterator[MemoryCause]:
    """Yield copies of weights that are made for a loop and held around it."""
    size = sum(
        row.bytes
        for row in analysis.held
        if row.owner is Owner.COPIES and "transpose" in row.made_by
    )
    yield MemoryCause(
        what="weights that are transposed before the loop over layers, and held all the while",
        bytes=size,
        advice="put the layers' axis first in the parameters, or let scan slice it first",
    )


def _early(owners: Owners, analysis: MemoryAnalysis) -> Iterator[MemoryCause]:
    """Yield zeros that the scheduler makes before the peak, and that are used after it."""
    places = {moment.instruction: at for at, moment in enumerate(analysis.moments)}
    peak = analysis.peak.position
    running = _running(owners, analysis)
    size = 0
    for value in analysis.live:
        first = owners.plan.values[value]
        it = owners.program.instruction(first.instruction)
        if it is None or "broadcast" not in it.name:
            continue
        array = ArrayAt(it.name, first.index)
        readers = [reader for reader in owners.uses.readers(array) if reader.name in places]
        if any(reader.computation in running for reader in readers):
            continue  # the loop that fills it is running
        if readers and min(places[reader.name] for reader in readers) > peak:
            size += first.size
    yield MemoryCause(
        what="zeros for gradients that the scheduler makes before the peak and uses after it",
        bytes=size,
        advice="the latency-hiding scheduler moved them: --fit compiles the step without it",
    )


def _running(owners: Owners, analysis: MemoryAnalysis) -> set[str]:
    """Return the computations of the loops that run at that moment."""
    it = owners.program.instruction(analysis.peak.instruction)
    if it is None or it.computation == owners.program.entry:
        return set()
    around = enclosing(owners.program, it.computation)
    inside = {it.computation, *(caller.computation for caller in around)}
    return inside - {owners.program.entry}


def _crowded(analysis: MemoryAnalysis, budget: Budget | None) -> Iterator[MemoryCause]:
    """Yield that XLA's scheduler was out of room, so that it gave up overlap."""
    if budget is None or budget.scheduler_bytes is None:
        return
    temporaries = sum(space.temporaries for space in analysis.spaces if space.name == "device")
    if temporaries > budget.scheduler_bytes:
        yield MemoryCause(
            what="temporaries above the scheduler's limit, so that XLA gave up overlap",
            bytes=temporaries - max(budget.scheduler_bytes, 0),
            advice="a larger share for the allocator makes the step shorter, too",
        )
