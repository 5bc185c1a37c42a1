"""Combiner: which collectives XLA merges at one threshold, computed as XLA does it.

Of one computation, in the order in which XLA walks it: the next collective joins the set if it has
the same key, waits for none in it, and the sum stays within the threshold; at the first that does
not, the set is closed and another begun. One that is larger than the threshold stays alone. Nothing
merges across computations, so nothing across the iterations of a loop.
See CombineInstructionsByKey in xla/service/collective_combiner_utils.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.advice.combinable import Part, Place

DEFAULT: Final = 31457287  # 30 MiB + 7, of all three flags in every release
MOST_IN_ONE: Final = 2048  # xla_gpu_collective_combine_threshold_count; 256 before 0.10
_ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Merged:
    """What comes of one computation: sets of parts, and the next threshold that changes something.

    `next` is None where no threshold does.
    """

    sets: tuple[tuple[int, ...], ...]
    next: int | None


def merge(place: Place, threshold: int, most: int = MOST_IN_ONE) -> Merged:
    """What the combiner makes of a computation at a threshold that somebody set."""
    return Merging(place).run(threshold, range(len(place.parts)), most)


def merge_by_default(place: Place, most: int = MOST_IN_ONE) -> Merged:
    """What it makes of it where nobody set one: pipelined ones merge as far as memory goes first.

    How much memory there is, is not looked at.
    """
    merging = Merging(place)
    pipelined = [at for at, part in enumerate(place.parts) if part.pipelined]
    first = merging.run(_ALL, pipelined, most)
    alone = {at for one in first.sets if len(one) == 1 for at in one}
    rest = [at for at in range(len(place.parts)) if at not in pipelined or at in alone]
    second = merging.run(DEFAULT, rest, most)
    joined = tuple(one for one in first.sets if len(one) > 1)
    return Merged((*joined, *second.sets), second.next)


@dataclass(slots=True)
class _Node:
    """A collective of the graph as it is now: one part, or several that were merged."""

    parts: tuple[int, ...]
    before: tuple[int, ...]  # parts, in XLA's order


@dataclass(slots=True)
class Merging:
    """The graph of one computation's parts, and what each of them waits for at any distance."""

    place: Place
    _alone: list[_Node] = field(init=False)
    _waits_at_first: list[int] = field(init=False)
    _node_of: list[_Node] = field(init=False)
    _waits: list[int] = field(init=False)  # bits of parts

    def __post_init__(self) -> None:
        parts = self.place.parts
        self._node_of = [_Node((at,), part.before) for at, part in enumerate(parts)]
        self._waits = [0] * len(parts)
        for at in self._post_order():
            for it in self._node_of[at].before:
                self._waits[at] |= self._waits[it] | 1 << it
        self._alone = [_Node((at,), self._needed(part.before)) for at, part in enumerate(parts)]
        self._waits_at_first = self._waits
        self.reset()

    def reset(self) -> None:
        """Nothing merged."""
        self._node_of, self._waits = [*self._alone], [*self._waits_at_first]

    def run(self, threshold: int, among: Iterable[int], most: int) -> Merged:
        """Merge some of the parts; what was merged before stays so."""
        left = set(among)
        sets: list[tuple[int, ...]] = []
        missed: list[int] = []
        order = self._post_order()
        first = 0
        while left:
            while order[first] not in left:
                first += 1
            chosen, too_large, failed = self._choose(threshold, left, most, order[first:])
            missed += failed
            sets += [(at,) for at in too_large]
            left.difference_update(too_large, chosen)
            if chosen:
                sets.append(tuple(chosen))
            if len(chosen) > 1 and self._join(chosen, order[: order.index(chosen[0])]):
                order, first = self._post_order(), 0
        return Merged(tuple(sets), min(missed, default=None))

    def _choose(
        self, threshold: int, left: set[int], most: int, order: Iterable[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """The next set, those that are too large for any, and thresholds that would change that."""
        parts = self.place.parts
        chosen: list[int] = []
        too_large: list[int] = []
        missed: list[int] = []
        total = taken = 0
        for at in order:
            if at not in left or (chosen and parts[at].key != parts[chosen[0]].key):
                continue
            size = parts[at].bytes
            if size > threshold:
                too_large.append(at)
                missed.append(size)
                continue
            if total + size > threshold:
                missed.append(total + size)
                break
            if self._waits[at] & taken:
                break
            chosen.append(at)
            total += size
            taken |= 1 << at
            if len(chosen) >= most:
                break
        return chosen, too_large, missed

    def _join(self, chosen: Sequence[int], visited: Sequence[int]) -> bool:
        """One node in place of several: whatever waits for one of them waits for all.

        Whether that changes the order of what is not `visited` before them.
        """
        bits = waits = 0
        before: dict[int, None] = {}
        for at in chosen:
            bits |= 1 << at
            waits |= self._waits[at]
            before |= dict.fromkeys(self._node_of[at].before)
        node = _Node(tuple(chosen), self._needed(before))
        for at in chosen:
            self._node_of[at] = node
            self._waits[at] = waits
        for at, known in enumerate(self._waits):
            if known & bits:
                self._waits[at] = known | bits | waits
        return not before.keys() <= set(visited)

    def _needed(self, before: Iterable[int]) -> tuple[int, ...]:
        """Without those that a walk has visited anyhow by the time it comes to them."""
        kept: list[int] = []
        known = 0
        for at in before:
            if not known >> at & 1:
                kept.append(at)
                known |= self._waits[at] | 1 << at
        return tuple(kept)

    def _post_order(self) -> list[int]:
        """Depth first from the end, operands first: HloComputation::MakeInstructionPostOrder."""
        order: list[int] = []
        state: dict[int, bool] = {}  # by node: opened, and closed
        waiting = [self._node_of[at] for at in reversed(self.place.roots)]
        while waiting:
            node = waiting[-1]
            closed = state.get(id(node))
            if closed is None:
                state[id(node)] = False
                waiting.extend(self._node_of[at] for at in reversed(node.before))
                continue
            waiting.pop()
            if not closed:
                state[id(node)] = True
                order.extend(node.parts)
        return order


def part_bytes(parts: Sequence[Part], at: Iterable[int]) -> int:
    """What a set of parts sums up to, as the combiner counts."""
    return sum(parts[it].bytes for it in at)
