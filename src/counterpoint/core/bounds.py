"""Numbers and shares that options take, within the bounds that make sense."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.core.errors import UsageError

_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?|\.[0-9]+)\s*(%?)")


def check_number(
    option: str, value: float | None, least: float, instead: float | None = None
) -> None:
    """Refuse a number below the least one that makes sense, or one that is not finite."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(
            f"{option} takes a number of at least {least:g}, not {value:g}",
            next=f"use {option} {max(least, 1) if instead is None else instead:g}",
        )


def read_share(option: str, text: str, *, example: str, of: str = "the step") -> float:
    """Parse `2%` or `0.02`; more than one half is refused as a mistake."""
    written = _SHARE.fullmatch(text.strip())
    value = float("nan") if written is None else float(written[1]) / (100 if written[2] else 1)
    if not 0 <= value <= 0.5:
        raise UsageError(
            f"{option} takes a share of {of} from 0 to 50%, not {text!r}",
            next=f"use {option} {example}",
        )
    return value
