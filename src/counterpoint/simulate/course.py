"""Course: when every block of a run began, how it went on, and how often it came again.

Only what was walked through is written down. Turns of a loop that are alike are one entry with the
number of turns and the time from one to the next, so eighty layers cost no more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from counterpoint.simulate.plan import Plan, Seconds

MOST_SPANS: Final = 1_000_000
"""Spans that a Timeline may get; beyond, one turn of a loop stands for several."""


@dataclass(slots=True, eq=False)
class Entry:
    """One block's execution: times at which it had done so much of its work."""

    block: int
    times: list[float] = field(default_factory=list[float])
    done: list[float] = field(default_factory=list[float])
    # How many alike follow each other at which distance (before it, where negative), the innermost
    # loop first.
    again: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    # Stretched about a moment by a factor: one turn that stands for several.
    stretches: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def ended(self) -> bool:
        return bool(self.done) and self.done[-1] == 1.0

    @property
    def count(self) -> int:
        return int(np.prod([count for count, _ in self.again], dtype=np.int64))

    def note(self, at: float, share: float) -> None:
        """It has done this share of its work now."""
        self.times.append(at)
        self.done.append(share)

    def shifts(self) -> Seconds:
        """How far each of its executions lies from this one."""
        shifts = np.zeros(1)
        for count, distance in self.again:
            shifts = (np.arange(count)[:, None] * distance + shifts[None, :]).ravel()
        return shifts

    def when(self, shares: Seconds) -> Seconds:
        """The times at which it has done these shares of its work."""
        at = np.interp(shares, self.done, self.times)
        for about, factor in self.stretches:
            at = about + (at - about) * factor
        return at


@dataclass(slots=True, eq=False)
class Course:
    """The entries of one run. A course of None writes nothing: prices are then run for sums."""

    plan: Plan
    entries: list[Entry] = field(default_factory=list[Entry])
    shortened: int = 0  # loops of which not every turn is shown

    def begin(self, block: int) -> Entry:
        entry = Entry(block)
        self.entries.append(entry)
        return entry

    def repeat(
        self, since: int, flying: list[Entry], turns: int, length: float, began: float
    ) -> None:
        """The turn that began with entry `since` comes `turns` times more.

        Work that is still under way is part of the last turn then, and came before it as well.
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
                entry.again = [(many, apart * factor) for many, apart in entry.again]
                entry.again.append((count, distance))
                if factor != 1.0:
                    entry.stretches.append((began, factor))
        for entry in flying:
            entry.times = [at + turns * length for at in entry.times]
            entry.again.append((count, -distance))

    def _spans(self, entry: Entry) -> int:
        block = self.plan.blocks[entry.block]
        return (block.last - block.first) * entry.count
