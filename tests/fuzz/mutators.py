"""Damages inputs the way that files get damaged, and the way that somebody means harm.

A mutator knows the structure of its format (a tree of protobuf fields, JSON values, lines, the
members of an archive, cells of a table), so that what it makes gets past the first check.
"""

# ruff: noqa: ANN401, C901, PLR0911, S608 - values of any type, chosen at random

from __future__ import annotations

import gzip
import io
import json
import random
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import polars as pl

Mutate = Callable[[bytes, random.Random], bytes]

HOSTILE_TEXTS = (
    "",
    "\x1b]0;owned\x07",
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\u202egnp.exe",
    "a\nb",
    "a\rb",
    "\x00",
    "\x7f",
    "x" * 5000,
    "../../etc/passwd",
    "/",
    "nan",
    "-1",
    "%s%n{0}{}",
    "[bold]x[/bold]",
    "\u00e9\U0001f600",
    "$(touch owned)",
    "'\"`",
)
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    255,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    10**30,
)
FLOATS = (0.0, -0.0, 1e-300, 1e300, float("nan"), float("inf"), float("-inf"), -1.5)
EMPTY = (None, [], {}, True, False, "")


def flip(data: bytes, rng: random.Random) -> bytes:
    """Change single bytes or bits."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if out:
            at = rng.randrange(len(out))
            out[at] = rng.choice((out[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0, 255))
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Truncate, or drop or double a part."""
    if not data:
        return data
    first, last = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    match rng.randrange(3):
        case 0:
            return data[:last]
        case 1:
            return data[:first] + data[last:]
        case _:
            return data[:last] + data[first:last] * rng.choice((1, 2, 20)) + data[last:]


def raw(data: bytes, rng: random.Random) -> bytes:
    """Damage bytes without looking at them."""
    return rng.choice((flip, flip, cut))(data, rng)


# Protobuf: a message is a list of fields, and what parses as a message is taken for one.

Field = tuple[int, int, Any]


def varint(value: int) -> bytes:
    """Encode a varint of any size."""
    out = bytearray()
    while True:
        out.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(out)


def fields_of(data: bytes) -> list[Field] | None:
    """Return the fields of a message, or None if it is none."""
    at, found = 0, list[Field]()

    def number() -> int | None:
        nonlocal at
        value = shift = 0
        while at < len(data) and shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        return None

    while at < len(data):
        key = number()
        if key is None or not 0 < key >> 3 < 600:
            return None
        kind = key & 7
        if kind == 0:
            value = number()
            if value is None:
                return None
            found.append((key >> 3, kind, value))
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > len(data):
                return None
            found.append((key >> 3, kind, data[at : at + size]))
            at += size
        elif kind == 2:
            size = number()
            if size is None or at + size > len(data):
                return None
            found.append((key >> 3, kind, data[at : at + size]))
            at += size
        else:
            return None
    return found


def bytes_of(fields: list[Field]) -> bytes:
    """Encode fields."""
    out = bytearray()
    for number, kind, value in fields:
        out += varint(number << 3 | kind)
        if kind == 0:
            out += varint(value)
        else:
            out += (varint(len(value)) if kind == 2 else b"") + value
    return bytes(out)


def proto(data: bytes, rng: random.Random) -> bytes:
    """Change one field somewhere in the tree of a message."""
    fields = fields_of(data)
    if not fields:
        return raw(data, rng)
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    inner = fields_of(value) if kind == 2 and value else None
    if inner and rng.random() < 0.85:
        fields[at] = (number, kind, proto(value, rng))
        return bytes_of(fields)
    match rng.randrange(6):
        case 0:
            del fields[at]
        case 1:
            fields[at:at] = [fields[at]] * rng.choice((1, 2, 50))
        case 2:
            fields[at] = (rng.choice((1, 2, 3, 5, 7, 35, 36, number + 1)), kind, value)
        case 3:
            other = fields[rng.randrange(len(fields))]
            fields[at] = (number, other[1], other[2])
        case _:
            fields[at] = (number, *_value(kind, value, rng))
    return bytes_of(fields)


def _value(kind: int, value: Any, rng: random.Random) -> tuple[int, Any]:
    if kind == 0:
        return 0, rng.choice(NUMBERS) % 2**64
    if kind in (1, 5):
        return kind, bytes(rng.choice((0, 255, 0x7F, 0xF0)) for _ in value)
    if rng.random() < 0.5:
        return 2, rng.choice(HOSTILE_TEXTS).encode("utf-8")
    if rng.random() < 0.2:
        for _ in range(rng.choice((50, 2000))):
            value = b"\x0a" + varint(len(value)) + value
        return 2, value
    return 2, raw(value, rng)


def json_tree(data: bytes, rng: random.Random) -> bytes:
    """Change one value somewhere in a JSON document."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return raw(data, rng)
    holder: Any = [tree]
    try:
        _damage_json(holder, rng)
        text = json.dumps(holder[0])
    except (RecursionError, ValueError):
        return raw(data, rng)
    if rng.random() < 0.5:
        text = text.replace('"@deep@"', "[" * 5000 + "]" * 5000)
    return text.encode()


def _damage_json(holder: Any, rng: random.Random) -> None:
    keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = rng.choice(keys)
    value = holder[key]
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        _damage_json(value, rng)
        return
    if isinstance(holder, dict) and rng.random() < 0.25:
        held = cast("dict[str, Any]", holder)
        match rng.randrange(3):
            case 0:
                del held[key]
            case 1:
                held[rng.choice(HOSTILE_TEXTS)] = held.pop(key)
            case _:
                held[key] = held[rng.choice(list(held))]
        return
    holder[key] = json_value(rng)


def json_value(rng: random.Random) -> Any:
    """Return a value of any type."""
    return rng.choice(
        (
            rng.choice(HOSTILE_TEXTS),
            rng.choice(NUMBERS),
            rng.choice(FLOATS),
            rng.choice(EMPTY),
            [rng.choice(NUMBERS)],
            {"a": rng.choice(HOSTILE_TEXTS)},
            "@deep@",
            "\ud800",
        )
    )


SUM = b', "crc": "'


def journal(data: bytes, rng: random.Random) -> bytes:
    """Damage the records of a study, mostly in such a way that their checksums are right."""
    out = json_lines(data, rng)
    if rng.random() < 0.15:
        return out
    return b"\n".join(map(_summed, out.split(b"\n")))


def _summed(line: bytes) -> bytes:
    """Give a line the checksum of what is in it."""
    body, found, _ = line.rpartition(SUM)
    return body + found + b'%08x"}' % zlib.crc32(body) if found else line


def json_lines(data: bytes, rng: random.Random) -> bytes:
    """Damage one line of JSON lines, or their order."""
    parts = data.split(b"\n")
    at = rng.randrange(len(parts))
    match rng.randrange(6):
        case 0:
            del parts[at]
        case 1:
            parts.insert(at, rng.choice(parts))
        case 2:
            parts[at] = b"[" * 3000
        case _:
            parts[at] = json_tree(parts[at], rng)
    return b"\n".join(parts)


def lines(data: bytes, rng: random.Random) -> bytes:
    """Damage a text: lines, words, numbers, nesting."""
    parts = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(parts))
        match rng.randrange(8):
            case 0:
                del parts[at]
                parts = parts or [""]
            case 1:
                parts[at:at] = [parts[at]] * rng.choice((1, 2, 30))
            case 2:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = _words(parts[at], rng)
            case 4:
                parts[at] = _digits(parts[at], rng)
            case 5:
                place = rng.randrange(len(parts[at]) + 1)
                parts[at] = parts[at][:place] + rng.choice(SOUP) + parts[at][place:]
            case 6:
                place = rng.randrange(len(parts[at]) + 1)
                parts[at] = parts[at][:place]
            case _:
                place = rng.randrange(len(parts[at]) + 1)
                run = rng.choice("([{<\"'$`#,.-= \t\\")
                parts[at] = parts[at][:place] + run * rng.choice((1, 3, 3000)) + parts[at][place:]
    return "\n".join(parts).encode("utf-8", "surrogateescape")


SOUP = (
    *HOSTILE_TEXTS,
    "$X",
    "${X:-$X}",
    "$(cat x)",
    "<<EOF",
    "&a [*a,*a]",
    "*a",
    "<<: *a",
    "'''",
    '"""',
    "---",
    "f32[99999999999,99999999999]",
    "f32[-1]",
    "replica_groups=[8,8]<=[64]",
    "calls=%main",
    "to_apply=%body",
    "{0}",
    "((((",
    "))))",
    "for i in 1 2 3; do X=$X$X; done",
    'X="$X $X"',
    "import os",
    "lambda: 0",
)


def _words(line: str, rng: random.Random) -> str:
    words = line.split(" ")
    words[rng.randrange(len(words))] = rng.choice((*SOUP, *words))
    return " ".join(words)


def _digits(line: str, rng: random.Random) -> str:
    places = [at for at, sign in enumerate(line) if sign.isdigit()]
    if not places:
        return line + str(rng.choice(NUMBERS))
    first = last = rng.choice(places)
    while last < len(line) and line[last].isdigit():
        last += 1
    return line[:first] + str(rng.choice((*NUMBERS, *FLOATS))) + line[last:]


def parquet(data: bytes, rng: random.Random) -> bytes:
    """Change a column of a table, its type or its rows.

    Damaged bytes are left to polars, which ends the process where a count has become negative.
    """
    try:
        frame = pl.read_parquet(io.BytesIO(data))
        frame = _table(frame, rng)
        out = io.BytesIO()
        frame.write_parquet(out)
        return out.getvalue()
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
        return data


def _table(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    if not frame.columns:
        return frame
    name = rng.choice(frame.columns)
    column = frame[name]
    match rng.randrange(8):
        case 0:
            return frame.drop(name)
        case 1:
            return frame.clear()
        case 2:
            kinds = (pl.String, pl.Int64, pl.Int8, pl.Float64, pl.Boolean, pl.Binary, pl.UInt64)
            return frame.with_columns(column.cast(rng.choice(kinds), strict=False))
        case 3:
            return pl.concat([frame, frame])
        case 4:
            return frame.rename({name: rng.choice((*frame.columns, "other", *HOSTILE_TEXTS))})
        case _:
            return frame.with_columns(_cells(column, rng))


def _cells(column: pl.Series, rng: random.Random) -> pl.Series:
    values = column.to_list()
    if not values:
        return column
    every = rng.random() < 0.3
    for at in range(len(values)) if every else (rng.randrange(len(values)),):
        values[at] = _cell(column.dtype, rng)
    return pl.Series(column.name, values, column.dtype, strict=False)


def _cell(kind: Any, rng: random.Random) -> Any:
    if rng.random() < 0.2:
        return None
    if kind == pl.String:
        return rng.choice(HOSTILE_TEXTS)
    if kind == pl.Binary:
        return rng.choice(HOSTILE_TEXTS).encode()
    if kind.is_integer():
        return rng.choice(NUMBERS)
    if kind.is_float():
        return rng.choice(FLOATS)
    return rng.choice(EMPTY)


def archive(data: bytes, rng: random.Random) -> bytes:
    """Damage one member of a zip file, its name, or the file itself."""
    if rng.random() < 0.1:
        return raw(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        members = [(name, old.read(name)) for name in old.namelist()]
    at = rng.randrange(len(members))
    name, content = members[at]
    match rng.randrange(12):
        case 0:
            del members[at]
        case 1:
            members.append(members[at])
        case 2:
            members[at] = (
                rng.choice(("../x", "/x", "x\x1b[31m", "a/" * 300, name + "/0")),
                content,
            )
        case _:
            members[at] = (name, by_name(name)(content, rng))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in members:
            new.writestr(name, content)
    return out.getvalue()


def compressed(data: bytes, rng: random.Random) -> bytes:
    """Damage what is in a gzip file, or the file."""
    try:
        plain = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return raw(data, rng)
    return raw(data, rng) if rng.random() < 0.1 else gzip.compress(json_tree(plain, rng), 1)


def records(data: bytes, rng: random.Random) -> bytes:
    """Damage a record of a Riegeli file, or the file."""
    from riegeli_builder import riegeli

    from counterpoint.core import InputError
    from counterpoint.core.riegeli import chunks
    from counterpoint.timeline.xplane.wire import Malformed

    if rng.random() < 0.4:
        return raw(data, rng)
    try:
        parts = [bytes(part) for chunk in chunks(memoryview(data)) for part in chunk.records()]
    except (InputError, Malformed):
        return raw(data, rng)
    if not parts:
        return raw(data, rng)
    at = rng.randrange(len(parts))
    parts[at] = proto(parts[at], rng)
    return riegeli([parts], rng.choice(("b", "none")))


def database(data: bytes, rng: random.Random) -> bytes:
    """Change a value, a column or a table of a SQLite file."""
    if rng.random() < 0.1:
        return raw(data, rng)
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        Path(file.name).write_bytes(data)
        connection = sqlite3.connect(file.name)
        connection.text_factory = bytes
        try:
            _change(connection, rng)
            connection.commit()
        except sqlite3.Error:
            pass
        connection.close()
        return Path(file.name).read_bytes()


def _change(connection: sqlite3.Connection, rng: random.Random) -> None:
    tables = [
        r[0].decode()
        for r in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    table = rng.choice(tables)
    columns = [r[1].decode() for r in connection.execute(f"PRAGMA table_info('{table}')")]
    column = rng.choice(columns)
    rows = connection.execute(f"SELECT count(*) FROM '{table}'").fetchone()[0]
    match rng.randrange(10):
        case 0:
            connection.execute(f"DROP TABLE '{table}'")
        case 1:
            connection.execute(f"ALTER TABLE '{table}' DROP COLUMN '{column}'")
        case 2:
            connection.execute(f"DELETE FROM '{table}'")
        case 3:
            connection.execute(f"INSERT INTO '{table}' SELECT * FROM '{table}'")
        case _:
            value = rng.choice(
                (
                    rng.choice(HOSTILE_TEXTS),
                    rng.choice([n for n in NUMBERS if -(2**63) <= n < 2**63]),
                    rng.choice(FLOATS),
                    None,
                    b"\xff\xfe",
                )
            )
            where = (
                "" if rng.random() < 0.3 or not rows else f" WHERE rowid={rng.randrange(rows) + 1}"
            )
            connection.execute(f"UPDATE '{table}' SET '{column}' = ?{where}", (value,))


def by_name(name: str) -> Mutate:
    """Return the mutator for a file of this name."""
    base = name.rsplit("/", 1)[-1]
    for ending, mutate in (
        ("journal.jsonl", journal),
        (".json.gz", compressed),
        (".riegeli", records),
        (".parquet", parquet),
        (".jsonl", json_lines),
        (".json", json_tree),
        (".zip", archive),
        (".sqlite", database),
        (".pb", proto),
    ):
        if ending in base:
            return mutate
    return lines if base.rpartition(".")[2] in TEXTS or "." not in base else raw


TEXTS = (
    "txt",
    "toml",
    "csv",
    "sh",
    "py",
    "yaml",
    "yml",
    "pbtxt",
    "mlir",
    "log",
    "env",
    "ipynb",
    "sbatch",
)
