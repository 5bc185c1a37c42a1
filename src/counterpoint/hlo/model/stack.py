"""Stacks of Python calls behind instructions, as JAX recorded them.

XLA stores them once per module, as four tables (file names, function names, locations, frames) that
refer to each other by 1-based index.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One call on the stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class StackTable:
    """All stacks of a module. Locations are (file, function, line), frames (location, parent).

    An outermost frame has the parent 0.
    """

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    locations: tuple[tuple[int, int, int], ...] = ()
    frames: tuple[tuple[int, int], ...] = ()

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """Return the calls of a frame id, innermost first; empty if there are none."""
        calls: list[Frame] = []
        seen: set[int] = set()
        while 0 < frame_id <= len(self.frames) and frame_id not in seen:
            seen.add(frame_id)
            location, parent = self.frames[frame_id - 1]
            frame = self._frame(location)
            if frame:
                calls.append(frame)
            frame_id = parent
        return tuple(calls)

    def _frame(self, location: int) -> Frame | None:
        if not 0 < location <= len(self.locations):
            return None
        file, function, line = self.locations[location - 1]
        if not 0 < file <= len(self.files):
            return None
        known = 0 < function <= len(self.functions)
        return Frame(self.files[file - 1], line, self.functions[function - 1] if known else "")
