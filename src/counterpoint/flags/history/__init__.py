"""Flags across releases: when each was added, changed and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.history.history import ChangedFlag as ChangedFlag
    from counterpoint.flags.history.history import FlagChange as FlagChange
    from counterpoint.flags.history.history import ReleaseDiff as ReleaseDiff
    from counterpoint.flags.history.history import diff as diff
    from counterpoint.flags.history.lists import FlagFilter as FlagFilter
    from counterpoint.flags.history.lists import ListedFlag as ListedFlag
    from counterpoint.flags.history.lists import channels as channels
    from counterpoint.flags.history.lists import listing as listing
    from counterpoint.flags.history.lists import require_earlier as require_earlier
    from counterpoint.flags.history.standing import FlagState as FlagState
    from counterpoint.flags.history.standing import release_added as release_added

__getattr__ = lazy(
    __name__,
    {
        "FlagChange": "counterpoint.flags.history.history",
        "ChangedFlag": "counterpoint.flags.history.history",
        "ReleaseDiff": "counterpoint.flags.history.history",
        "ListedFlag": "counterpoint.flags.history.lists",
        "FlagState": "counterpoint.flags.history.standing",
        "FlagFilter": "counterpoint.flags.history.lists",
        "release_added": "counterpoint.flags.history.standing",
        "channels": "counterpoint.flags.history.lists",
        "diff": "counterpoint.flags.history.history",
        "listing": "counterpoint.flags.history.lists",
        "require_earlier": "counterpoint.flags.history.lists",
    },
)
