"""Budgets as people write them: `2h`, `20 trials`."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.plan import Budget

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS: Final = {
    word: unit
    for unit, words in {
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "trials": "trial trials",
    }.items()
    for word in words.split()
}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)\s*([a-z]+)")
_EXAMPLE: Final = "use --budget '20 trials, 2h'"
USUAL: Final = "2h"
"""Nobody expects a command to run for days; a study that it ends says so, and can be continued."""


def read_budget(text: str | None) -> Budget:
    """Parse `2h`, `2 hours`, `1h30m`, `20 trials`, `20 trials, 2h`; each unit may occur once."""
    if text is None:
        return Budget()
    rest = re.sub(r"[\s,]+|\band\b", " ", text.strip().lower()).strip()
    amounts: dict[str, str] = {}
    while rest:
        part = _PART.match(rest)
        unit = _UNITS.get(part[2]) if part else None
        if part is None or unit is None:
            raise _bad_budget(text)
        if unit in amounts:
            twice = f"{amounts[unit]} {unit} and {part[1]} {unit}"
            raise _bad_budget(text, f"the unit occurs twice: {twice}")
        amounts[unit] = part[1]
        rest = rest[part.end() :].strip()
    trials = amounts.pop("trials", None)
    seconds = sum(float(number) * _SECONDS[unit] for unit, number in amounts.items())
    if (trials is None and not amounts) or (amounts and not seconds):
        raise _bad_budget(text)
    if trials is not None and (not trials.isdecimal() or int(trials) == 0):
        raise _bad_budget(text)
    return Budget(trials=None if trials is None else int(trials), seconds=seconds or None)


def _bad_budget(text: str, why: str | None = None) -> UsageError:
    if why is None and re.fullmatch(r"\s*[0-9]+(\.[0-9]+)?\s*", text):
        why = f"{text.strip()} has no unit; quote a value that contains a space"
    return UsageError(
        f"--budget takes a time, a number of trials, or both, not {text!r}", why=why, next=_EXAMPLE
    )
