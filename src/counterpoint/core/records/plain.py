"""Values as plain JSON data and back, by the annotations of their types: the work is msgspec's.

Journals, run records and plans are kept this way. Fields that are not there take their default and
unknown ones are ignored, so versions can read each other. JSON has no words for NaN and infinity:
they are kept as texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar, cast

import msgspec

from counterpoint.core.errors import CounterpointError

T = TypeVar("T")


class Misfit(ValueError):
    """A value that is not of the type that belongs in its place."""


def to_plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """The value as dicts, lists, texts and numbers."""
    return _finite(msgspec.to_builtins(value, enc_hook=_encoded))


def of_plain(kind: type[T], plain: object) -> T:
    """The value again; a Misfit where it is not of that kind."""
    try:
        return msgspec.convert(plain, kind, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        if "`float`, got `str`" in str(error):
            return _with_texts(kind, plain)
        raise _misfit(error) from None


def _with_texts(kind: type[T], plain: object) -> T:
    """The same where a number that is not finite is kept as a text."""
    try:
        return msgspec.convert(plain, kind, dec_hook=_decoded, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None


def _misfit(error: msgspec.ValidationError) -> Exception:
    cause = error.__cause__
    return cause if isinstance(cause, CounterpointError) else Misfit(str(error))


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
        return {key: _finite(it) for key, it in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(it) for it in cast("Iterable[object]", value)]
    return value
