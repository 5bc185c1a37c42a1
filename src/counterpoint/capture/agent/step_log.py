"""Records starts of steps at once, and counts them later.

Between two steps, caches hold the program's data and none of our code, so each line that runs there
costs more than it seems. While no window waits for a step, a start is four values added to a list.
They are counted and written by the agent's thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .steps import API, CountedStep, StepCounter, StepKind, whole_number

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
