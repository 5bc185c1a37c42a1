"""The host of a predicted Timeline: one device stands for all, and its name says of which Target.

It is what a stored Timeline keeps of its Target.
"""

from __future__ import annotations

from typing import Final

from counterpoint.core.basis import Basis
from counterpoint.core.errors import CounterpointError
from counterpoint.hardware import Target, parse_target
from counterpoint.timeline.model import Timeline

_SAYS: Final = "one device stands for "


def stands_for(target: Target | None) -> str:
    """The host's name."""
    return _SAYS + (f"{target.devices:,} of {target}" if target else "all")


def target_said(timeline: Timeline) -> Target | None:
    """The Target that a prediction was made for; None where nobody said, or no longer can."""
    if timeline.basis is not Basis.PREDICTED or not timeline.hosts:
        return None
    said, _, written = timeline.hosts[0].name.removeprefix(_SAYS).partition(" of ")
    if not said or not written:
        return None
    try:
        return parse_target(written)
    except CounterpointError:
        return None  # a file that is gone
