"""Late units are found with their cost, and noise is never called a straggler."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from counterpoint.fleet.stragglers import find_late, median_interval
from made_fleet import fleet_of


def noise(hosts: int, steps: int, seed: int, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(20.0, spread, (hosts * 8, steps))


@pytest.mark.parametrize("hosts", [1, 4, 64])
@pytest.mark.parametrize("steps", [3, 10, 40])
def test_noise_is_no_straggler(hosts: int, steps: int) -> None:
    """At most one set in twenty may have a false one; each kind of unit is a chance of its own."""
    found = [find_late(fleet_of(noise(hosts, steps, seed))) for seed in range(40)]
    false = sum(
        any(late.kind == kind for late in lates) for lates in found for kind in ("host", "device")
    )
    # More than so many among 80 have a chance below 1 in 10,000 at 5 % each.
    most = next(
        n
        for n in range(80)
        if sum(comb(80, k) * 0.05**k * 0.95 ** (80 - k) for k in range(n + 1, 81)) < 1e-4
    )
    assert false <= most


def test_a_slow_device_is_found_with_its_cost() -> None:
    waits = noise(16, 10, seed=1, spread=0.2)
    waits[19] -= 8.0
    (late,) = find_late(fleet_of(waits))
    assert (late.kind, late.name, late.hosts) == ("device", "h2 device 3", ("h2",))
    assert late.late_steps == 10
    assert late.waits_less_ms == pytest.approx(8.0, abs=0.3)
    assert late.interval_ms is not None
    assert late.interval_ms.low <= 8.0 <= late.interval_ms.high
    assert late.is_slow
    assert late.chance < 1e-6
    # Without it the others still wait for the next one, which is late by chance.
    assert 6.5 < late.gain_ms < 8.0
    assert late.gain_interval_ms is not None
    assert 6.5 < late.gain_interval_ms.low <= late.gain_ms <= late.gain_interval_ms.high < 8.5


def test_steps_in_which_a_late_device_was_not_seen_do_not_count_for_its_gain() -> None:
    waits = noise(16, 10, seed=1, spread=0.2)
    waits[19] -= 8.0
    waits[16:24, :4] = np.nan
    (late,) = find_late(fleet_of(waits))
    assert (late.late_steps, late.steps) == (6, 6)
    assert late.gain_interval_ms is not None
    assert 6.5 < late.gain_interval_ms.low <= late.gain_ms


def test_a_slow_device_is_found_where_all_others_are_late_in_turn() -> None:
    waits = noise(64, 8, seed=8, spread=2.0)
    waits[320] -= 20.0
    (late,) = find_late(fleet_of(waits))
    assert late.name == "h40 device 0"


def test_the_slower_of_two_is_found() -> None:
    waits = np.random.default_rng(9).normal(20.0, 0.2, (2, 10))
    waits[1] -= 5.0
    (late,) = find_late(fleet_of(waits, devices=1))
    assert (late.kind, late.name) == ("host", "h1")


def test_a_whole_host_is_named_once() -> None:
    waits = noise(16, 10, seed=2, spread=0.2)
    waits[40:48] -= 5.0
    (late,) = find_late(fleet_of(waits))
    assert (late.kind, late.name) == ("host", "h5")


def test_a_rack_is_named_instead_of_its_hosts() -> None:
    waits = noise(16, 10, seed=3, spread=0.2)
    for host in range(1, 16, 4):
        waits[host * 8 : host * 8 + 8] -= 5.0
    (late,) = find_late(fleet_of(waits, racks=4))
    assert (late.kind, late.name) == ("rack", "r1")
    assert late.hosts == ("h1", "h5", "h9", "h13")


def test_several_are_found_and_gains_add_up() -> None:
    """The gain of the second counts from where the first is gone already."""
    waits = noise(64, 10, seed=4, spread=0.1)
    waits[8] -= 9.0
    waits[300] -= 4.0
    waits[401] -= 4.0
    found = find_late(fleet_of(waits))
    assert {late.name for late in found} == {"h1 device 0", "h37 device 4", "h50 device 1"}
    gains = [late.gain_ms for late in found]
    assert gains == pytest.approx([5.0, 5.0, 8.7], abs=0.5)


def test_devices_of_other_programs_are_not_compared() -> None:
    from dataclasses import replace

    waits = noise(4, 10, seed=5, spread=0.2)
    waits[:16] -= 10.0
    fleet = fleet_of(waits)
    hosts = tuple(
        replace(host, program="jit_stage_0" if at < 2 else "jit_stage_1")
        for at, host in enumerate(fleet.hosts)
    )
    assert not find_late(replace(fleet, hosts=hosts))


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (8, 0), (8, 2), (2, 5)])
def test_the_smallest_fleets(shape: tuple[int, int]) -> None:
    assert find_late(fleet_of(np.full(shape, 3.0), devices=1)) == ()


def test_steps_that_some_hosts_lack() -> None:
    waits = noise(4, 10, seed=6, spread=0.2)
    waits[9] -= 8.0
    waits[:8, 7:] = np.nan
    waits[24:, :2] = np.nan
    (late,) = find_late(fleet_of(waits))
    assert late.name == "h1 device 1"


def test_the_interval_of_a_median_holds_it() -> None:
    random = np.random.default_rng(7)
    sets = [random.exponential(1.0, 10) for _ in range(2000)]
    held = [median_interval(each) for each in sets]
    share = np.mean([each.low <= np.log(2) <= each.high for each in held if each is not None])
    assert share >= 0.95
    assert median_interval(np.arange(5.0)) is None
