"""Builds protobuf message classes from a short table of the fields to read.

The schemas of XLA and of its profiler are large and change often; a reader needs a few dozen fields
of them. A table names these, everything else is skipped while decoding:

    Module
    1 name string
    3 computations Computation*

A star repeats. Enums are read as int32 and maps as repeated pairs of fields 1 and 2: the bytes are
the same. A message declared `bytes` is left undecoded until needed. The classes live in their own
pool, so they never clash with the same messages of other packages. A table is a constant of the
module that reads or writes the format; HLO's has the module messages.py to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_SCALARS = ("string", "bytes", "int32", "int64", "uint32", "uint64", "bool", "float", "double")

# A decoded message: its attributes are the fields of the table, unknown to type checkers.
Message = Any
MessageClass = Any


def message_classes(package: str, table: str) -> Mapping[str, MessageClass]:
    """Return one class per message of the table, by name; `cls.FromString(data)` decodes."""
    file: Any = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    messages = dict(_messages(table))
    for name, fields in messages.items():
        declared = file.message_type.add(name=name)
        for field in fields:
            _declare(declared, field, package)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    factory: Any = message_factory
    return {
        name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _messages(table: str) -> Iterator[tuple[str, list[list[str]]]]:
    fields: list[list[str]] = []
    for line in table.splitlines():
        words = line.split()
        if len(words) == 1:
            fields = []
            yield words[0], fields
        elif words:
            fields.append(words)


def _declare(message: Message, words: list[str], package: str) -> None:
    number, name, kind = words
    field: Any = message.field.add(name=name, number=int(number))
    repeated = kind.endswith("*")
    kind = kind.removesuffix("*")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    else:
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
