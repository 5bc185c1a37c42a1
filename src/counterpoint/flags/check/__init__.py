"""`check`: run every rule on the settings of each program of a source, and apply fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.flags.check.examination import NO_FLAGS as NO_FLAGS
    from counterpoint.flags.check.examination import CheckRequest as CheckRequest
    from counterpoint.flags.check.examination import Examination as Examination
    from counterpoint.flags.check.examination import check as check
    from counterpoint.flags.check.examination import codes as codes
    from counterpoint.flags.check.examination import examine as examine
    from counterpoint.flags.check.examination import fix_and_examine as fix_and_examine
    from counterpoint.flags.check.fix import FixResult as FixResult
    from counterpoint.flags.check.fix import RefusedFix as RefusedFix
    from counterpoint.flags.check.own_release import OwnRelease as OwnRelease

__getattr__ = lazy(__name__)
