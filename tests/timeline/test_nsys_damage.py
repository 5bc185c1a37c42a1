"""Broken files of Nsight Systems: one clear error each, or an honest part, never a crash."""

from __future__ import annotations

import re
import sqlite3
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nsys_bundle import TRACE, Bundle, module, parquet, thunk, to_2024_4, write_zip
from nsys_export import Export, thread

from counterpoint.core.errors import InputError
from counterpoint.timeline.nsys.bundle import read_nsys_jax
from counterpoint.timeline.nsys.sqlite import read_sqlite
from counterpoint.timeline.reading import read
from golden_files import Golden, cases
from refusals import refusal

MAIN = thread(1)
Damage = list[tuple[float, int]]


def fill(export: Export, rows: int = 3) -> None:
    for i in range(rows):
        at = 1000 * i
        export.module(MAIN, at, at + 900, "jit_step", 3)
        export.thunk(MAIN, at + 100, at + 200, f"fusion.{i}")
        export.call(MAIN, at + 110, i)
        export.kernel(0, 7, at + 300, at + 400, f"fusion_{i}", i)


@pytest.fixture(scope="module")
def whole_export(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with Export(tmp_path_factory.mktemp("whole") / "whole.sqlite") as export:
        fill(export, rows=40)
        export.copy(0, 7, 5, 6, 1, 99)
        export.node(MAIN, 3, 21)
    return export.path.read_bytes()


@pytest.fixture(scope="module")
def whole_bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    ranges = [module(1, "jit_step,program_id=3", 0, 99), thunk(2, 1, "fusion.3", 0, 99)]
    bundle = Bundle(ranges, programs={"0003.jit_step": b"proto" * 50})
    return bundle.write(tmp_path_factory.mktemp("whole") / "whole.zip").read_bytes()


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as failure:
        read_sqlite(path)
    assert str(path) in failure.value.what
    return failure.value


@pytest.mark.parametrize("content", [b"", b"<!DOCTYPE html>" * 90, b"SQLite format 3\x00"])
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    refused(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "gone.sqlite")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    refused(tmp_path)


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE albums (title TEXT)")
    database.close()
    failure = refused(path)
    assert "not an SQLite" in failure.what
    assert "albums" in (failure.why or "")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_cut_off_export_is_refused(tmp_path: Path, whole_export: bytes, share: float) -> None:
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole_export[: int(share * len(whole_export))])
    assert "complete SQLite file" in refused(path).what


@pytest.mark.parametrize("column", ["start", "deviceId"])
def test_a_table_without_what_makes_a_span_is_refused(tmp_path: Path, column: str) -> None:
    with Export(tmp_path / "a.sqlite") as export:
        fill(export)
        export.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    said = refused(export.path).what
    assert "CUPTI_ACTIVITY_KIND_KERNEL" in said
    assert said.endswith(f" {column}")


@pytest.mark.parametrize(
    ("missing", "column"),
    [
        ("CUPTI_ACTIVITY_KIND_RUNTIME", None),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId"),
        ("NVTX_EVENTS", None),
        ("NVTX_EVENTS", "globalTid"),
    ],
)
def test_without_the_way_to_an_op_kernels_remain(
    tmp_path: Path, missing: str, column: str | None
) -> None:
    with Export(tmp_path / "a.sqlite") as export:
        fill(export)
        what = f"ALTER TABLE {missing} DROP COLUMN {column}" if column else f"DROP TABLE {missing}"
        export.execute(what)
    recording = read_sqlite(export.path)
    assert recording.ops["name"].to_list() == ["fusion_0", "fusion_1", "fusion_2"]
    assert recording.ops["op"].null_count() == 3
    assert recording.notes


@pytest.mark.parametrize("column", ["streamId", "globalPid", "graphNodeId"])
def test_without_a_lesser_column_ops_remain(tmp_path: Path, column: str) -> None:
    with Export(tmp_path / "a.sqlite") as export:
        fill(export)
        export.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN {column}")
    recording = read_sqlite(export.path)
    assert recording.ops["op"].to_list() == ["fusion.0", "fusion.1", "fusion.2"]


def test_texts_where_numbers_belong_make_no_span(tmp_path: Path) -> None:
    with Export(tmp_path / "a.sqlite") as export:
        fill(export)
        export.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x', deviceId = x'ff'")
        export.execute("UPDATE StringIds SET value = CAST(x'ff1f00' AS TEXT)")
    assert len(read_sqlite(export.path).devices) == 1


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"<html>"])
def test_what_is_no_zip_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"{path}: a damaged zip")):
        read_nsys_jax(path)


def test_a_zip_without_a_trace_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"notes.txt": b"hello"})
    with pytest.raises(InputError, match="nsys-jax bundle") as failure:
        read_nsys_jax(path)
    assert "notes.txt" in (failure.value.why or "")


def test_a_damaged_trace_is_refused(tmp_path: Path) -> None:
    whole = parquet(to_2024_4([module(1, "m", 0, 1)]))
    for content in (b"", b"PAR1", whole[:-30], whole[40:]):
        path = write_zip(tmp_path / "a.zip", {TRACE: content})
        with pytest.raises(InputError, match=r"trace\.parquet"):
            read_nsys_jax(path)


@pytest.mark.parametrize("column", ["Name", "Projected Start", "RangeId", "ParentId", "TID"])
def test_a_trace_without_a_column_is_refused(tmp_path: Path, column: str) -> None:
    trace = to_2024_4([module(1, "m", 0, 1)]).drop(column)
    path = write_zip(tmp_path / "a.zip", {TRACE: parquet(trace)})
    with pytest.raises(InputError, match="unknown layout"):
        read_nsys_jax(path)


def test_a_file_that_claims_to_unpack_to_everything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(TRACE, bytes(80 << 20))
    with pytest.raises(InputError, match="more than 64 MiB"):
        read_nsys_jax(path)


def damaged(whole: bytes, damage: Damage, length: float) -> bytes:
    content = bytearray(whole)
    for at, byte in damage:
        content[int(at * (len(content) - 1))] = byte
    return bytes(content[: int(length * len(content))])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damage=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=12),
    length=st.sampled_from([1.0, 1.0, 1.0, 0.7]),
)
def test_a_damaged_export_is_refused_or_read(
    tmp_path: Path, whole_export: bytes, damage: Damage, length: float
) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(damaged(whole_export, damage, length))
    try:
        recording = read_sqlite(path)
    except InputError:
        return
    assert recording.spans["line"].max() is None or len(recording.lines) > 0


@given(
    damage=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=6),
    length=st.sampled_from([1.0, 1.0, 0.8]),
)
def test_a_damaged_bundle_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, whole_bundle: bytes, damage: Damage, length: float
) -> None:
    """As a user meets it: through `read`, whose only refusal is an InputError."""
    path = tmp_path_factory.mktemp("damaged") / "rank0.zip"
    path.write_bytes(damaged(whole_bundle, damage, length))
    try:
        timeline = read(path)
    except InputError:
        return
    assert len(timeline.hosts) == 1
    assert len(timeline.devices) <= 1


def test_how_a_file_is_refused(golden: Golden, tmp_path: Path, whole_export: bytes) -> None:
    with sqlite3.connect(tmp_path / "albums.sqlite") as database:
        database.execute("CREATE TABLE albums (title TEXT)")
    database.close()
    with Export(tmp_path / "columns.sqlite") as export:
        fill(export)
        export.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN start")
    (tmp_path / "cut.sqlite").write_bytes(whole_export[: len(whole_export) // 2])
    (tmp_path / "page.sqlite").write_bytes(b"<!DOCTYPE html>" * 90)
    (tmp_path / "page.zip").write_bytes(b"<html>")
    write_zip(tmp_path / "notes.zip", {"notes.txt": b"hello"})
    trace = to_2024_4([module(1, "m", 0, 1)])
    write_zip(tmp_path / "cut.zip", {TRACE: parquet(trace)[:-30]})
    write_zip(tmp_path / "columns.zip", {TRACE: parquet(trace.drop("Name"))})
    databases = ("gone", "page", "albums", "cut", "columns")
    bundles = ("gone", "page", "notes", "cut", "columns")
    told = {
        f"{name}.sqlite": refusal(
            lambda path=tmp_path / f"{name}.sqlite": read_sqlite(path), tmp_path
        )
        for name in databases
    } | {
        f"{name}.zip": refusal(lambda path=tmp_path / f"{name}.zip": read_nsys_jax(path), tmp_path)
        for name in bundles
    }
    golden("nsys_refused.txt", cases(told))
