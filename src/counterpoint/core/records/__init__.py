"""Converts frozen dataclasses to plain JSON values, and back."""

from counterpoint.core.records.plain import RecordError as RecordError
from counterpoint.core.records.plain import from_plain as from_plain
from counterpoint.core.records.plain import to_plain as to_plain
