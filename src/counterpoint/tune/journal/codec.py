"""Codec: frozen dataclasses to plain JSON values and back, by their annotations.

What a type can't tell is left to nobody: a value of another type is a Misfit. Fields that are not
there take their default, fields that nobody knows are passed over, so versions can read each other.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from counterpoint.core.basis import Range, Unknown
from counterpoint.core.errors import CounterpointError

T = TypeVar("T")

_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no words for these."""
_TAGGED: Final[tuple[type, ...]] = (Range, Unknown)
"""Where a union holds several dataclasses, its fields tell which one it is."""


class Misfit(ValueError):
    """A value that is not what its place asks for."""


def to_plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON may hold
    """What JSON can say of a value."""
    if value is None or isinstance(value, (str, int, float, bool, Path)):
        return _plain(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {it.name: to_plain(getattr(value, it.name)) for it in fields(value)}
    if isinstance(value, (tuple, list, frozenset)):
        return [to_plain(it) for it in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: to_plain(it) for name, it in items}
    raise TypeError(f"a record can't hold a {type(value).__name__}")


def _plain(value: str | float | Path | None) -> str | float | None:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, (Path, str)) else value  # a StrEnum is its text


def of_plain(kind: type[T], plain: object) -> T:
    """The value again; a Misfit where it is not of that kind."""
    return cast("T", _value(kind, plain, kind.__name__))


def _value(kind: Any, plain: Any, where: str) -> object:  # noqa: ANN401
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), plain, where)
    if origin is Literal:
        return _checked(plain in get_args(kind), plain, plain, where)
    if origin is tuple:
        return _tuple(get_args(kind), plain, where)
    if origin is not None and issubclass(origin, Mapping):
        _checked(isinstance(plain, dict), plain, plain, where)
        inner = get_args(kind)[1]
        return MappingProxyType({str(it): _value(inner, plain[it], where) for it in plain})
    if is_dataclass(kind):
        return _dataclass(cast("type", kind), plain, where)
    return _simple(kind, plain, where)


def _simple(kind: Any, plain: Any, where: str) -> object:  # noqa: ANN401
    if kind is float:
        if isinstance(plain, str) and plain in _NOT_FINITE:
            return _NOT_FINITE[plain]
        is_number = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        return _checked(is_number, plain, float(plain) if is_number else plain, where)
    if kind is Path:
        return _checked(isinstance(plain, str), plain, Path(str(plain)), where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        known = [it.value for it in kind]
        return _checked(plain in known, plain, kind(plain) if plain in known else plain, where)
    fits = type(plain) is kind  # bool is no int here
    return _checked(fits, plain, plain, where)


def _one_of(kinds: tuple[Any, ...], plain: Any, where: str) -> object:  # noqa: ANN401
    if plain is None and type(None) in kinds:
        return None
    tried = [it for it in kinds if it is not type(None)]
    for kind in tried:
        if kind in _TAGGED and set(plain or ()) != {it.name for it in fields(kind)}:
            continue
        try:
            return _value(kind, plain, where)
        except Misfit:
            if kind is tried[-1]:
                raise
    raise Misfit(f"{where}: {plain!r} fits nothing that may be there")


def _tuple(inner: tuple[Any, ...], plain: Any, where: str) -> tuple[object, ...]:  # noqa: ANN401
    _checked(isinstance(plain, list), plain, plain, where)
    several = cast("list[object]", plain)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_value(inner[0], it, where) for it in several)
    _checked(len(several) == len(inner), plain, plain, where)
    return tuple(_value(kind, it, where) for kind, it in zip(inner, several, strict=True))


def _dataclass(kind: type, plain: Any, where: str) -> object:  # noqa: ANN401
    _checked(isinstance(plain, dict), plain, plain, where)
    given = cast("dict[str, object]", plain)
    found: dict[str, object] = {}
    for it, hint in _fields(kind):
        place = f"{where}.{it.name}"
        if it.name in given:
            found[it.name] = _value(hint, given[it.name], place)
        elif it.default is MISSING and it.default_factory is MISSING:
            raise Misfit(f"{place}: is not there")
    try:
        return kind(**found)
    except CounterpointError:  # a name that is no setting's
        raise
    except ValueError as error:  # as a Range that runs backwards
        raise Misfit(f"{where}: {error}") from None


@cache
def _fields(kind: type) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(kind)
    return tuple((it, hints[it.name]) for it in fields(kind))


def _checked(fits: bool, plain: object, value: object, where: str) -> object:
    if not fits:
        raise Misfit(f"{where}: {plain!r} is not what belongs there")
    return value
