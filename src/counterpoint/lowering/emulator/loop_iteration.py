"""One iteration of the program's loop: all calls from the first call of the step to the second.

A gradient that another function applies is not a whole step. A function that donates its arguments
is considered a whole step; after any other, the program goes on until that function is called
again. That costs little: it returns zeros, and the program gets some seconds at most.
"""

from __future__ import annotations

import time
from typing import Any

from .function import LoweredFunction

_TIMES = 32
_WAIT_S = 3.0
"""Maximum calls, and seconds, for which gradients are accumulated before they are applied."""


class LoopIteration:
    """The other functions in a step's iteration."""

    def __init__(self, step: LoweredFunction) -> None:
        self.step = step
        self.times = 0
        self._until = time.monotonic() + _WAIT_S
        self._names: list[str] = []
        self._loose: set[int] = set()

    def call(self, function: LoweredFunction) -> None:
        """Handle a call of a function that is not run."""
        if function is self.step:
            self.times += 1
        else:
            self.meet(function)

    def meet(self, function: LoweredFunction) -> None:
        """Handle a function that was lowered or called."""
        if self.times == 0 or function.name == self.step.name:
            return
        if not function.is_own:
            self._loose.add(id(function))
        elif function.name not in self._names:
            self._names.append(function.name)

    def is_again(self, step: LoweredFunction) -> bool:
        """Return whether this is the same step, lowered again for its own results."""
        return self.times > 0 and step.name == self.step.name

    @property
    def is_over(self) -> bool:
        """True once the step has been called again, after other functions if any come soon."""
        if self.times < 2:
            return False
        has_company = bool(self._names or self._loose)
        late = time.monotonic() > self._until or self.times > _TIMES
        return has_company or late

    def facts(self) -> dict[str, Any]:
        """Return the facts for the outcome."""
        return {"beside": self._names, "loose": len(self._loose)}
