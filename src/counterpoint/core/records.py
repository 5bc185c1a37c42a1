"""Converts values to plain JSON data and back, by type annotations, using msgspec.

Journals, run records and plans are stored this way. Missing fields take their default and unknown
ones are ignored, so versions can read each other. JSON cannot represent NaN and infinity: they are
stored as strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar, cast

import msgspec

from counterpoint.core.errors import CounterpointError

__all__ = ["RecordError", "from_plain", "to_plain"]


T = TypeVar("T")


class RecordError(ValueError):
    """Raised for a value of the wrong type."""


def to_plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """Return the value as dicts, lists, strings and numbers."""
    return _finite(msgspec.to_builtins(value, enc_hook=_encoded))


def from_plain(kind: type[T], plain: object) -> T:
    """Convert plain data to the type; raise RecordError if it does not match."""
    try:
        return _converted(kind, plain)
    except UnicodeEncodeError as error:  # half of a character, which JSON can hold
        raise RecordError(str(error)) from None


def _converted(kind: type[T], plain: object) -> T:
    try:
        return msgspec.convert(plain, kind, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        if "`float`, got `str`" in str(error):
            return _with_texts(kind, plain)
        raise _misfit(error) from None


def _with_texts(kind: type[T], plain: object) -> T:
    """Convert data in which non-finite numbers are stored as strings."""
    try:
        return msgspec.convert(plain, kind, dec_hook=_decoded, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None


def _misfit(error: msgspec.ValidationError) -> Exception:
    cause = error.__cause__
    return cause if isinstance(cause, CounterpointError) else RecordError(str(error))


def _encoded(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a record can't hold a {type(value).__name__}")


def _decoded(kind: type, plain: object) -> object:
    if issubclass(kind, PurePath) and isinstance(plain, str):
        return kind(plain)
    raise TypeError(f"a record can't hold a {kind.__name__}")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("Iterable[object]", value)]
    return value
