"""Numbers that options take, from the least that makes sense."""

from __future__ import annotations

from counterpoint.core.errors import UsageError


def check_number(
    option: str, value: float | None, least: float, instead: float | None = None
) -> None:
    """Refuse a number below the least one that makes sense, or one that is not finite."""
    if value is not None and not least <= value < float("inf"):
        raise UsageError(
            f"{option} takes a number of at least {least:g}, not {value:g}",
            next=f"use {option} {max(least, 1) if instead is None else instead:g}",
        )
