"""Counts that no Parquet file has are refused before polars makes room for them and aborts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterpoint
from counterpoint.core import InputError
from counterpoint.core.parquet_counts import check_parquet
from counterpoint.core.unpacking import UNPACK_VARIABLE
from counterpoint.fleet.digest import from_bytes
from counterpoint.fleet.store import parse_query, read_runs
from counterpoint.timeline.nsys.archive import TRACE
from timelines import two_devices

FRAME = pl.DataFrame(
    {
        "number": [1, None, 3] * 30,
        "text": ["a", None, "ccc"] * 30,
        "list": [[1.5], None, []] * 30,
        "truth": [True, None, False] * 30,
    }
)


def stored(frame: pl.DataFrame, **options: object) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out, **options)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


def refused(data: bytes) -> str:
    with pytest.raises(ValueError, match=r".") as error:
        check_parquet(data)
    return str(error.value)


def with_negative_values(data: bytes) -> bytes:
    """The file whose first page holds less than no values: polars aborts on it."""
    for at in range(4, len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]  # the sign is the lowest bit
        try:
            check_parquet(damaged)
        except ValueError as error:
            if "one is -" in str(error):
                return damaged
    raise AssertionError("there is no such page")


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
@pytest.mark.parametrize("rows", [0, 90])
def test_what_was_written_is_taken(
    rows: int, compression: Literal["zstd", "snappy"], tmp_path: Path
) -> None:
    data = stored(FRAME[:rows], compression=compression, row_group_size=40)
    check_parquet(data)
    (tmp_path / "a.parquet").write_bytes(data)
    check_parquet(tmp_path / "a.parquet")


def test_counts_below_zero_are_refused() -> None:
    data = stored(FRAME)
    said = set[str]()
    for at in range(4, len(data)):
        try:
            check_parquet(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        except ValueError as error:
            said.add(str(error))
    assert len([text for text in said if ": one is -" in text]) >= 2


def test_more_than_there_is_memory_for_is_refused_until_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = stored(pl.select(zero=pl.zeros(9_000_000, dtype=pl.Int64)))
    assert len(data) < 1 << 20
    said = refused(data)
    assert " 68 MiB" in said
    assert "more than 64 MiB" in said
    monkeypatch.setenv(UNPACK_VARIABLE, "1GiB")
    check_parquet(data)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 3, b"\xff" * 100, bytes(100)])
def test_what_is_no_parquet_is_refused(data: bytes, tmp_path: Path) -> None:
    assert refused(data)
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(ValueError, match=r"end is missing|is empty"):
        check_parquet(tmp_path / "a.parquet")


def test_chunks_that_are_all_the_same_pages_are_not_walked_again_and_again() -> None:
    page = b"\x15\x00\x15\x00\x15\x02\x00" + b"x"  # of one byte that holds nothing
    chunk = b"\x3c\x76\xb0\xea\x01\x26\x08\x00\x00"  # 15,000 bytes from byte 4
    group = b"\x19\xfc" + b"\xd0\x0f" + chunk * 2000 + b"\x00"
    footer = b"\x49\x1c" + group + b"\x00"
    data = b"PAR1" + page * 1875 + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert "more pages" in refused(data)


@given(
    changes=st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=0, max_size=9)), max_size=4)
)
def test_damage_is_a_value_error(changes: list[tuple[int, bytes]]) -> None:
    data = stored(FRAME)
    for at, content in changes:
        data = data[:at] + content + data[at + len(content) :]
    try:
        check_parquet(data)
    except ValueError:
        return


def of_a_timeline(place: Path, data: bytes) -> None:
    path = counterpoint.write_parquet(two_devices(), place / "t")
    (path / "spans.parquet").write_bytes(data)
    counterpoint.read(path)


def of_a_bundle(place: Path, data: bytes) -> None:
    with zipfile.ZipFile(place / "b.zip", "w") as archive:
        archive.writestr(TRACE, data)
    counterpoint.read(place / "b.zip")


def of_a_digest(_: Path, data: bytes) -> None:
    from_bytes(data, "x")


def of_a_store(place: Path, data: bytes) -> None:
    path = place / "runs" / "model=m" / "day=2026-01-02" / "r.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    read_runs(parse_query(str(place)))


@pytest.mark.parametrize("read", [of_a_timeline, of_a_bundle, of_a_digest, of_a_store])
def test_each_reader_checks_first(read: Callable[[Path, bytes], None], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"read|whole|one is -") as error:
        read(tmp_path, with_negative_values(stored(FRAME)))
    assert "one is -" in f"{error.value.what} {error.value.why}"
