"""Extracts merge in any order and in any tree, and say what the whole profile says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core import InputError
from counterpoint.diagnose.explanation import explain
from counterpoint.fleet.extract import MOST_STEPS, SCHEMA, from_bytes, make_extract, merge, to_bytes
from counterpoint.fleet.fleet import arrange
from counterpoint.fleet.local import LocalExecutor
from counterpoint.fleet.summary import summarize
from counterpoint.fleet.tasks import Gathering, gather_extracts
from counterpoint.fleet.topology import HostPlace
from counterpoint.report.explain.fleet_document import fleet_document
from counterpoint.report.explain.fleet_json import fleet_json
from counterpoint.report.terminal import plain_text
from counterpoint.timeline.reading import read
from golden_sections import Said
from made_fleet import DEVICES, HOSTS, write_profiles


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_profiles(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def extracts(profiles: list[Path]) -> list[pl.DataFrame]:
    return [make_extract(read(path)) for path in profiles]


def a_row(number: int, source: str) -> pl.DataFrame:
    empty: dict[str, Any] = dict.fromkeys(SCHEMA)
    known = {
        "key": str(number),
        "host": f"host-{number % 3}",
        "devices": [number],
        "source": source,
    }
    return pl.DataFrame([empty | known], schema=SCHEMA)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    """Rows, some of them copies under other names, and their merge in a random tree."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1))
    rows = [a_row(number, source) for number, source in pairs]
    parts = list(draw(st.permutations(rows)))
    while len(parts) > 1:
        at = draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [merge(parts[at], parts[at + 1])]
    return rows, merge(parts[0])


@given(trees())
def test_extracts_merge_in_any_order_and_any_tree(
    case: tuple[list[pl.DataFrame], pl.DataFrame],
) -> None:
    rows, merged = case
    assert merged.equals(merge(*rows))
    assert merged["key"].n_unique() == len(merged) == len({row["key"].item() for row in rows})


def test_real_extracts_merge_alike(extracts: list[pl.DataFrame]) -> None:
    together = merge(*extracts)
    assert together.equals(reduce(merge, reversed(extracts)))
    assert together.equals(merge(together, extracts[2], together))
    assert from_bytes(to_bytes(together), "x").equals(together)


def test_an_extract_says_what_the_profiles_say(
    profiles: list[Path], extracts: list[pl.DataFrame]
) -> None:
    fleet, whole = arrange(merge(*extracts)), explain(read(*profiles))
    assert whole.breakdown is not None
    assert len(fleet.host_of) == HOSTS * DEVICES
    assert fleet.step_ms == pytest.approx(whole.steps.median_ms, rel=1e-3)
    for device, parts in whole.device_breakdowns.items():
        assert fleet.compute[device].mean() == pytest.approx(parts.compute_ms, rel=0.01)
        assert fleet.exposed[device].mean() == pytest.approx(parts.collective_exposed_ms, abs=0.05)
    total = fleet.compute + fleet.exposed + fleet.copy + fleet.idle
    assert total == pytest.approx(fleet.length)


def test_a_host_that_runs_another_program_is_named(
    extracts: list[pl.DataFrame], tmp_path: Path
) -> None:
    other = make_extract(read(write_profiles(tmp_path, layers=3)[3]))
    merged = merge(*extracts[:3], other)
    made = Gathering(extracts=merged, profiles=4, failures=(), read_bytes=1, retried=0, notes=())
    found = summarize(arrange(merged), made)
    assert found.builds_differ
    assert [build.hosts for build in found.builds] == [
        ("host-00", "host-01", "host-02"),
        ("host-03",),
    ]
    text = plain_text(fleet_document(found, ("run",)))
    assert "Builds   hosts run 2 different modules" in text
    assert not summarize(arrange(merge(*extracts)), made).builds_differ


def gathered_from(rows: list[dict[str, Any]], path: Path, *, strict: bool = False) -> Gathering:
    kept = path / "all.extract.parquet"
    kept.write_bytes(to_bytes(pl.DataFrame(rows, schema=SCHEMA)))
    return gather_extracts([str(kept)], LocalExecutor(1), memory_bytes=1 << 30, strict=strict)


def test_a_host_with_another_chip_and_a_program_of_its_own_is_left_out(
    extracts: list[pl.DataFrame], tmp_path: Path, said: Said
) -> None:
    rows = merge(*extracts).to_dicts()
    rows[1]["chip"] = "MI300X"
    assert not gathered_from(rows, tmp_path).strangers  # chips may be mixed
    rows[1]["programs"] = [{**each, "name": "jit_dot"} for each in rows[1]["programs"]]
    found = gathered_from(rows, tmp_path)
    text = plain_text(fleet_document(summarize(arrange(found.extracts), found), ("run",)))
    assert "3 hosts" in text
    (_, why, _) = found.strangers[0].failure or ("", "", "")
    assert "host-01 has MI300X" in str(why)
    said(text.partition("\nStep time")[0], str(why))
    told = json.loads(fleet_json(summarize(arrange(found.extracts), found), ("run",)))
    assert [each["name"] for each in told["left_out"]] == [rows[1]["source"]]
    with pytest.raises(InputError, match="another run"):
        gathered_from(rows, tmp_path, strict=True)


def test_it_is_an_error_if_most_hosts_are_not_of_one_run(
    extracts: list[pl.DataFrame], tmp_path: Path
) -> None:
    rows = merge(*extracts).to_dicts()[:2]
    rows[1]["kind"] = "tpu"
    with pytest.raises(InputError, match="another run"):
        gathered_from(rows, tmp_path)


def test_two_runs_of_the_same_hosts_are_noted(
    extracts: list[pl.DataFrame], tmp_path: Path, said: Said
) -> None:
    rows = merge(*extracts).to_dicts()
    day = 86_400 * 10**9
    later = [{**row, "zero_ns": row["zero_ns"] + day, "key": f"{row['key']}x"} for row in rows]
    assert gathered_from(rows, tmp_path).notes == ()
    (note,) = gathered_from([*rows, *later], tmp_path).notes
    assert "was recorded 24.0 hours after" in note
    said(re.sub(r"\S*/", "", note))


def test_processes_of_one_host_are_not_counted_as_hosts(
    extracts: list[pl.DataFrame], tmp_path: Path
) -> None:
    rows = merge(*extracts).to_dicts()
    rows = [{**row, "host": f"node (process {at})"} for at, row in enumerate(rows)]
    found = gathered_from(rows, tmp_path)
    places = {"node": HostPlace(rack="r1")}
    summary = summarize(arrange(found.extracts, places), found)
    text = plain_text(fleet_document(summary, ("run",)))
    assert "4 processes on 1 host" in text
    assert "\nProcesses   4, " in text
    assert "the last" not in text
    full = plain_text(fleet_document(replace(summary, steps=MOST_STEPS), ("run",)))
    assert "the last 100 steps" in full  # an extract has no others
    assert {late.kind for late in summary.late} <= {"process", "device"}
    assert {host for late in summary.late for host in late.hosts} == {"node"}


def test_one_step_has_no_median(extracts: list[pl.DataFrame], tmp_path: Path) -> None:
    rows = merge(*extracts).to_dicts()
    last = max(each["step"] for each in rows[0]["steps"])
    for row in rows:
        row["steps"] = [each for each in row["steps"] if each["step"] == last]
    found = gathered_from(rows, tmp_path)
    text = plain_text(fleet_document(summarize(arrange(found.extracts), found), ("run",)))
    assert re.search(r"Step time   [\d.]+ ms   1 step\n", text)


def test_the_run_of_most_hosts_is_that_of_the_largest_group(
    extracts: list[pl.DataFrame], tmp_path: Path
) -> None:
    """Two others are of two runs, and together as many as those of the largest."""
    rows = merge(*extracts).to_dicts()
    for row, chip in zip(rows, ("MI300X", "A100"), strict=False):
        row["chip"] = chip
        row["programs"] = [{**each, "name": f"jit_{chip}"} for each in row["programs"]]
    kept = tmp_path / "kept.extract.parquet"
    kept.write_bytes(to_bytes(pl.DataFrame(rows, schema=SCHEMA)))
    found = gather_extracts([str(kept)], LocalExecutor(1), memory_bytes=1 << 30)
    assert found.extracts["host"].to_list() == ["host-02", "host-03"]
    assert len(found.strangers) == 2


def test_what_is_no_extract(extracts: list[pl.DataFrame], tmp_path: Path) -> None:
    data = to_bytes(extracts[0])
    with pytest.raises(InputError, match="whole extract"):
        from_bytes(data[:-100], "x")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x")
    with pytest.raises(InputError, match="this version"):
        from_bytes((tmp_path / "x").read_bytes(), "x")
