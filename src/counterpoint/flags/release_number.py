"""Release numbers: versions as numbers that compare."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["version_number"]

_NEWEST: Final = (9999,)
_VERSION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})*+(?!\.?\d)")  # no release has more digits


def version_number(version: str | None) -> tuple[int, ...]:
    """Return a version as comparable numbers, without any suffix.

    None, or a version that can't be read, counts as the newest.
    """
    match = _VERSION.match(version or "")
    return tuple(int(part) for part in match[0].split(".")) if match else _NEWEST
