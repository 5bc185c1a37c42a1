"""Converts frozen dataclasses to plain JSON values, and back."""

from counterpoint.core.records.plain import Misfit as Misfit
from counterpoint.core.records.plain import of_plain as of_plain
from counterpoint.core.records.plain import to_plain as to_plain
