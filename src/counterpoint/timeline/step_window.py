"""The time of wanted steps, found by their markers while a profile is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.recording import RecordedPart, Recording
from counterpoint.timeline.step_markers import most_frequent, numbered, one_to_a_step
from counterpoint.timeline.step_range import StepRange

_BEFORE: Final = 8
"""With so many steps before the first wanted one, that one is not taken for startup or warm-up."""

_WORTH: Final = 0.5
"""Most of the markers that a window may have: more, and all are read."""

_OUTSIDE: Final = -1

_MOSTLY: Final = 0.5
"""Least share of the work of devices within markers: their program is then that of the steps."""


def window_of(markers: pl.DataFrame, wanted: StepRange) -> StepWindow | None:
    """Return the time of the wanted steps by these markers of one host, if they tell it."""
    ordered = _in_order(markers)
    if ordered is None:
        return None
    rows, marks = ordered
    numbers: list[int] = rows["step"].to_list()
    chosen = wanted.of(numbers[:-1])
    if not chosen:
        return None
    first, last = numbers.index(chosen[0]), numbers.index(chosen[-1])
    if first < _BEFORE or last - first + 3 > _WORTH * len(numbers):
        return None
    return StepWindow(rows, marks, first - 1, last + 1)


def _in_order(markers: pl.DataFrame) -> tuple[pl.DataFrame, str] | None:
    """Return the markers of steps, and their description, if their numbers are those of steps."""
    if markers.is_empty() or markers["device"].count():
        return None
    of_host = markers.with_columns(host=pl.lit(0, pl.UInt16))
    name = most_frequent(of_host)
    own = of_host.filter(pl.col("name") == name)
    if not one_to_a_step(own, "host"):
        return None
    rows, marks = numbered(own, name)
    return (rows, marks) if rows["step"].is_sorted() else None


class LateWorkError(Exception):
    """Devices run behind the markers, which then do not tell when they run a step."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The start of a batch's work: markers, or `_OUTSIDE`; its modules; its runs, if known."""

    markers: Sequence[int]
    modules: Sequence[tuple[str, int]]
    runs: Sequence[int] | None
    inside_ps: int
    all_ps: int
    last_outside_ps: int


class StepWindow:
    """The time of some steps, with one more on either side, while a profile is read.

    The markers tell it before anything else is read, which is right if the host waits for each
    step: `look` sees whether all work keeps to its marker, also that which is then left out.
    """

    def __init__(self, markers: pl.DataFrame, marks: str, first: int, last: int) -> None:
        self._markers, self._marks = markers, marks
        self._own = markers[first : last + 1]
        self._starts, self._ends = (markers[name].to_numpy() for name in ("start_ps", "end_ps"))
        self._start_ps = int(self._starts[first])
        # What follows the last marker may end its step.
        open_end = last + 1 == len(markers)
        self._end_ps = int(np.iinfo(np.int64).max if open_end else self._ends[last])
        self._looks: list[_Look] = []

    def overlaps(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these events are in the window, at least in part."""
        return (start < self._end_ps) & (end > self._start_ps)

    def look(
        self,
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        plane: str,
        module: NDArray[np.int64],
        run: NDArray[np.int64] | None,
    ) -> None:
        """Note in which markers programs run; `run` tells the run of each span, if it is known.

        `module` has the number of each span's module, of those on this plane.
        Threads that decode the profile call this at the same time. Raises LateWorkError.
        """
        if not len(start):
            return
        at = np.searchsorted(self._starts, start, side="right") - 1
        inside = (at >= 0) & (start < self._ends[at])
        if (inside & (end > self._ends[at])).any():
            raise LateWorkError
        place = np.where(inside, at, _OUTSIDE)
        columns = [place, module] if run is None else [place, module, run]
        changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        first = np.append(0, np.flatnonzero(changes) + 1)
        lasts = end - start
        self._looks.append(
            _Look(
                markers=place[first].tolist(),
                modules=[(plane, it) for it in module[first].tolist()],
                runs=None if run is None else run[first].tolist(),
                inside_ps=int(lasts[inside].sum()),
                all_ps=int(lasts.sum()),
                last_outside_ps=int(start[~inside].max(initial=-1)),
            )
        )

    def holds(self, markers: pl.DataFrame) -> bool:
        """Return whether all work and all markers of the profile are as the window supposes."""
        ordered = _in_order(markers)
        if ordered is None or not ordered[0].equals(self._markers):
            return False
        marker_of: dict[int, int] = {}
        inside: set[tuple[str, int]] = set()
        outside: set[tuple[str, int]] = set()
        for look in self._looks:
            for marker, module in zip(look.markers, look.modules, strict=True):
                (outside if marker == _OUTSIDE else inside).add(module)
            for run, marker in zip(look.runs or (), look.markers, strict=False):
                if marker_of.setdefault(run, marker) != marker:
                    return False
        worked_in = {marker for look in self._looks for marker in look.markers}
        mostly = sum(it.inside_ps for it in self._looks) > _MOSTLY * sum(
            it.all_ps for it in self._looks
        )
        return (
            mostly
            and worked_in.issuperset(range(len(self._markers)))
            and inside.isdisjoint(outside)  # else it is an evaluation, which ends a step
            # The last step has an end if an evaluation follows.
            and max(it.last_outside_ps for it in self._looks) < self._starts[-1]
        )

    def part(self, recording: Recording) -> Mapping[str, object]:
        """Return the fields of a Recording that differ if only the window was read."""
        first, last = self._own["start_ps"][0], self._own["start_ps"][-1]
        markers = recording.markers.filter(pl.col("start_ps").is_between(first, last))
        _, own_marks = _in_order(markers) or (None, "")
        numbers: list[int] = self._markers["step"].to_list()
        return {
            "markers": markers,
            "part": RecordedPart(tuple(numbers[:-1]), self._marks, own_marks),
        }
