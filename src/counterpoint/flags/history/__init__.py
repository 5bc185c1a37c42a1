"""Flags across releases: when each was added, changed and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.history.history import Change as Change
    from counterpoint.flags.history.history import Changed as Changed
    from counterpoint.flags.history.history import Diff as Diff
    from counterpoint.flags.history.history import diff as diff
    from counterpoint.flags.history.lists import Listed as Listed
    from counterpoint.flags.history.lists import Wanted as Wanted
    from counterpoint.flags.history.lists import channels as channels
    from counterpoint.flags.history.lists import listing as listing
    from counterpoint.flags.history.lists import require_earlier as require_earlier
    from counterpoint.flags.history.standing import State as State
    from counterpoint.flags.history.standing import came as came

__getattr__ = lazy(
    __name__,
    {
        "Change": "counterpoint.flags.history.history",
        "Changed": "counterpoint.flags.history.history",
        "Diff": "counterpoint.flags.history.history",
        "Listed": "counterpoint.flags.history.lists",
        "State": "counterpoint.flags.history.standing",
        "Wanted": "counterpoint.flags.history.lists",
        "came": "counterpoint.flags.history.standing",
        "channels": "counterpoint.flags.history.lists",
        "diff": "counterpoint.flags.history.history",
        "listing": "counterpoint.flags.history.lists",
        "require_earlier": "counterpoint.flags.history.lists",
    },
)
