"""Digests merge in any order and in any tree, and say what the whole profile says."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core import InputError
from counterpoint.diagnose import explain
from counterpoint.fleet.digest import SCHEMA, from_bytes, make_digest, merge, to_bytes
from counterpoint.fleet.fleet import arrange
from counterpoint.fleet.summary import summarize
from counterpoint.fleet.tasks import Gathering
from counterpoint.report.explain.fleet_document import fleet_document
from counterpoint.report.terminal import plain_text
from counterpoint.timeline import read
from made_fleet import DEVICES, HOSTS, write_profiles


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_profiles(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def digests(profiles: list[Path]) -> list[pl.DataFrame]:
    return [make_digest(read(path)) for path in profiles]


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
def test_digests_merge_in_any_order_and_any_tree(
    case: tuple[list[pl.DataFrame], pl.DataFrame],
) -> None:
    rows, merged = case
    assert merged.equals(merge(*rows))
    assert merged["key"].n_unique() == len(merged) == len({row["key"].item() for row in rows})


def test_real_digests_merge_alike(digests: list[pl.DataFrame]) -> None:
    together = merge(*digests)
    assert together.equals(reduce(merge, reversed(digests)))
    assert together.equals(merge(together, digests[2], together))
    assert from_bytes(to_bytes(together), "x").equals(together)


def test_a_digest_says_what_the_profiles_say(
    profiles: list[Path], digests: list[pl.DataFrame]
) -> None:
    fleet, whole = arrange(merge(*digests)), explain(read(*profiles))
    assert whole.breakdown is not None
    assert len(fleet.host_of) == HOSTS * DEVICES
    assert fleet.step_ms == pytest.approx(whole.steps.median_ms, rel=1e-3)
    for device, parts in whole.device_breakdowns.items():
        assert fleet.compute[device].mean() == pytest.approx(parts.compute_ms, rel=0.01)
        assert fleet.exposed[device].mean() == pytest.approx(parts.collective_exposed_ms, abs=0.05)
    total = fleet.compute + fleet.exposed + fleet.copy + fleet.idle
    assert total == pytest.approx(fleet.length)


def test_a_host_that_runs_another_program_is_named(
    digests: list[pl.DataFrame], tmp_path: Path
) -> None:
    other = make_digest(read(write_profiles(tmp_path, layers=3)[3]))
    merged = merge(*digests[:3], other)
    made = Gathering(digests=merged, profiles=4, failures=(), read_bytes=1, retried=0, notes=())
    found = summarize(arrange(merged), made)
    assert found.builds_differ
    assert [build.hosts for build in found.builds] == [
        ("host-00", "host-01", "host-02"),
        ("host-03",),
    ]
    text = plain_text(fleet_document(found, ("run",)))
    assert "Builds   hosts run 2 different modules" in text
    assert not summarize(arrange(merge(*digests)), made).builds_differ


def test_a_host_with_another_chip_and_a_program_of_its_own_is_of_another_run(
    digests: list[pl.DataFrame],
) -> None:
    rows = merge(*digests).to_dicts()
    rows[1]["chip"] = "MI300X"
    arrange(pl.DataFrame(rows, schema=SCHEMA))  # chips may be mixed
    rows[1]["programs"] = [{**each, "name": "jit_dot"} for each in rows[1]["programs"]]
    with pytest.raises(InputError, match="host-01 has MI300X and a program of its own; 3 of 4"):
        arrange(pl.DataFrame(rows, schema=SCHEMA))


def test_what_is_no_digest(digests: list[pl.DataFrame], tmp_path: Path) -> None:
    data = to_bytes(digests[0])
    with pytest.raises(InputError, match="not a whole digest"):
        from_bytes(data[:-100], "x")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x")
    with pytest.raises(InputError, match="no digest of this version"):
        from_bytes((tmp_path / "x").read_bytes(), "x")
