"""Flag lifecycle: when a flag was added, changed and removed, and what replaced it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.lifecycle.lifecycle import LifecycleStatus as LifecycleStatus
    from counterpoint.flags.lifecycle.lifecycle import (
        consequence_of_rejection as consequence_of_rejection,
    )
    from counterpoint.flags.lifecycle.lifecycle import lifecycle_of as lifecycle_of
    from counterpoint.flags.lifecycle.lifecycle import replacements as replacements
    from counterpoint.flags.lifecycle.removed import removal_of as removal_of
    from counterpoint.flags.lifecycle.removed import unknown_hint as unknown_hint

__getattr__ = lazy(
    __name__,
    {
        "LifecycleStatus": "counterpoint.flags.lifecycle.lifecycle",
        "consequence_of_rejection": "counterpoint.flags.lifecycle.lifecycle",
        "lifecycle_of": "counterpoint.flags.lifecycle.lifecycle",
        "removal_of": "counterpoint.flags.lifecycle.removed",
        "replacements": "counterpoint.flags.lifecycle.lifecycle",
        "unknown_hint": "counterpoint.flags.lifecycle.removed",
    },
)
