"""Checks a profile against a program, and against another profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.pgle.checking.check import Coverage as Coverage
    from counterpoint.pgle.checking.check import CoveredPart as CoveredPart
    from counterpoint.pgle.checking.check import ImplausibleCost as ImplausibleCost
    from counterpoint.pgle.checking.check import LookupAnswer as LookupAnswer
    from counterpoint.pgle.checking.check import check_profile as check_profile
    from counterpoint.pgle.checking.difference import ProfileDiff as ProfileDiff
    from counterpoint.pgle.checking.difference import diff_profiles as diff_profiles
    from counterpoint.pgle.checking.verdict import COVERAGE as COVERAGE
    from counterpoint.pgle.checking.verdict import TIME as TIME
    from counterpoint.pgle.checking.verdict import CoverageVerdict as CoverageVerdict
    from counterpoint.pgle.checking.verdict import judge as judge

__getattr__ = lazy(__name__)
