"""The time that a command takes: seconds per part, each without the parts inside it.

The clock is that of the caller, so rooms that compute stay pure, and a benchmark can count other
things than seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Stopwatch"]


def _standing() -> float:
    return 0.0


@dataclass(slots=True, eq=False)
class Stopwatch:
    """Adds up what a clock advances in each part; by default the clock stands still."""

    clock: Callable[[], float] = _standing
    spent: dict[str, float] = field(default_factory=dict[str, float])
    _parts: list[str] = field(default_factory=list[str])
    _since: float = 0.0

    @contextmanager
    def measure(self, part: str) -> Generator[None]:
        """Charge what happens inside to a part; the part around it pauses."""
        self._charge()
        self._parts.append(part)
        try:
            yield
        finally:
            self._charge()
            self._parts.pop()

    def _charge(self) -> None:
        now = self.clock()
        if self._parts:
            part = self._parts[-1]
            self.spent[part] = self.spent.get(part, 0.0) + now - self._since
        self._since = now
