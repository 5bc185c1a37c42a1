"""Shows: whether the compiler may see an arm's changes, so that compiling it is worthwhile."""

from __future__ import annotations

from counterpoint.tune.arm import Acts, Arm, ArmOrigin


def shows(arm: Arm) -> bool:
    """Return whether an arm has a change that acts on the schedule, or flags by hand.

    The run-time effect of other flags is unknown, but their effect on the schedule can be seen.
    """
    if not arm.changes or any(change.acts is Acts.SCHEDULE for change in arm.changes):
        return True
    flags = any(change.settings.xla or change.settings.options for change in arm.changes)
    return arm.origin is ArmOrigin.HAND and flags
