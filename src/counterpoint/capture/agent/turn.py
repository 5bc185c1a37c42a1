"""One turn of the program's loop: what it runs from the first call of the step to the second.

A gradient that another function applies is not all of a step. What donates its arguments is taken
for a whole one; of another it is looked what comes after it. That costs little: it hands back
zeros, and its program is given some seconds at most.
"""

from __future__ import annotations

import time
from typing import Any

from .lowered import Function

_TIMES = 32
_WAIT_S = 3.0
"""Gradients are added up in so many calls, or in so long, before they are applied."""


class Turn:
    """What comes beside a step."""

    def __init__(self, step: Function) -> None:
        self.step = step
        self.times = 0
        self._until = time.monotonic() + _WAIT_S
        self._names: list[str] = []
        self._loose: set[int] = set()

    def call(self, function: Function) -> None:
        """A function that is not run was called."""
        if function is self.step:
            self.times += 1
        else:
            self.meet(function)

    def meet(self, function: Function) -> None:
        """A function was lowered or called."""
        if self.times == 0 or function.name == self.step.name:
            return
        if not function.is_own:
            self._loose.add(id(function))
        elif function.name not in self._names:
            self._names.append(function.name)

    def is_again(self, step: Function) -> bool:
        """Whether it is the same step, for its own results: they are laid out otherwise."""
        return self.times > 0 and step.name == self.step.name

    @property
    def is_over(self) -> bool:
        """Whether the step has come again, and after something else if that comes soon."""
        if self.times < 2:
            return False
        has_company = bool(self._names or self._loose)
        late = time.monotonic() > self._until or self.times > _TIMES
        return has_company or late

    def facts(self) -> dict[str, Any]:
        """For the outcome."""
        return {"beside": self._names, "loose": len(self._loose)}
