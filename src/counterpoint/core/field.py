"""What a field of a result means and how tables show it, said once: where the field is declared.

    exposed_ms: Annotated[float, Field("the part of `total_ms` that nothing hides", "exposed", MS)]

The JSON schemas, the reference pages, the tables on the terminal and the tables on pages are made
from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints


class Form(Enum):
    """What a value is, by which a table chooses unit, digits and alignment."""

    MS = "ms"
    US = "us"
    DIFFERENCE = "difference"  # of milliseconds, with its sign
    RANGE = "range"  # of milliseconds
    SHARE = "share"
    COUNT = "count"
    BYTES = "bytes"
    GBPS = "GB/s"
    WORD = "word"
    NAME = "name"  # of an op: shortened if it is very long
    LABEL = "label"  # a name to copy and paste: never shortened
    PLACE = "place"  # a path, of which the end matters most


@dataclass(frozen=True, slots=True)
class Field:
    """Meaning of a field, and its column in tables.

    Args:
        meaning: What the value is, in Markdown; what null means, if it may be null.
        title: Heading of the column; empty: no table shows the field.
        form: What the value is.
        rank: Columns of the highest rank are dropped first where a screen is narrow, rank 0 never.
        digits: Decimals of a share's percents.
        unknown: Why the value may be unknown, as a page says beside its `?`.
    """

    meaning: str
    title: str = ""
    form: Form = Form.WORD
    rank: int = 0
    digits: int = 0
    unknown: str = ""


def fields_of(kind: type[Any]) -> dict[str, Field]:
    """Return the Field of each annotated attribute of a class, by name, in order."""
    hints = get_type_hints(kind, include_extras=True)
    marks = {name: get_args(hint)[1:] for name, hint in hints.items()}
    return {
        name: mark
        for name, metadata in marks.items()
        for mark in metadata
        if isinstance(mark, Field)
    }
