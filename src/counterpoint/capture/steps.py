"""Steps of a running program: as trainers print them, and the goal at which a run ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from counterpoint.capture.processes import Stop
from counterpoint.core import parse_json
from counterpoint.runs import OutcomeKind, layout

_SOURCES: Final = ("annotation", "api", "log")
"""The most exact first, as whoever reads the Run prefers them."""


class StepGoal:
    """So many steps, of the ranks whose agents write into these directories.

    `others`: whether there are ranks elsewhere.
    """

    def __init__(self, steps: int, run: Path, agents: Sequence[Path], *, others: bool) -> None:
        self.stop = Stop(OutcomeKind.OK, f"ended after {steps} steps, as asked")
        self._steps = steps
        self._others = others
        self._mark = run / layout.STOPPED
        self._counts = [StepCount(agent) for agent in agents]

    def is_reached(self) -> bool:
        """Whether a rank here has come so far, or one elsewhere has; others then hear of it."""
        if self._mark.exists():
            return True
        reached = self._seen() >= self._steps
        if reached:
            with suppress(OSError):  # the others will find out by themselves
                self._mark.touch()
        return reached

    def is_near(self) -> bool:
        """Whether a rank that ended now may have died of the end of others."""
        if not self._others:
            return False
        return self._mark.exists() or self._seen() >= max(self._steps - 1, 1)

    def _seen(self) -> int:
        return max(count.seen() for count in self._counts)


@dataclass(slots=True)
class _Series:
    """Starts of steps from one source, and the distances between their numbers."""

    starts: int = 0
    last: int | None = None
    apart: Counter[int] = field(default_factory=Counter[int])

    def add(self, number: object) -> None:
        self.starts += 1
        if isinstance(number, int):
            if self.last is not None and number > self.last:
                self.apart[number - self.last] += 1
            self.last = number

    def passed(self, source: str) -> int:
        """Steps between the first start and the last: a line may be printed every tenth step."""
        usual = self.apart.most_common(1)[0][0] if source == "log" and self.apart else 1
        return (self.starts - 1) * usual


class StepCount:
    """Steps that a rank has done, counted as they are written down; each byte is read once."""

    def __init__(self, agent: Path) -> None:
        self._agent = agent
        self._read: dict[Path, int] = {}
        self._series: dict[tuple[Path, str], _Series] = {}

    def seen(self) -> int:
        """Whole steps up to now, by the best source that has any."""
        for file in self._agent.glob("steps-*.jsonl"):
            with suppress(OSError):
                self._take(file)
        for source in _SOURCES:
            if passed := self._passed(source, bars=False):
                return passed
        return self._passed("log", bars=True)

    def _passed(self, source: str, *, bars: bool) -> int:
        """By one source; lines that name a step come before progress bars."""
        found = (
            it.passed(source)
            for (file, named), it in self._series.items()
            if named == source and (file.name == layout.STEPS_OF_BARS) is bars
        )
        return max(found, default=0)

    def _take(self, file: Path) -> None:
        at = self._read.get(file, 0)
        with file.open("rb") as lines:
            lines.seek(at)
            fresh, end, _ = lines.read().rpartition(b"\n")  # the last line may be half there
        self._read[file] = at + len(fresh) + len(end)
        for line in fresh.splitlines():
            try:
                made: object = parse_json(line)
            except ValueError:
                continue
            if isinstance(made, dict):
                told = cast("dict[str, object]", made)
                key = (file, str(told.get("source")))
                self._series.setdefault(key, _Series()).add(told.get("step"))


_STEP: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:global[_ ]?|train[_ ]?)?step(?:[\"']?\s*[:=#]\s*|\s+#?)(?P<step>\d{1,9})"
    r"(?![\d.]*\.?\d)(?![A-Za-z%])",
    re.IGNORECASE,
)
_COMPLETED: Final = re.compile(
    r"completed step: \d+, seconds: (?P<seconds>\d+(?:\.\d+)?(?:e-?\d+)?)"
)
_BAR: Final = re.compile(
    r"(?<![\d./])(?P<step>\d{1,9})/\d{1,9} \[[^\]\[]*?"
    r"(?:[\d?] ?(?:it|steps?|batch(?:es)?|updates?)/s|s/(?:it|steps?|batch(?:es)?|updates?))"
)
_COUNTED: Final = re.compile(
    r"(?<![A-Za-z0-9])iter(?:ation)?(?:[\"']?\s*[:=#]\s*|\s+#?)(?P<step>\d{1,9})(?![\d.]*\.?\d)(?![A-Za-z%])"
    r"|\[ *(?P<part>\d{1,9}) ?/ ?\d{1,9}\]",
    re.IGNORECASE,
)
_LOSS: Final = re.compile(
    r"(?<![A-Za-z])loss(?:es)?[\"']?\s*[:=]?\s*[\"']?[-+]?(?:\d|nan|inf)", re.IGNORECASE
)
_OF_TRAINING: Final = re.compile(r"(?<![A-Za-z])(?:loss(?:es)?|steps?)(?![A-Za-z])", re.IGNORECASE)
_NOT_OF_TRAINING: Final = re.compile(
    r"(?<![A-Za-z])(?:eval\w*|val|valid\w*|test\w*|epochs?|downloading|loading|tokenizing|map)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_LONGEST: Final = 2000
"""Of a line no more is looked at: what a trainer says of a step is short."""


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step that a line names, with its seconds where the line tells them."""

    step: int
    seconds: float | None = None


class StepLines:
    """Finds steps in the lines of one process, in order; `named` is the step that a line names."""

    def __init__(self, named: Callable[[str], int | None] | None = None) -> None:
        self._named = named or step_of
        self._last = -1

    def find(self, line: str) -> NamedStep | None:
        """The step that begins, or has ended, with this line."""
        step = self._named(line)
        if step is None or step <= self._last:
            return None
        self._last = step
        completed = _COMPLETED.search(line[:_LONGEST])
        return NamedStep(self._last, float(completed["seconds"]) if completed else None)


def step_of(line: str) -> int | None:
    """The number of the step that a line names."""
    line = line[:_LONGEST]
    found = _STEP.search(line)
    if found is not None:
        return int(found["step"])
    if not _LOSS.search(line) or _NOT_OF_TRAINING.search(line):
        return None
    counted = _COUNTED.search(line)
    return int(counted["step"] or counted["part"]) if counted else None


def bar_step_of(line: str) -> int | None:
    """How far the progress bar of a training has come."""
    line = line[:_LONGEST]
    bar = _BAR.search(line)
    if bar is None or not _OF_TRAINING.search(line):
        return None
    head = line[: bar.start()].rpartition(":")[0]  # what stands before the bar says of what it is
    return None if _NOT_OF_TRAINING.search(head) else int(bar["step"])
