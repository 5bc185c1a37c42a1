"""Settings under which nothing overlaps, so that an instruction's time is its own.

XLA takes a program's fingerprint before it schedules. Switching the scheduler's pass off therefore
leaves the program what it is; switching async collectives off does not: that compiles another
program, in which the same names stand for other instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.flags import Settings, inherited_settings
from counterpoint.flags.version import DISABLED_PASSES, async_collectives_off, scheduler_off


def serial_settings(
    settings: Settings,
    inherited: Mapping[str, str],
    version: str | None,
    *,
    disable_async: bool,
) -> Settings:
    """With the scheduler off, in addition to whatever passes are off; async ones if asked."""
    under = inherited_settings(inherited)
    for name, value in scheduler_off(version):
        settings = (
            settings.joined(name, value, under=under)
            if name == DISABLED_PASSES
            else settings.merged(Settings(((name, value),)))
        )
    if disable_async:
        settings = settings.merged(Settings(async_collectives_off(version)))
    return settings
