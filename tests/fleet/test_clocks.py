"""Clocks of hosts are compared by the ends of a collective of all devices, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterpoint
from counterpoint.fleet.extract import make_extract, merge
from counterpoint.fleet.fleet import arrange
from counterpoint.timeline.storage.parquet import write_parquet
from made_fleet import HOSTS, write_profiles


@pytest.fixture(scope="module")
def extracts(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    paths = write_profiles(tmp_path_factory.mktemp("clocks"))
    return merge(*(make_extract(counterpoint.read(path)) for path in paths))


def ahead(extracts: pl.DataFrame) -> list[float | None]:
    return [host.clock_ahead_ms for host in arrange(extracts).hosts]


def made_up() -> np.ndarray:
    """How far ahead `synthetic_hosts.py` puts the clocks of the hosts."""
    clocks = np.random.default_rng(2).normal(0, 50, HOSTS)
    return clocks - np.median(clocks)


def test_the_clocks_are_those_of_the_profiles(extracts: pl.DataFrame) -> None:
    assert ahead(extracts) == pytest.approx(made_up(), abs=0.05)
    assert all((host.clock_spread_ms or 0) < 0.05 for host in arrange(extracts).hosts)


def test_hosts_of_one_timeline_keep_their_own_clocks(tmp_path: Path) -> None:
    """One Timeline puts all hosts on one clock, also once stored; extracts tell them apart."""
    timeline = counterpoint.read(*write_profiles(tmp_path / "profiles"))
    write_parquet(timeline, tmp_path / "stored")
    for each in (timeline, counterpoint.read(tmp_path / "stored")):
        assert ahead(make_extract(each)) == pytest.approx(made_up(), abs=0.05)


def test_what_is_unknown(extracts: pl.DataFrame) -> None:
    unsaid = extracts.with_columns(zero_ns=pl.when(pl.col("host") != "host-01").then("zero_ns"))
    assert [each is None for each in ahead(unsaid)] == [False, True, False, False]
    assert ahead(extracts.filter(host="host-00")) == [None]
    groups = pl.col("collectives").list.eval(
        pl.element().struct.with_fields(members=pl.field("members") * 2)
    )
    assert ahead(extracts.with_columns(groups)) == [None] * HOSTS
