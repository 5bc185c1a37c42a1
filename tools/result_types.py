"""The types of what commands print as JSON.

The schemas, the reference pages and the types of the web page are made from them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, ClassVar, cast, get_args, get_origin, get_type_hints

import msgspec

from counterpoint import report
from counterpoint.core.field import Field, fields_of
from counterpoint.report.json import Result


@cache
def results() -> Mapping[str, type[Result]]:
    """The types of what commands print, by name: `explain`, `flags.check`, `pgle-make`."""
    for module in pkgutil.walk_packages(report.__path__, f"{report.__name__}."):
        importlib.import_module(module.name)
    return {str(tag).split(".", 1)[1].partition("/")[0]: kind for tag, kind in _tagged(Result)}


def _tagged(kind: type[Result]) -> Iterator[tuple[object, type[Result]]]:
    if kind.__struct_config__.tag is not None:
        yield kind.__struct_config__.tag, kind
    for one in kind.__subclasses__():
        yield from _tagged(one)


def objects_in(top: type[Any]) -> dict[type[Any], list[str]]:
    """The types of objects within a type, each with the paths of the keys that hold it."""
    paths: dict[type[Any], list[str]] = {}
    ahead: list[tuple[type[Any], str]] = [(top, "")]
    while ahead:
        kind, prefix = ahead.pop(0)
        for key, hint in hints_of(kind).items():
            for inner in kinds_in(hint):
                if inner not in paths:
                    ahead.append((inner, f"{prefix}{key}."))
                paths.setdefault(inner, []).append(f"{prefix}{key}")
    return paths


def kinds_in(hint: Any) -> Iterator[type[Any]]:  # noqa: ANN401 - a type or an annotation
    """Yield the types of objects in an annotation."""
    if isinstance(hint, type):
        kind = cast("type[Any]", hint)
        if issubclass(kind, msgspec.Struct) or is_dataclass(kind):
            yield kind
    for inner in get_args(hint):
        yield from kinds_in(inner)


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """The type of each key."""
    keys = _keys(kind)
    return {
        keys.get(name, name): hint
        for name, hint in get_type_hints(kind).items()
        if get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def fields_by_key(kind: type[Any]) -> dict[str, Field]:
    """The Field of each key that has one."""
    keys = _keys(kind)
    return {keys.get(name, name): field for name, field in fields_of(kind).items()}


def columns_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields that tables show; none: no table has such rows."""
    return getattr(kind, "COLUMNS", ())


def _keys(kind: type[Any]) -> dict[str, str]:
    """The keys in the JSON, by the attributes' names, of which some are words of Python's."""
    if is_dataclass(kind):
        return {}
    return {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
