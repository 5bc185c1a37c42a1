"""Releases of jaxlib and chips, and the scheduler flags of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.versions.version import DISABLED_PASSES as DISABLED_PASSES
    from counterpoint.flags.versions.version import LHS as LHS
    from counterpoint.flags.versions.version import PROFILE as PROFILE
    from counterpoint.flags.versions.version import SCHEDULER as SCHEDULER
    from counterpoint.flags.versions.version import SYNCHRONOUS as SYNCHRONOUS
    from counterpoint.flags.versions.version import async_collectives_off as async_collectives_off
    from counterpoint.flags.versions.version import chip_family as chip_family
    from counterpoint.flags.versions.version import expect_pgle_known as expect_pgle_known
    from counterpoint.flags.versions.version import lhs_flag_needed as lhs_flag_needed
    from counterpoint.flags.versions.version import (
        scheduler_can_be_disabled as scheduler_can_be_disabled,
    )
    from counterpoint.flags.versions.version import scheduler_off as scheduler_off
    from counterpoint.flags.versions.version import scheduler_on as scheduler_on
    from counterpoint.flags.versions.version import version_number as version_number

__getattr__ = lazy(
    __name__,
    {
        "DISABLED_PASSES": "counterpoint.flags.versions.version",
        "LHS": "counterpoint.flags.versions.version",
        "PROFILE": "counterpoint.flags.versions.version",
        "SCHEDULER": "counterpoint.flags.versions.version",
        "SYNCHRONOUS": "counterpoint.flags.versions.version",
        "async_collectives_off": "counterpoint.flags.versions.version",
        "expect_pgle_known": "counterpoint.flags.versions.version",
        "scheduler_can_be_disabled": "counterpoint.flags.versions.version",
        "chip_family": "counterpoint.flags.versions.version",
        "lhs_flag_needed": "counterpoint.flags.versions.version",
        "version_number": "counterpoint.flags.versions.version",
        "scheduler_off": "counterpoint.flags.versions.version",
        "scheduler_on": "counterpoint.flags.versions.version",
    },
)
