"""Result: the output of `--json`, one type per command, from which its schema is generated.

A Result is filled from a command's findings. Each field takes the attribute, key or column of its
own name; `At` names a different one, and a field in milliseconds (`step_ms`) can be filled from one
in seconds (`step_s`). A field with a single possible value always has that value. Unknown values
(None, Unknown, NaN) become null, never 0; `ReasonUnknown` gives the reason.

A field whose type is a dataclass holds all fields of that dataclass: data that the JSON shows
unchanged needs no Result of its own.

Figures are rounded to six decimals: one nanosecond where they are milliseconds.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from counterpoint.core import Range, Unknown

_DECIMALS: Final = 6
_DIGITS: Final = 6
_UNITS: Final = (("s", 1e3), ("ps", 1e-9))
"""Factors from the stored units of time to milliseconds."""
R = TypeVar("R", bound="Result")
_Maker: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class At:
    """The source of a field, as a path: `At("before.within_us")`; several paths give a tuple.

    Along a path, a tuple stands for each of its items: `At("changes.name")` gives all names.
    """

    paths: tuple[str, ...]

    def __init__(self, *paths: str) -> None:
        object.__setattr__(self, "paths", paths)

    def take(self, source: object) -> object:
        """Return the attribute, or None if anything along its path is unknown."""
        values = tuple(_walk(source, path) for path in self.paths)
        if len(values) == 1:
            return values[0]
        return None if None in values else values


@dataclass(frozen=True, slots=True)
class CountOf:
    """The number of items of an attribute; null if anything along its path is unknown."""

    path: str

    def take(self, source: object) -> object:
        values = _walk(source, self.path)
        return len(values) if isinstance(values, Sized) else None


@dataclass(frozen=True, slots=True)
class ReasonUnknown:
    """The reason why an attribute, or the whole result, is unknown; null if it is known."""

    path: str = ""

    def take(self, source: object) -> object:
        value = _walk(source, self.path) if self.path else source
        return value.reason if isinstance(value, Unknown) else None


@dataclass(frozen=True, slots=True)
class _Rounding:
    """A rounding other than six decimals: none, or to significant digits."""

    round: Callable[[float], float]


class _EmptyIsNull:
    """Marks a field whose empty value becomes null."""


TextOrNull: TypeAlias = Annotated[str | None, _EmptyIsNull]
"""A text; null if empty."""
TextsOrNull: TypeAlias = Annotated[tuple[str, ...] | None, _EmptyIsNull]
"""Texts; null if there are none."""
Exact: TypeAlias = Annotated[float, _Rounding(float)]
"""A figure that is not rounded."""
Large: TypeAlias = Annotated[float, _Rounding(lambda figure: float(f"{figure:.{_DIGITS}g}"))]
"""A figure rounded to significant digits instead of decimals."""
Pair: TypeAlias = tuple[float, float]
"""The two ends of a range, or the figures of A and B."""
Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values in order; a name may occur twice."""


class Result(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object of the JSON; each of its keys is always there."""


def fill(kind: type[R], source: object, /, **given: object) -> R:
    """Return a Result of this kind, filled from an object and from the given fields."""
    getters = _fields(kind)
    if unknown := given.keys() - getters.keys():
        raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    values: dict[str, Any] = {}
    for name, (take, make) in getters.items():
        values[name] = make(given[name] if name in given else take(source))
    return kind(**values)


def json_text(result: Result) -> str:
    """Return the JSON with one line per key, and one per row of a table."""
    entries = (f"{json.dumps(key)}: {_lines(value)}" for key, value in plain(result).items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def plain(result: Result) -> dict[str, Any]:
    """Return the Result as plain data."""
    return cast("dict[str, Any]", msgspec.to_builtins(result))


def _lines(value: object) -> str:
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        rows = cast("Iterable[object]", value)
        return "[\n" + ",\n".join(f" {json.dumps(row, allow_nan=False)}" for row in rows) + "\n]"
    return json.dumps(value, allow_nan=False)


def _walk(source: object, path: str) -> object:
    if source is None or isinstance(source, Unknown):
        return None
    if type(source) is tuple:
        return tuple(_walk(item, path) for item in cast("tuple[object, ...]", source))
    name, _, rest = path.partition(".")
    value = _get(source, name)
    return _walk(value, rest) if rest else value


def _get(source: object, name: str) -> object:
    if isinstance(source, Mapping):
        return cast("Mapping[str, object]", source)[name]
    if name.endswith("_ms") and not hasattr(source, name):
        for unit, scale in _UNITS:
            if hasattr(source, stored := name.removesuffix("ms") + unit):
                return _scaled(getattr(source, stored), scale)
    return getattr(source, name)


def _scaled(value: Any, by: float) -> Any:  # noqa: ANN401
    if isinstance(value, Range):
        return Range(value.low * by, value.high * by)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key: _scaled(item, by) for key, item in items}
    if isinstance(value, tuple):
        return tuple(_scaled(item, by) for item in cast("tuple[object, ...]", value))
    return value * by if isinstance(value, int | float) else value


@cache
def _fields(kind: type[Any]) -> dict[str, tuple[_Maker, _Maker]]:
    """Return the getter and the converter of each field of a Result or dataclass, by name."""
    hints = get_type_hints(kind, include_extras=True)
    members = fields(kind) if is_dataclass(kind) else msgspec.structs.fields(kind)
    return {
        field.name: (_taker(field.name, hints[field.name]), _maker(hints[field.name]))
        for field in members
    }


def _taker(name: str, kind: Any) -> _Maker:  # noqa: ANN401
    bare, *marks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    if bare is type(None):
        return lambda _: None
    if get_origin(bare) is Literal and len(values := get_args(bare)) == 1:
        return lambda _: values[0]
    mark = next((mark for mark in marks if isinstance(mark, At | CountOf | ReasonUnknown)), None)
    if mark is not None:
        return mark.take

    def take(source: object) -> object:
        if type(source) is dict:  # a row of a table, as most are
            return cast("dict[str, object]", source)[name]
        return _walk(source, name)

    return take


def _maker(kind: Any) -> _Maker:  # noqa: ANN401 - a type or an annotation
    """Return the function that converts a value to the JSON form of this type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        make = _maker(inner[0])
        if _EmptyIsNull in inner:
            return lambda value: make(value) or None
        rounding = next((mark.round for mark in inner if isinstance(mark, _Rounding)), None)
        return make if rounding is None else lambda value: _figure(value, rounding)
    if origin in (Union, types.UnionType):
        make = _maker(next(alternative for alternative in inner if alternative is not type(None)))
        return lambda value: None if value is None or isinstance(value, Unknown) else make(value)
    if origin is tuple:
        makers = [_maker(item_kind) for item_kind in inner if item_kind is not Ellipsis]
        return _rows(makers[0]) if Ellipsis in inner else _tuple(makers)
    if origin in (dict, Mapping):
        make = _maker(inner[1])
        return lambda value: {str(key): make(item) for key, item in dict(value).items()}
    return _maker_of_one(kind)


def _maker_of_one(kind: Any) -> _Maker:  # noqa: ANN401
    if isinstance(kind, type) and issubclass(kind, Result):
        return lambda value: value if isinstance(value, kind) else _filled(kind, value)
    if isinstance(kind, type) and is_dataclass(kind):
        return lambda value: {
            name: make(take(value)) for name, (take, make) in _fields(kind).items()
        }
    return _text if get_origin(kind) is Literal else _SIMPLE.get(kind, _same)


def _filled(kind: type[R], source: object) -> R:
    """Return a Result filled from an object, or from a plain tuple of its fields in order."""
    if type(source) is not tuple:
        return fill(kind, source)
    values = cast("tuple[object, ...]", source)
    return fill(kind, None, **dict(zip(_fields(kind), values, strict=True)))


def _rows(make: _Maker) -> _Maker:
    """Return a converter for the rows of a frame or sequence; unknown values have no rows."""

    def made(values: Any) -> tuple[Any, ...]:  # noqa: ANN401
        if values is None or isinstance(values, Unknown):
            return ()
        rows = values.iter_rows(named=True) if hasattr(values, "iter_rows") else values
        return tuple(make(row) for row in rows)

    return made


def _tuple(makers: list[_Maker]) -> _Maker:
    def made(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
        ends = (value.low, value.high) if isinstance(value, Range) else value
        return tuple(make(end) for make, end in zip(makers, ends, strict=True))

    return made


def _figure(
    value: float | Unknown | None,
    rounded: Callable[[float], float] = lambda figure: round(figure, _DECIMALS),
) -> float | None:
    if value is None or isinstance(value, Unknown) or not math.isfinite(value):
        return None
    return rounded(value) if isinstance(value, float) else value


def _text(value: object) -> str | None:
    return None if value is None or isinstance(value, Unknown) else str(value)


def _same(value: object) -> object:
    """Return the JSON form of arbitrary data from other programs."""
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(key): _same(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_same(item) for item in cast("Iterable[object]", value)]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, str | PurePath) else value


_SIMPLE: Final[Mapping[Any, _Maker]] = {float: _figure, str: _text}
