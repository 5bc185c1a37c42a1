"""A serialized DebugOptions, field by field, and field contents as XLA_FLAGS spells them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

_T = TypeVar("_T", int, bytes)
Fields: TypeAlias = dict[int, tuple[int | bytes, ...]]

_PATH: Final = (3, 3)  # CompileOptionsProto.executable_build_options, its debug_options
_FIXED: Final = {1: 8, 5: 4}  # fixed-size wire types


def debug_options(compile_options: bytes) -> Fields:
    """Return the fields of the DebugOptions in serialized CompileOptions."""
    data = compile_options
    for number in _PATH:
        (data,) = (
            content for content in fields(data).get(number, (b"",)) if isinstance(content, bytes)
        )
    return fields(data)


def fields(data: bytes) -> Fields:
    """Return a message's fields by number, with numbers as on the wire."""
    found: dict[int, list[int | bytes]] = {}
    for number, value in _entries(data):
        found.setdefault(number, []).append(value)
    return {number: tuple(values) for number, values in found.items()}


def spelled(kind: str, content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:
    """Return a field's content as spelled in XLA_FLAGS; an absent one has proto3's default."""
    if kind in ("enums", "strings", "map"):
        return _SPELLINGS[kind](content, names)
    return _SPELLINGS.get(kind, _nothing)(content[-1:], names)


def _nothing(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    return ""


def _bool(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    return "true" if any(content) else "false"


def _whole(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    value = _first(content, int, 0)
    return str(value - (1 << 64) if value >> 63 else value)


def _real(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    value = _first(content, bytes, bytes(4))
    (number,) = struct.unpack("<f" if len(value) == 4 else "<d", value)
    return f"{number:.7g}" if len(value) == 4 else repr(number)


def _first(content: tuple[int | bytes, ...], kind: type[_T], absent: _T) -> _T:
    return next((value for value in content if isinstance(value, kind)), absent)


def _text(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    return ",".join(_decoded(value) for value in content)


def _enum(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:
    numbers = [number for value in content or (0,) for number in _numbers(value)]
    return ",".join(names.get(number, str(number)) for number in numbers)


def _enums(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:
    return ",".join(sorted(_enum(content, names).split(","))) if content else ""


def _map(content: tuple[int | bytes, ...], names: Mapping[int, str]) -> str:  # noqa: ARG001
    entries = (fields(entry) for entry in content if isinstance(entry, bytes))
    return ",".join(
        sorted(
            f"{_decoded(entry.get(1, (b'',))[0])}={_decoded(entry.get(2, (b'',))[0])}"
            for entry in entries
        )
    )


_SPELLINGS: Final[Mapping[str, Callable[[tuple[int | bytes, ...], Mapping[int, str]], str]]] = {
    "bool": _bool,
    "int32": _whole,
    "int64": _whole,
    "float": _real,
    "string": _text,
    "strings": _text,
    "enum": _enum,
    "enums": _enums,
    "map": _map,
}


def _decoded(value: int | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _numbers(value: int | bytes) -> Iterator[int]:
    """Yield the numbers of one enum, or of several that are packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _entries(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = _FIXED[kind]
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
