"""Checks a profile against a program, and against another profile."""

from counterpoint.pgle.checking import check as check
from counterpoint.pgle.checking.check import COVERAGE as COVERAGE
from counterpoint.pgle.checking.check import TIME as TIME
from counterpoint.pgle.checking.check import Answer as Answer
from counterpoint.pgle.checking.check import Coverage as Coverage
from counterpoint.pgle.checking.check import Judgement as Judgement
from counterpoint.pgle.checking.check import Part as Part
from counterpoint.pgle.checking.check import addressed as addressed
from counterpoint.pgle.checking.check import addressed_name as addressed_name
from counterpoint.pgle.checking.check import check_profile as check_profile
from counterpoint.pgle.checking.check import judge as judge
from counterpoint.pgle.checking.difference import Diff as Diff
from counterpoint.pgle.checking.difference import diff_profiles as diff_profiles
