"""Lines of a journal: a record as one line of JSON, with its number and a checksum of the line.

    {"n": 7, "is": "TrialEnded", "says": {...}, "crc": "1c291ca3"}

A file is read up to its first invalid line. If that is the last one, the tuner died while it wrote
it, and nothing depends on it; anywhere else the file is damaged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from counterpoint.core import parse_json
from counterpoint.core.records import RecordError, from_plain, to_plain
from counterpoint.tune.study.records import FORMAT, Record, StudyBegan

_KINDS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {it.__name__: it for it in get_args(Record)}
)
_SUM: Final = ', "crc": "'
_FIRST: Final = b'{"n": 0, "is": "StudyBegan", '


class DamagedLine(ValueError):
    """A line that differs from what was written."""


class NewerFormat(ValueError):
    """A record written by a newer Counterpoint."""


@dataclass(frozen=True, slots=True)
class JournalContents:
    """The records of a file, and their size in bytes."""

    records: tuple[Record, ...]
    size: int


def line_of(record: Record, number: int) -> bytes:
    """Return a record as it is written."""
    fields = {"n": number, "is": type(record).__name__, "says": to_plain(record)}
    body = json.dumps(fields, allow_nan=False)[:-1]
    return f'{body}{_SUM}{_checksum(body)}"}}\n'.encode()


def read_lines(data: bytes) -> JournalContents:
    """Return all complete records.

    Raises DamagedLine or NewerFormat, with the number of the line.
    """
    records: list[Record] = []
    size = 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines):
        try:
            records.append(_record(line, number))
        except DamagedLine as error:
            if number == len(lines) - 1 and (number or _may_begin(line)):
                break
            raise DamagedLine(f"line {number + 1}: {error}") from None
        except NewerFormat as error:
            raise NewerFormat(f"line {number + 1}: {error}") from None
        size += len(line)
    return JournalContents(tuple(records), size)


def _may_begin(line: bytes) -> bool:
    """Return whether a file's only, invalid line is the beginning of a journal's first record."""
    return line[: len(_FIRST)] == _FIRST[: len(line)]


def _record(line: bytes, number: int) -> Record:
    fields = _fields_of(line)
    if fields.get("n") != number:
        raise DamagedLine(f"it has number {fields.get('n')} instead of {number}")
    kind = _KINDS.get(str(fields.get("is")))
    if kind is None:
        raise NewerFormat(f"this version does not know records of the kind {fields.get('is')}")
    try:
        record: Record = from_plain(kind, fields.get("says"))
    except RecordError as error:
        raise NewerFormat(
            str(error)
        ) from None  # its checksum is right, so its writer had other fields
    if isinstance(record, StudyBegan) and record.format > FORMAT:
        raise NewerFormat(f"its format is {record.format}; this version reads up to {FORMAT}")
    return record


def _fields_of(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise DamagedLine("it is incomplete")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise DamagedLine("it is not UTF-8 text") from None
    body, found, rest = text.rpartition(_SUM)
    if not found or rest != f'{_checksum(body)}"}}\n':
        raise DamagedLine("its checksum is wrong")
    try:
        fields: dict[str, Any] = parse_json(body + "}")
    except ValueError as error:
        raise DamagedLine(str(error)) from None
    return fields


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
