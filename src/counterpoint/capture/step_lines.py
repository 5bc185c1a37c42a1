"""Steps as trainers print them: less exact than annotations, better than nothing.

    completed step: 7, seconds: 1.234, TFLOP/s/device: ...     MaxText: its own seconds are used
    step 7 loss 1.23 · step=7 · Step: 7/100 · [step 7] · global_step: 7
    iter 7: loss 1.23, time 50ms · iteration 7/ 100 | lm loss: 1.2 · [ 7/100] loss=1.23
     7%|#  | 7/100 [00:05<00:45, 2.0it/s, loss=2.31]           a progress bar of tqdm's

Iterations and a count in brackets are steps where the line tells a loss, and is of no evaluation
and no epoch. Of bars only those that speak of a loss or of steps are meant, and no evaluation's:
downloads and tokenizers have bars, too. Only a number above the last one counts, so that a second
line about a step is not a second step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
