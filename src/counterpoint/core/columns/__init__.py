"""Columns of integers in numpy: sets of intervals, and numbers for distinct rows."""

from counterpoint.core.columns.intervals import EMPTY as EMPTY
from counterpoint.core.columns.intervals import Intervals as Intervals
from counterpoint.core.columns.intervals import as_ranges as as_ranges
from counterpoint.core.columns.intervals import distinct as distinct
from counterpoint.core.columns.intervals import union as union
