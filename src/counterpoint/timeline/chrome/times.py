"""Exact conversion of microseconds, given as text, to integer picoseconds.

XLA writes doubles with 17 digits (1.3204529999999999 for 1,320,453 ps), so the nearest picosecond
is the intended value. Times that count from 1970 do not fit 64 bits; they are then counted from the
first one.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

_PS_PER_US: Final = 1_000_000
_LATEST_US: Final = 1 << 40  # 12.7 days
_LATEST_PS: Final = _LATEST_US * _PS_PER_US  # just below 2**60

_YEAR_9999_US: Final = 1 << 58

# Without traps 1e99 becomes infinity; with its real exponent it would become an integer with as
# many digits, and 1e999999999 would fill the memory.
parse_number: Final = Context(prec=40, Emax=60, Emin=-60, traps=[]).create_decimal
"""Parse a JSON number with a fraction or an exponent."""


class TraceClock:
    """Converts start times to picoseconds.

    They count from zero or, if that does not fit, from the first one's microsecond.
    """

    def __init__(self) -> None:
        self._origin_us: int | None = None

    def start_ps(self, value: object) -> int | None:
        """Return picoseconds, or None for a value that is not a time."""
        if not isinstance(value, (Decimal, int)):
            return None
        try:
            if self._origin_us is None:
                if not -_YEAR_9999_US < value < _YEAR_9999_US:
                    return None
                self._origin_us = 0 if -_LATEST_US < value < _LATEST_US else int(value)
            start = round((value - self._origin_us) * _PS_PER_US)
        except (OverflowError, ValueError):  # infinite
            return None
        return start if -_LATEST_PS < start < _LATEST_PS else None


def duration_ps(value: object) -> int | None:
    """Return picoseconds, or None for a value that is not a duration."""
    if not isinstance(value, (Decimal, int)):
        return None
    try:
        duration = round(value * _PS_PER_US)
    except (OverflowError, ValueError):
        return None
    return duration if 0 <= duration < _LATEST_PS else None
