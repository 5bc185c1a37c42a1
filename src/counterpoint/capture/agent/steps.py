"""Counts the steps of the program, from its own annotations or from `StepProfiler.on_step`.

A program that has neither is counted by its executions: executions.py.

A program may annotate more than its steps, evaluation for example. The kind that has begun most
often leads, the earlier one at a tie: its starts are the steps.
"""

from __future__ import annotations

import json
import math
import operator
from functools import lru_cache
from typing import NamedTuple

EXECUTION = "execution"


class StepKind(NamedTuple):
    """The source of a step (annotation, api, execution), and its annotation or function."""

    source: str
    name: str

    @property
    def words(self) -> str:
        """A description of what is counted."""
        if self.source == EXECUTION:
            return f"executions of {self.name}"
        return f"annotations {self.name!r}" if self.name else "calls of StepProfiler.on_step"


API = StepKind("api", "")


class CountedStep(NamedTuple):
    """One start of a step: the `turn`-th of its kind, from 0, which leads or does not."""

    kind: StepKind
    turn: int
    leads: bool


class StepNumbers:
    """The program's own step numbers: a resumed job may begin at 1000."""

    def __init__(self) -> None:
        self._first: dict[StepKind, int] = {}
        self._latest: tuple[StepKind, int] | None = None

    def came_to(self, kind: StepKind, number: int | None) -> None:
        """Record the start of a step of this kind and number."""
        self._latest = None if number is None else (kind, number)
        if number is not None:
            self._first.setdefault(kind, number)

    def passed(self, step: int) -> bool:
        """Return whether numbers began at or below `step`, and the latest has reached it."""
        if self._latest is None:
            return False
        kind, number = self._latest
        return self._first[kind] <= step <= number


class StepCounter:
    """Counts starts of each kind."""

    def __init__(self) -> None:
        self.counts: dict[StepKind, int] = {}
        self.leading: StepKind | None = None
        self.last_start_s: float | None = None
        self.shortest_s = math.inf
        self._longest_s = 0.0
        self._pinned = False

    @property
    def count(self) -> int:
        """Number of steps that began."""
        return self.counts.get(self.leading, 0) if self.leading else 0

    def follow(self, kind: StepKind) -> None:
        """Count only this kind as steps from now on."""
        self.leading, self._pinned = kind, True

    def begin(self, kind: StepKind, now_s: float) -> CountedStep:
        """Count one start."""
        turn = self.counts.get(kind, 0)
        self.counts[kind] = turn + 1
        if not self._pinned and turn + 1 > self.count:
            self.leading = kind
        leads = kind == self.leading
        if leads:
            if self.last_start_s is not None:
                took_s = now_s - self.last_start_s
                self.shortest_s = min(self.shortest_s, took_s)
                self._longest_s = max(self._longest_s, took_s)
            self.last_start_s = now_s
        return CountedStep(kind, turn, leads)

    def expected(self, now_s: float, compiled_s: float, patience_s: float) -> bool:
        """Return whether another step is likely; after a compile one may just have begun."""
        if self.last_start_s is None:
            return False
        since_s = now_s - max(self.last_start_s, compiled_s)
        return since_s <= max(patience_s, 10 * self._longest_s)

    def facts(self) -> dict[str, int]:
        """Return starts by name, for the process file."""
        return {f"{kind.source}:{kind.name}".rstrip(":"): n for kind, n in self.counts.items()}


def step_as_json(kind: StepKind, step: int | None, start_s: float, wall_s: float) -> str:
    """Format a step's start. By hand: a fast program may have thousands a second."""
    number = "null" if step is None else step
    when = f'"start_s": {start_s:.6f}, "wall_s": {wall_s:.6f}'
    return f'{{"step": {number}, {when}, {_in_json(kind)}}}'


@lru_cache(maxsize=16)
def _in_json(kind: StepKind) -> str:
    return json.dumps({"source": kind.source, "name": kind.name or None})[1:-1]


def whole_number(number: object) -> int | None:
    """Return the program's own step number; not from a device array, which would block."""
    if type(number) is int:
        return number
    if type(number).__module__ not in ("builtins", "numpy"):
        return None
    try:
        return operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        return None
