"""The step of a Run by its profile: the programs of an iteration, in their order.

The Run's files have the programs, its profile has what one iteration of the loop ran of them. What
takes next to nothing of it is left out, as in `explain`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core import InputError
from counterpoint.diagnose.step_programs import main_programs, programs_in_step
from counterpoint.runs.layout import is_run
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Timeline


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """The names of the programs that one step runs, in their order."""

    order: tuple[str, ...]
    ambiguous: tuple[str, ...]  # names of several programs of the step

    def without(self, kept: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the order of the programs that were kept, and how often others run, as text."""
        order = tuple(name for name in self.order if name in kept)
        missing = Counter(name for name in self.order if name not in kept)
        return order, tuple(
            name if times == 1 else f"{times} x {name}" for name, times in missing.items()
        )


def recorded_step(path: Path) -> RecordedStep | None:
    """Return the step of a Run; None without a profile that has a whole one."""
    if not is_run(path):
        return None
    try:
        timeline = read(path)
    except InputError:
        return None  # no profile, or a damaged one: the programs are there without it
    parts = programs_in_step(timeline)
    counts = {number: parts[number].runs for number in main_programs(parts)}
    if not counts:
        return None
    names = {number: timeline.programs[number].name for number in counts}
    unordered = list(Counter(counts).elements())
    order = next(_orders(timeline, counts), unordered)
    shared = Counter(names.values())
    return RecordedStep(
        order=tuple(names[number] for number in order),
        ambiguous=tuple(name for name, programs in shared.items() if programs > 1),
    )


def _orders(timeline: Timeline, counts: dict[int, int]) -> Iterator[list[int]]:
    """Yield the order of the runs in each step of a device that has the usual number of each."""
    runs = timeline.runs.sort("device", "start_ps")
    for step in timeline.steps.filter("whole").sort("device", "step").iter_rows(named=True):
        within = runs.filter(device=step["device"], step=step["step"])
        order = [number for number in within["program"].to_list() if number in counts]
        if Counter(order) == counts:
            yield order
