"""What the figures of an arm are with, and its settings do not hold: said beside them."""

from __future__ import annotations

from counterpoint.flags.version import PROFILE
from counterpoint.tune.arm import Arm

WITHOUT_PGLE = (
    "without PGLE: the gain was predicted with a profile made of predicted costs;"
    " one has to be measured"
)


def lacks_profile(arm: Arm) -> bool:
    """Whether no PGLE profile was measured for it yet, though its figures are with one."""
    return arm.profile and PROFILE not in arm.settings.flags


def beside(arm: Arm) -> tuple[str, ...]:
    """A line for each."""
    said: list[str] = []
    if lacks_profile(arm):
        said.append(WITHOUT_PGLE)
    if arm.per is not None:
        said.append(f"a process per {arm.per}: that is how they are started, and no setting")
    return tuple(said)
