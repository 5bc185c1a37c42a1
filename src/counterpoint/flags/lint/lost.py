"""Lost: the flags that XLA does not read, since it stops before them."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.written import Slip

_NAMED: Final = 6


def what_is_lost(slip: Slip) -> str:
    """Why it is wrong, with the flags behind it: they are neither judged nor settings."""
    if not slip.lost:
        return slip.why
    named = ", ".join(f"--{one.name}" for one in slip.lost[:_NAMED])
    more = f" and {len(slip.lost) - _NAMED} more" if len(slip.lost) > _NAMED else ""
    return f"{slip.why} (not read: {named}{more})"
