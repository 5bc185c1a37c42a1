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
    from counterpoint.flags.versions.version import expect_pgle_known as expect_pgle_known
    from counterpoint.flags.versions.version import false_is_obeyed as false_is_obeyed
    from counterpoint.flags.versions.version import family as family
    from counterpoint.flags.versions.version import lhs_flag_needed as lhs_flag_needed
    from counterpoint.flags.versions.version import number as number
    from counterpoint.flags.versions.version import scheduler_off as scheduler_off
    from counterpoint.flags.versions.version import scheduler_on as scheduler_on

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
        "false_is_obeyed": "counterpoint.flags.versions.version",
        "family": "counterpoint.flags.versions.version",
        "lhs_flag_needed": "counterpoint.flags.versions.version",
        "number": "counterpoint.flags.versions.version",
        "scheduler_off": "counterpoint.flags.versions.version",
        "scheduler_on": "counterpoint.flags.versions.version",
    },
)
