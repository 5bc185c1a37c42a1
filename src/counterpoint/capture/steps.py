"""Steps of a running program: as trainers print them, and the goal at which a run ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, cast

from counterpoint.capture.processes import StopReason
from counterpoint.core import parse_json
from counterpoint.runs import layout
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.trainers import trainers

_SOURCES: Final = ("annotation", "api", "log")
"""Sources of steps, the most exact first, in the order a reader of the Run prefers."""


class StepGoal:
    """A number of steps, of the ranks whose agents write into these directories.

    `others` is true if there are ranks elsewhere.

    Ranks run in lockstep, but their ends are noticed one after the other. Under a launcher each
    rank has its own Counterpoint, so the first one to end its rank leaves a mark in the Run for the
    others: a rank that dies because its peers ended has reached the goal, too.
    """

    def __init__(self, steps: int, run: Path, agents: Sequence[Path], *, others: bool) -> None:
        self.stop = StopReason(OutcomeKind.OK, f"ended after {steps} steps, as requested")
        self._steps = steps
        self._others = others
        self._mark = run / layout.STOPPED
        self._counts = [StepCount(agent) for agent in agents]

    def is_reached(self) -> bool:
        """Return whether any rank has reached it, and notify the others."""
        if self._mark.exists():
            return True
        reached = self._seen() >= self._steps
        if reached:
            with suppress(OSError):  # the others will find out by themselves
                self._mark.touch()
        return reached

    def is_near(self) -> bool:
        """Return whether a rank that ended now may have died because others ended."""
        if not self._others:
            return False
        return self._mark.exists() or self._seen() >= max(self._steps - 1, 1)

    def _seen(self) -> int:
        return max(count.seen() for count in self._counts)


@dataclass(slots=True)
class _Series:
    """Starts of steps from one source, and the differences between their numbers."""

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
        """Return steps between the first and last start: a line may come every tenth step."""
        usual = self.apart.most_common(1)[0][0] if source == "log" and self.apart else 1
        return (self.starts - 1) * usual


class StepCount:
    """Counts the steps of a rank as they are written; each byte is read once."""

    def __init__(self, agent: Path) -> None:
        self._agent = agent
        self._read: dict[Path, int] = {}
        self._series: dict[tuple[Path, str], _Series] = {}

    def seen(self) -> int:
        """Return the whole steps so far, by the best source that has any."""
        for file in self._agent.glob("steps-*.jsonl"):
            with suppress(OSError):
                self._take(file)
        for source in _SOURCES:
            if passed := self._passed(source, bars=False):
                return passed
        return self._passed("log", bars=True)

    def _passed(self, source: str, *, bars: bool) -> int:
        """Return the steps of one source.

        Lines that name a step are separate from progress bars.
        """
        counts = (
            series.passed(source)
            for (file, named), series in self._series.items()
            if named == source and (file.name == layout.STEPS_OF_BARS) is bars
        )
        return max(counts, default=0)

    def _take(self, file: Path) -> None:
        at = self._read.get(file, 0)
        with file.open("rb") as lines:
            lines.seek(at)
            fresh, end, _ = lines.read().rpartition(b"\n")  # the last line may be incomplete
        self._read[file] = at + len(fresh) + len(end)
        for line in fresh.splitlines():
            try:
                record: object = parse_json(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                fields = cast("dict[str, object]", record)
                key = (file, str(fields.get("source")))
                self._series.setdefault(key, _Series()).add(fields.get("step"))


_STEP: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:global[_ ]?|train[_ ]?)?step(?:[\"']?\s*[:=#]\s*|\s+#?)(?P<step>\d{1,9})"
    r"(?![\d.]*\.?\d)(?![A-Za-z%])",
    re.IGNORECASE,
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
    r"(?<![A-Za-z])loss(?:es)?[\"']?\s*+(?:[:=]\s*+)?[\"']?[-+]?(?:\d|nan|inf)", re.IGNORECASE
)
_OF_TRAINING: Final = re.compile(  # not `jit_step_compile`, of a line of JAX's behind the bar
    r"(?<![A-Za-z])(?:loss(?:es)?(?![A-Za-z])|steps?(?![A-Za-z_]))", re.IGNORECASE
)
_NOT_OF_TRAINING: Final = re.compile(
    r"(?<![A-Za-z])(?:eval\w*|val|valid\w*|test\w*|epochs?|downloading|loading|tokenizing|map)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_LONGEST: Final = 2000
"""Characters of a line that are searched: a trainer's step report is short."""


@dataclass(frozen=True, slots=True)
class NamedStep:
    """A step that a line names, with its seconds if the line has them."""

    step: int
    seconds: float | None = None


class StepLines:
    """Finds steps in the lines of one process, in order; `named` returns the step in a line.

    Less exact than annotations. Formats:

        completed step: 7, seconds: 1.234, TFLOP/s/device: ...     MaxText: its own seconds are used
        step 7 loss 1.23 · step=7 · Step: 7/100 · [step 7] · global_step: 7
        iter 7: loss 1.23, time 50ms · iteration 7/ 100 | lm loss: 1.2 · [ 7/100] loss=1.23
         7%|#  | 7/100 [00:05<00:45, 2.0it/s, loss=2.31]           a progress bar of tqdm

    An iteration, or a count in brackets, is a step only if the line has a loss and does not belong
    to an evaluation or an epoch. A progress bar must mention a loss or steps and no evaluation,
    because downloads and tokenizers have bars, too. Only a number above the last one counts, so a
    second line about a step is not a second step. Once a trainer has stated how long a step took,
    in the words that its file in `counterpoint.trainers` has, only such lines count.
    """

    def __init__(self, named: Callable[[str], int | None] | None = None) -> None:
        self._named = named or step_of
        self._of_trainers = named in (None, step_of)
        self._reported = False  # a trainer's own report of a step was seen: only those count now
        self._last = -1

    def find(self, line: str) -> NamedStep | None:
        """Return the step that begins, or has ended, with this line."""
        report = _reported_step(line[:_LONGEST]) if self._of_trainers else None
        self._reported = self._reported or report is not None
        step = report.step if report is not None else None
        if not self._reported:
            step = self._named(line)
        if step is None or step <= self._last:
            return None
        self._last = step
        return report or NamedStep(step)


@cache
def _reports() -> tuple[re.Pattern[str], ...]:
    """Return the lines in which trainers state how long a step took."""
    lines = (line for trainer in trainers() for line in trainer.step.lines)
    return tuple(re.compile(line) for line in lines if "(?P<seconds>" in line)


def _reported_step(line: str) -> NamedStep | None:
    for report in _reports():
        match = report.search(line)
        if match is not None and match["seconds"]:
            try:
                return NamedStep(int(match["step"]), float(match["seconds"]))
            except ValueError:
                return None
    return None


def step_of(line: str) -> int | None:
    """Return the number of the step that a line names."""
    line = line[:_LONGEST]
    match = _STEP.search(line)
    if match is not None:
        return int(match["step"])
    if not _LOSS.search(line) or _NOT_OF_TRAINING.search(line):
        return None
    counted = _COUNTED.search(line)
    return int(counted["step"] or counted["part"]) if counted else None


def bar_step_of(line: str) -> int | None:
    """Return the position of a training's progress bar."""
    line = line[:_LONGEST]
    bar = _BAR.search(line)
    if bar is None or not _OF_TRAINING.search(line):
        return None
    head = line[: bar.start()].rpartition(":")[0]  # the text before the bar describes it
    return None if _NOT_OF_TRAINING.search(head) else int(bar["step"])
