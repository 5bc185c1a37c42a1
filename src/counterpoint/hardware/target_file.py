"""A Target from a user's file: a known GPU with other numbers, or one of its own.

docs/reference/target-files.md describes the file.
"""

from __future__ import annotations

from counterpoint.hardware.target import Target


def read_target(path: str) -> Target:
    """The Target that the file describes; UsageError or InputError says what is wrong in it."""
    raise NotImplementedError
