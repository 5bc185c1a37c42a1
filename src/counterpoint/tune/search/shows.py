"""Shows: whether the compiler may see what an arm changes, so that it is worth a compile."""

from __future__ import annotations

from counterpoint.tune.arm import Acts, Arm, Origin


def shows(arm: Arm) -> bool:
    """A change that acts on the schedule, or flags by hand.

    What else flags do when they run is not known; what they change in the schedule is.
    """
    if not arm.changes or any(change.acts is Acts.SCHEDULE for change in arm.changes):
        return True
    flags = any(change.settings.xla or change.settings.options for change in arm.changes)
    return arm.origin is Origin.HAND and flags
