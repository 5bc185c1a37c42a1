"""Collectives of a fleet: the transfer without waiting, who is last, groups with a slow link."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command_line import in_process
from counterpoint.fleet.collectives import find_collectives
from counterpoint.fleet.extract import group_numbers, make_extract, merge
from counterpoint.fleet.fleet import STAYS, Fleet, arrange
from counterpoint.timeline.reading import read
from made_fleet import fleet_of, write_profiles

HOSTS, DEVICES, STEPS = 16, 4, 10


def fleet_with(stays: np.ndarray, *, size: int, stride: int, members: int | None = None) -> Fleet:
    """A fleet whose devices stay so many milliseconds in one collective in each step."""
    rows = [
        {
            "op": "all-reduce.1",
            "kind": "all-reduce",
            "group_size": size,
            "stride": stride,
            "members": members or len(stays),
            "bytes": 1 << 20,
            "count": 1,
            "total_ps": int(ms * 1e9),
            "exposed_ps": 0,
            "row": row,
            "column": column,
        }
        for (row, column), ms in np.ndenumerate(stays)
    ]
    fleet = fleet_of(np.full(stays.shape, 20.0), DEVICES)
    return replace(fleet, collectives=pl.DataFrame(rows, schema=STAYS))


def stays_of(group: np.ndarray, seed: int, slow: int | None = None) -> np.ndarray:
    """Each group transfers for 5 ms, and all but its last member wait for 0 to 4 ms more."""
    random = np.random.default_rng(seed)
    transfer = random.normal(5.0, 0.02, (group.max() + 1, STEPS))
    if slow is not None:
        transfer[slow] += 1.0
    waits = random.uniform(0, 4, (len(group), STEPS))
    for number in range(group.max() + 1):
        own = np.flatnonzero(group == number)
        waits[random.choice(own, STEPS), np.arange(STEPS)] = 0
    return transfer[group] + waits


@pytest.mark.parametrize(("size", "stride"), [(4, 1), (16, 4), (4, 4), (2, 8)])
def test_a_slow_group_is_named_with_its_cost(size: int, stride: int) -> None:
    devices = np.arange(HOSTS * DEVICES)
    group = group_numbers(devices, size, stride)
    stays = stays_of(group, seed=1, slow=2)
    (found,) = find_collectives(fleet_with(stays, size=size, stride=stride))
    assert found.least_ms == pytest.approx(5.0, abs=0.1)
    assert found.ms == pytest.approx(stays.mean(), rel=0.05)
    assert found.waits_ms is not None
    assert found.waits_ms > 1
    (slow,) = found.slow
    members = [f"h{row // DEVICES} device {row % DEVICES}" for row in np.flatnonzero(group == 2)]
    assert slow.devices == tuple(members)
    assert slow.more_ms == pytest.approx(1.0, abs=0.1)
    assert slow.chance < 0.01


def test_equal_groups_are_not_slow() -> None:
    group = group_numbers(np.arange(HOSTS * DEVICES), 4, 1)
    fleets = [fleet_with(stays_of(group, seed), size=4, stride=1) for seed in range(40)]
    assert sum(bool(find_collectives(fleet)[0].slow) for fleet in fleets) <= 6  # of 40 at 5% each


def test_who_is_last_in_one_group_of_all() -> None:
    stays = np.random.default_rng(3).uniform(6, 9, (HOSTS * DEVICES, STEPS))
    stays[21] = 5.0
    size = HOSTS * DEVICES
    (found,) = find_collectives(fleet_with(stays, size=size, stride=1))
    assert (found.last, found.last_steps, found.least_ms) == ("h5 device 1", STEPS, 5.0)
    # Where nobody waits, nobody is last.
    (even,) = find_collectives(fleet_with(np.full_like(stays, 5.0), size=size, stride=1))
    assert even.last is None


def test_groups_are_unknown_if_hosts_are_missing() -> None:
    stays = stays_of(group_numbers(np.arange(HOSTS * DEVICES), 4, 1), seed=4)
    (found,) = find_collectives(fleet_with(stays, size=4, stride=1, members=128))
    assert (found.least_ms, found.waits_ms, found.last, found.slow) == (None, None, None, ())


def test_real_groups_are_those_of_the_program(tmp_path: Path) -> None:
    """The made-up run transfers for 150, 120, 60 and 30 us; groups are pairs, fours and all."""
    paths = write_profiles(tmp_path)
    fleet = arrange(merge(*(make_extract(read(path)) for path in paths)))
    found = {each.op: each for each in find_collectives(fleet)}
    assert {each.group_size for each in found.values()} == {2, 4, 8}
    least = {op: each.least_ms for op, each in found.items()}
    assert least["all-gather-start.0f"] == pytest.approx(0.15, rel=0.01)
    assert least["all-reduce-start.1"] == pytest.approx(0.12, rel=0.01)
    assert least["all-reduce.norm"] == pytest.approx(0.03, rel=0.01)
    kept = tmp_path / "all.extract.parquet"
    merge(*(make_extract(read(path)) for path in paths)).write_parquet(kept)
    page = tmp_path / "page.html"
    done = in_process("network", kept, "--executor", "local", "--jobs", 1, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "all-reduce.norm" in page.read_text()
    told = json.loads(in_process("network", kept, "--executor", "local", "--json").stdout)
    alone = json.loads(in_process("explain", paths[0], "--json").stdout)["collectives"]
    rates = {row["op"]: row["busbw_gbps"] for row in alone}
    for row in told["collectives"]:
        # Groups across hosts have no last member on one host alone.
        if row["group_size"] == 2:
            assert row["busbw_gbps"] == pytest.approx(rates[row["op"]], rel=0.05), row["op"]
        sent = row["bytes"] * row["count"] * (row["group_size"] - 1) / row["group_size"]
        twice = 2 if row["kind"] == "all-reduce" else 1
        assert row["busbw_gbps"] == pytest.approx(twice * sent / row["least_ms"] / 1e6, rel=1e-3)
    text = in_process("explain", kept, "--executor", "local", "--jobs", 1).stdout
    assert "without waiting" in text
    assert "differ most" in text
    refused = in_process("network", kept, "--executor", "local", "--device", "0")
    assert refused.returncode == 2
    assert "--device" in refused.stderr
