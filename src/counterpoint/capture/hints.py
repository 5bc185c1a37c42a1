"""What is said of flags that the program itself gave, or a script on the way to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from counterpoint.flags.gone import unknown_hint
from counterpoint.runs.outcome import Outcome, OutcomeKind

_NAMES: Final = re.compile(r"--(\w+)")
_UNKNOWN: Final = re.compile(r"Unknown flags? in XLA_FLAGS: (.*)")
_MOST: Final = 3


def with_hints(outcome: Outcome) -> Outcome:
    """The outcome, with what to write instead of flags that XLA ended the program at."""
    told = _UNKNOWN.search(outcome.detail)
    if outcome.kind is not OutcomeKind.UNKNOWN_FLAG or told is None:
        return outcome
    names = list(dict.fromkeys(_NAMES.findall(told[1])))[:_MOST]
    hints = [f"{name}: {unknown_hint(name)}" for name in names]
    words = " ".join(dict.fromkeys(told[1].split(" ")))  # a flag that was given twice, once
    detail = outcome.detail.replace(told[1], words)
    return replace(outcome, detail=". ".join([detail, *hints]))
