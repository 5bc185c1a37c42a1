"""The options that a library was compiled with: the fields of XLA's DebugOptions.

protobuf keeps the descriptor of each .proto file as serialized bytes in the library, so that types,
enums and deprecations can be read without loading it. The descriptor begins with its own file name;
its end is found by parsing its fields until one is invalid.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from counterpoint.core.wire import Malformed, fields

_FILE: Final = "xla/xla.proto"
_LAST_FIELD: Final = 14  # of a FileDescriptorProto: `edition`


class NoOptionsError(Exception):
    """This is no library of XLA, or only a part of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """One field of DebugOptions. `enum`: the names of its values by number."""

    name: str
    number: int
    type: str  # as Flag.type
    deprecated: bool
    enum: Mapping[int, str]


def read_fields(library: Path) -> tuple[OptionField, ...]:
    """Return all fields of DebugOptions that a library was compiled with."""
    with _mapped(library) as data:
        file, message = _debug_options(library, data)
        imported = (_file(data, name) for name in file.dependency)
        enums = _enums([file, *filter(None, imported)])
    return tuple(
        OptionField(
            name=field.name,
            number=field.number,
            type=_type(field, message),
            deprecated=field.options.deprecated,
            enum=enums.get(field.type_name, {}),
        )
        for field in message.field
    )


def _debug_options(library: Path, data: mmap.mmap) -> tuple[FileDescriptorProto, DescriptorProto]:
    file = _file(data, _FILE)
    if file is None:
        raise NoOptionsError(f"{library} contains no descriptor of XLA's options")
    message = next((found for found in file.message_type if found.name == "DebugOptions"), None)
    if message is None or not message.field:
        raise NoOptionsError(f"{library}: its {_FILE} has no DebugOptions")
    return file, message


def _enums(files: Iterable[FileDescriptorProto]) -> dict[str, dict[int, str]]:
    """Return the value names of all enums, by the path of the enum."""
    found: dict[str, dict[int, str]] = {}
    for file in files:
        scopes = [(f".{file.package}", file.enum_type)]
        scopes += [
            (f".{file.package}.{nested.name}", nested.enum_type) for nested in file.message_type
        ]
        for scope, enums in scopes:
            for enum in enums:
                names: dict[int, str] = {}
                for value in enum.value:
                    names.setdefault(value.number, value.name)  # a later one is an alias
                found[f"{scope}.{enum.name}"] = names
    return found


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    repeated = field.label == field.LABEL_REPEATED
    if field.type == field.TYPE_MESSAGE:
        return "map" if _is_map(field, message) else "messages" if repeated else "message"
    if field.type == field.TYPE_ENUM:
        return "enums" if repeated else "enum"
    kinds = {
        field.TYPE_BOOL: "bool",
        field.TYPE_INT32: "int32",
        field.TYPE_INT64: "int64",
        field.TYPE_FLOAT: "float",
        field.TYPE_DOUBLE: "float",
        field.TYPE_STRING: "string",
    }
    kind = kinds.get(field.type, "unknown")
    return f"{kind}s" if repeated else kind


def _is_map(field: FieldDescriptorProto, message: DescriptorProto) -> bool:
    inner = field.type_name.rpartition(".")[2]
    return any(nested.name == inner and nested.options.map_entry for nested in message.nested_type)


def options_reader(library: Path) -> Callable[[bytes], dict[int, Any]]:
    """Return a function from serialized CompileOptions to the fields of their DebugOptions.

    Only fields that are present are in its result; a float has its shortest text. The class of the
    message is made from the descriptor: with enums as numbers and messages as bytes it depends on
    no other file.
    """
    with _mapped(library) as data:
        _, message = _debug_options(library, data)
    file = FileDescriptorProto(name="counterpoint/options.proto", package="counterpoint")
    kept = file.message_type.add(name=message.name)
    kept.nested_type.extend(nested for nested in message.nested_type if nested.options.map_entry)
    for field in message.field:
        kept.field.append(_independent(field, message))
    for nested in kept.nested_type:
        plain = [_independent(field, message) for field in nested.field]
        del nested.field[:]
        nested.field.extend(plain)
    for outer, inner in _OUTER:
        file.message_type.add(name=outer).field.add(
            name="inner",
            number=3,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=f".counterpoint.{inner}",
        )
    pool = DescriptorPool()
    pool.Add(file)
    compile_options: Any = GetMessageClass(
        pool.FindMessageTypeByName(f"counterpoint.{_OUTER[-1][0]}")
    )

    def read(serialized: bytes) -> dict[int, Any]:
        options = compile_options.FromString(serialized).inner.inner
        return {field.number: _plain(field, value) for field, value in options.ListFields()}

    return read


_OUTER: Final = (("Build", "DebugOptions"), ("Compile", "Build"))
"""CompileOptionsProto.executable_build_options.debug_options: both fields have the number 3."""


def _independent(field: FieldDescriptorProto, message: DescriptorProto) -> FieldDescriptorProto:
    """Return a field that is the same on the wire and refers to no other file."""
    plain = type(field)(name=field.name, number=field.number, label=field.label, type=field.type)
    if field.type == field.TYPE_ENUM:
        plain.type = field.TYPE_INT32
    elif field.type == field.TYPE_MESSAGE and _is_map(field, message):
        plain.type_name = f".counterpoint.DebugOptions.{field.type_name.rpartition('.')[2]}"
    elif field.type == field.TYPE_MESSAGE:
        plain.type = field.TYPE_BYTES
    return plain


def _plain(field: Any, value: Any) -> Any:  # noqa: ANN401 - of protobuf, without types
    if isinstance(value, float) and field.type == field.TYPE_FLOAT:
        return f"{value:.7g}"
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    return value if isinstance(value, bool | int | float | str | bytes) else tuple(value)


def spelled(kind: str, value: Any, names: Mapping[int, str]) -> str:  # noqa: ANN401 - as read
    """Return a field's value as spelled in XLA_FLAGS; None, an absent one, is proto3's default."""
    match kind:
        case "bool":
            return "true" if value else "false"
        case "int32" | "int64" | "float":
            return str(value or 0)
        case "enum":
            return names.get(value or 0, str(value or 0))
        case "enums":
            items = sorted(names.get(number, str(number)) for number in value or ())
        case "map":
            entries: Mapping[str, str] = value or {}
            items = sorted(f"{key}={text}" for key, text in entries.items())
        case "string" | "strings":
            items = [value or ""] if kind == "string" else (value or ())
        case _:
            items = ()
    return ",".join(items)


@contextmanager
def _mapped(library: Path) -> Generator[mmap.mmap]:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _file(data: mmap.mmap, name: str) -> FileDescriptorProto | None:
    """Return the descriptor of one .proto file; None if the library has none."""
    start = data.find(bytes((0x0A, len(name))) + name.encode())
    if start < 0:
        return None
    return FileDescriptorProto.FromString(data[start : _end(data, start)])


def _end(data: mmap.mmap, at: int) -> int:
    """Return the end of a FileDescriptorProto: the offset of the first invalid field."""
    with memoryview(data) as view, suppress(Malformed):
        for number, _, _, end in fields(view, at, len(view)):
            if number > _LAST_FIELD:
                break
            at = end
    return at
