"""A PGLE profile: costs by instruction name, its files, and its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.pgle.profiles.files import check_place as check_place
    from counterpoint.pgle.profiles.files import content_addressed as content_addressed
    from counterpoint.pgle.profiles.files import content_addressed_name as content_addressed_name
    from counterpoint.pgle.profiles.files import read_profile as read_profile
    from counterpoint.pgle.profiles.files import write_profile as write_profile
    from counterpoint.pgle.profiles.profile import ENDINGS as ENDINGS
    from counterpoint.pgle.profiles.profile import MEDIAN as MEDIAN
    from counterpoint.pgle.profiles.profile import SEPARATOR as SEPARATOR
    from counterpoint.pgle.profiles.profile import InstructionCost as InstructionCost
    from counterpoint.pgle.profiles.profile import Profile as Profile
    from counterpoint.pgle.profiles.profile import check_percentile as check_percentile

__getattr__ = lazy(__name__)
