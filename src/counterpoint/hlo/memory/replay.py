"""Replays the events of a plan: which values are alive, and how many bytes they hold.

XLA writes the events in the order of its schedule, loops once: what a loop's body holds counts once
on top of what is alive around it. The peak that it reports is the largest sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from counterpoint.hlo.memory.plan import BufferPlan, Event, EventKind


@dataclass(frozen=True, slots=True)
class LiveSet:
    """The values of temporaries that are alive after an event, and their bytes."""

    event: int
    bytes: int
    values: frozenset[int]


class Replay:
    """Walks through the events of one memory space."""

    def __init__(self, plan: BufferPlan, events: tuple[Event, ...]) -> None:
        self._sizes = {value.id: value.size for value in plan.values.values()}
        self._events = events

    def curve(self) -> list[int]:
        """Return the bytes that are alive after each event."""
        return [held for _, held, _ in self._walk()]

    def peak(self) -> LiveSet:
        """Return the first moment at which most bytes are alive."""
        curve = self.curve()
        if not curve:
            return LiveSet(-1, 0, frozenset())
        at = max(range(len(curve)), key=lambda number: (curve[number], -number))
        return self.at(at)

    def at(self, event: int) -> LiveSet:
        """Return what is alive after this event."""
        for number, held, alive in self._walk():
            if number == event:
                return LiveSet(number, held, frozenset(alive))
        raise IndexError(event)

    def _walk(self) -> Iterator[tuple[int, int, dict[int, int]]]:
        """Yield each event's number, the bytes alive after it, and how often each value is used."""
        canonical: dict[int, int] = {}
        uses: dict[int, int] = {}
        held = 0
        for number, event in enumerate(self._events):
            if event.kind is EventKind.ALLOCATE:
                held += self._begin(event.value, uses)
            elif event.kind is EventKind.SHARE:
                shared = canonical.get(event.shared, event.shared)
                canonical[event.value] = shared
                held += self._begin(shared, uses)
            else:
                value = canonical.get(event.value, event.value)
                uses[value] = uses.get(value, 0) - 1
                if uses[value] <= 0:
                    del uses[value]
                    held -= self._sizes[value]
            yield number, held, uses

    def _begin(self, value: int, uses: dict[int, int]) -> int:
        """Count a use; return the bytes that it adds."""
        uses[value] = uses.get(value, 0) + 1
        return self._sizes[value] if uses[value] == 1 else 0
