"""A file name that changes with the content, for caches that look at names only.

JAX's key of the persistent compilation cache holds the flags, so the path of a profile and not its
content: a profile that is replaced under its old name brings back the executable that was compiled
with the one before.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from counterpoint.pgle.schema import ENDINGS, TEXT

_DIGITS: Final = 12
_ADDRESSED: Final = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")


def addressed_name(data: bytes, stem: str = "step", ending: str = TEXT) -> str:
    """`step-<12 digits of the content's SHA-256>.pbtxt`."""
    if ending not in ENDINGS:
        raise ValueError(f"XLA takes no profile that ends in {ending}")
    return f"{stem}-{hashlib.sha256(data).hexdigest()[:_DIGITS]}{ending}"


def addressed(path: Path) -> Path:
    """The name, in the same directory, under which a profile's content should go to XLA."""
    return path.with_name(addressed_name(path.read_bytes(), _stem(path), path.suffix))


def is_addressed(path: Path) -> bool:
    """Whether a file has the name that its content asks for."""
    return path == addressed(path)


def _stem(path: Path) -> str:
    return _ADDRESSED.sub("", path.stem)
