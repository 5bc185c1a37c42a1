"""The fields of DebugOptions, read from a library that was compiled with them.

protobuf keeps the descriptor of each .proto file as serialized bytes in the library, so that types,
enums and deprecations can be read without loading it. The descriptor begins with its own file name;
its end is found by parsing its fields until one is invalid.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core import InputError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

_FILE: Final = "xla/xla.proto"
_LARGEST_FIELD: Final = 15  # FileDescriptorProto ends at 14, `edition`
_LIBRARIES: Final = "name libjax_common.so, xla_extension.so or xla_cuda_plugin.so"
_SIZES: Final = {1: 8, 5: 4}  # sizes of the fixed-size wire types


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
        file = _file(library, data, _FILE)
        if file is None:
            raise InputError(
                f"{library} holds no description of XLA's options",
                why="it is no library of XLA's, or it is cut off",
                next=_LIBRARIES,
            )
        message = next(
            (candidate for candidate in file.message_type if candidate.name == "DebugOptions"), None
        )
        if message is None or not message.field:
            raise _damaged(library, f"its {_FILE} has no DebugOptions")
        imported = (_file(library, data, name) for name in file.dependency)
        enums = _enums(
            [file, *(imported_file for imported_file in imported if imported_file is not None)]
        )
    return tuple(_field(field, message, enums) for field in message.field)


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


def _field(
    field: FieldDescriptorProto, message: DescriptorProto, names: Mapping[str, Mapping[int, str]]
) -> OptionField:
    return OptionField(
        name=field.name,
        number=field.number,
        type=_type(field, message),
        deprecated=field.options.deprecated,
        enum=names.get(field.type_name, {}),
    )


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    repeated = field.label == field.LABEL_REPEATED
    if field.type == field.TYPE_MESSAGE:
        inner = field.type_name.rpartition(".")[2]
        is_map = any(
            nested.name == inner and nested.options.map_entry for nested in message.nested_type
        )
        return "map" if is_map else "messages" if repeated else "message"
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


@contextmanager
def _mapped(library: Path) -> Generator[mmap.mmap]:
    try:
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            _require_elf(library, data)
            yield data
    except ValueError:
        raise InputError(f"{library} is empty", next=_LIBRARIES) from None
    except OSError as failure:
        raise InputError(f"{library} can't be read: {failure.strerror or failure}") from None


def _require_elf(library: Path, data: mmap.mmap) -> None:
    if data[:4] != b"\x7fELF":
        raise InputError(
            f"{library} is not a compiled library",
            why="it does not begin as an ELF file does",
            next=_LIBRARIES,
        )
    sections = int.from_bytes(data[0x28:0x30], "little")  # 64 bit: the section headers come last
    if data[4] == 2 and sections > len(data):
        raise InputError(
            f"{library} is cut off: it has {len(data)} bytes, and speaks of {sections}",
            next="install it again",
        )


def _file(library: Path, data: mmap.mmap, name: str) -> FileDescriptorProto | None:
    """Return the description of one .proto file; None if the library has none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    start = data.find(bytes((0x0A, len(name))) + name.encode())
    if start < 0:
        return None
    try:
        return FileDescriptorProto.FromString(data[start : _end(data, start)])
    except DecodeError:
        raise _damaged(library, f"its description of {name} can't be decoded") from None


def _end(data: mmap.mmap, at: int) -> int:
    """Return the end of a FileDescriptorProto: the offset of the first invalid field."""
    while True:
        tag, inside = _varint(data, at)
        size = _SIZES.get(tag & 7)
        if not 0 < tag >> 3 < _LARGEST_FIELD or (tag & 7 not in (0, 2) and size is None):
            return at
        if size is None:
            length, inside = _varint(data, inside)
            size = length if tag & 7 == 2 else 0
        if inside + size > len(data):
            return at
        at = inside + size


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    return 0, at


def _damaged(library: Path, what: str) -> InputError:
    return InputError(f"{library} is damaged: {what}", next="install jaxlib again")
