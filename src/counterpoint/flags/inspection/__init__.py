"""Settings inspected: the values that the compiler really used, and descriptions of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.inspection.effective import Difference as Difference
    from counterpoint.flags.inspection.effective import Outcome as Outcome
    from counterpoint.flags.inspection.effective import Used as Used
    from counterpoint.flags.inspection.effective import compare as compare
    from counterpoint.flags.inspection.effective import differences as differences
    from counterpoint.flags.inspection.showing import Shown as Shown
    from counterpoint.flags.inspection.showing import Verdict as Verdict
    from counterpoint.flags.inspection.showing import show as show

__getattr__ = lazy(
    __name__,
    {
        "Difference": "counterpoint.flags.inspection.effective",
        "Outcome": "counterpoint.flags.inspection.effective",
        "Shown": "counterpoint.flags.inspection.showing",
        "Used": "counterpoint.flags.inspection.effective",
        "Verdict": "counterpoint.flags.inspection.showing",
        "compare": "counterpoint.flags.inspection.effective",
        "differences": "counterpoint.flags.inspection.effective",
        "show": "counterpoint.flags.inspection.showing",
    },
)
