"""What a study may spend, and shares of a step, as people write them."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.core.errors import UsageError
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
_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?|\.[0-9]+)\s*(%?)")
_EXAMPLE: Final = "--budget '20 trials, 2h'"


def read_budget(text: str | None) -> Budget:
    """`2h`, `2 hours`, `1h30m`, `20 trials`, `20 trials, 2h`; each unit once."""
    if text is None:
        return Budget()
    rest = re.sub(r"[\s,]+|\band\b", " ", text.strip().lower()).strip()
    said: dict[str, str] = {}
    while rest:
        part = _PART.match(rest)
        unit = _UNITS.get(part[2]) if part else None
        if part is None or unit is None:
            raise _bad_budget(text)
        if unit in said:
            raise _bad_budget(text, f"{said[unit]} {unit}, and {part[1]} {unit}: which?")
        said[unit] = part[1]
        rest = rest[part.end() :].strip()
    trials = said.pop("trials", None)
    seconds = sum(float(number) * _SECONDS[unit] for unit, number in said.items())
    if (trials is None and not said) or (said and not seconds):
        raise _bad_budget(text)
    if trials is not None and (not trials.isdecimal() or int(trials) == 0):
        raise _bad_budget(text)
    return Budget(trials=None if trials is None else int(trials), seconds=seconds or None)


def _bad_budget(text: str, why: str | None = None) -> UsageError:
    if why is None and re.fullmatch(r"\s*[0-9]+(\.[0-9]+)?\s*", text):
        why = f"{text.strip()} of what? with a space between, both stand in quotes"
    return UsageError(
        f"--budget takes a time, a number of trials, or both, not {text!r}", why=why, next=_EXAMPLE
    )


def read_share(option: str, text: str, *, example: str, of: str = "the step") -> float:
    """`2%` or `0.02`; what is over a half can't be meant."""
    written = _SHARE.fullmatch(text.strip())
    value = float("nan") if written is None else float(written[1]) / (100 if written[2] else 1)
    if not 0 <= value <= 0.5:
        raise UsageError(
            f"{option} takes a share of {of} from 0 to 50%, not {text!r}",
            next=f"{option} {example}",
        )
    return value


def refuse_low(option: str, value: float | None, least: float) -> None:
    """An error where a number is below what makes sense."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(f"{option} takes a number from {least:g} on, not {value:g}")
