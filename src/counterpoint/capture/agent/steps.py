"""Counts the steps of the program, from its own annotations or from `StepProfiler.on_step`.

A program that has neither is counted by its executions: executions.py.

A program may annotate more than its steps, evaluation for example. The kind that has begun most
often leads, the earlier one at a tie: its starts are the steps.

Between two steps, caches hold the program's data and none of our code, so each line that runs there
costs more than it seems. While no window waits for a step, `DeferredSteps` adds four values to a
list; they are counted and written by the agent's thread.
"""

from __future__ import annotations

import json
import math
import operator
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

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


class PrintedCount:
    """Steps that the program printed, as `counterpoint run` writes them down beside the agent.

    Their clock is the agent's: both are the machine's.
    """

    def __init__(self, directory: Path) -> None:
        self._files = [directory / name for name in ("steps-log.jsonl", "steps-bars.jsonl")]

    def since(self, start_s: float) -> int | None:
        """Return the number of lines since then; None if there has never been one."""
        for file in self._files:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
                return sum(json.loads(line)["start_s"] >= start_s for line in lines)
            except (OSError, ValueError, KeyError):
                continue
        return None


_NAMES = 100  # of annotations that are remembered; some programs write a number into each

Write = Callable[[StepKind, "int | None", float, float], None]


class DeferredSteps:
    """The starts of one process, by the name of the annotation or by `API`."""

    def __init__(self, write: Write) -> None:
        self.steps = StepCounter()
        self._write = write
        self._noted: list[Any] = []  # flat: thousands of objects would trigger the collector
        self._kinds: dict[str | StepKind, StepKind] = {API: API}
        self._lock = threading.RLock()  # the program's signal handler may take steps

    def note(self, name: str | StepKind, number: object) -> None:
        """Record a step that nothing waits for."""
        step = number if type(number) is int else whole_number(number)
        self._noted += (name, step, time.monotonic(), time.time())

    def count(self) -> None:
        """Count the steps recorded so far."""
        with self._lock:
            size = len(self._noted)  # more may be added concurrently
            noted = self._noted[:size]
            del self._noted[:size]
            for at in range(0, size, 4):
                name, step, start_s, wall_s = noted[at : at + 4]
                start = self.steps.begin(self._kind(name), start_s)
                if start.leads:
                    self._write(start.kind, step, start_s, wall_s)

    def begin(self, name: str | StepKind) -> CountedStep:
        """Count a step that begins, and return its number."""
        self.count()
        with self._lock:
            return self.steps.begin(self._kind(name), time.monotonic())

    def began(self, start: CountedStep, number: object) -> None:
        """Record that it has begun: now, since the preparation took time."""
        if start.leads:
            self._write(start.kind, whole_number(number), time.monotonic(), time.time())

    def _kind(self, name: str | StepKind) -> StepKind:
        kind = self._kinds.get(name)
        if kind is None:
            kind = StepKind("annotation", str(name).rstrip("0123456789"))
            if len(self._kinds) < _NAMES:
                self._kinds[name] = kind
        return kind
