"""In which order the runs of a row are made, so that a drift of the machine falls on all alike."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.tune.arm import BASE


def row_order(arms: Sequence[str], row: int) -> tuple[str, ...]:
    """The base, then the arms; every second row backwards.

    For one arm two rows are ABBA. For several they are a palindrome: each arm is as far from the
    base before it in one row as it is after it in the next, so a steady drift cancels.
    """
    forwards = (BASE, *(it for it in arms if it != BASE))
    return forwards[::-1] if row % 2 else forwards
