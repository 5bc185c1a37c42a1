"""Flag lifecycle: when a flag was added, changed and removed, and what replaced it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.lifecycle.lifecycle import Kind as Kind
    from counterpoint.flags.lifecycle.lifecycle import ending as ending
    from counterpoint.flags.lifecycle.lifecycle import fate as fate
    from counterpoint.flags.lifecycle.lifecycle import replacements as replacements
    from counterpoint.flags.lifecycle.removed import gone as gone
    from counterpoint.flags.lifecycle.removed import unknown_hint as unknown_hint

__getattr__ = lazy(
    __name__,
    {
        "Kind": "counterpoint.flags.lifecycle.lifecycle",
        "ending": "counterpoint.flags.lifecycle.lifecycle",
        "fate": "counterpoint.flags.lifecycle.lifecycle",
        "gone": "counterpoint.flags.lifecycle.removed",
        "replacements": "counterpoint.flags.lifecycle.lifecycle",
        "unknown_hint": "counterpoint.flags.lifecycle.removed",
    },
)
