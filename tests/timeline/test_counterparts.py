"""Runs of hosts that began to record at different steps are matched by what tells them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.hosts.counterparts import LAST, HostRuns, find_shifts
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.recording import Recording
from recordings import NS, Span, recording

LENGTHS = (100, 130, 105, 160, 110, 95, 140, 120)
"""Of the steps, in ns: no two are alike."""

NONE = np.empty(0, np.int64)


def host(
    name: str,
    first: int,
    last: int,
    *,
    marked: bool = False,
    clock: int = 0,
    zero: int | None = None,
) -> Recording:
    """A host that recorded steps `first` to `last`, each with one collective of both devices."""
    starts = [sum(LENGTHS[:step]) - sum(LENGTHS[:first]) + clock for step in range(first, last)]
    spans = [
        span
        for start in starts
        for span in (Span("fusion.1", start, 20), Span("all-reduce.1", start + 30, 40))
    ]
    markers = [(None, 500 + first + at, start - 5, 90) for at, start in enumerate(starts)]
    made = recording(spans, host=name, markers=markers if marked else ())
    since = 10**18 + sum(LENGTHS[:first]) if zero is None else zero
    return replace(made, zero_ns=since)


def together(timeline: Timeline) -> list[list[int]]:
    """Which of each device's runs, counted from its first, share a number."""
    runs = timeline.runs
    return [runs.filter(device=device)["index"].to_list() for device in (0, 1)]


@pytest.mark.parametrize("marked", [False, True])
def test_a_host_that_began_a_step_later_has_its_first_run_in_the_second(marked: bool) -> None:
    made = assemble([host("a", 0, 8, marked=marked), host("b", 1, 8, marked=marked)], ["made"])
    assert together(made) == [[*range(8)], [*range(1, 8)]]
    assert made.hosts[1].clock_offset_ps == 0


def test_as_many_steps_of_each_may_still_be_others() -> None:
    made = assemble([host("a", 0, 6), host("b", 2, 8)], ["made"])
    assert together(made) == [[*range(6)], [*range(2, 8)]]


def test_clocks_off_by_hours_do_not_matter() -> None:
    late = 7_200 * 10**9
    made = assemble([host("a", 0, 8), host("b", 0, 7, zero=10**18 + late)], ["made"])
    assert together(made) == [[*range(8)], [*range(7)]]
    assert made.hosts[1].clock_offset_ps == late * NS


def test_what_told_it_is_said_where_counts_differ() -> None:
    made = assemble([host("a", 0, 8), host("b", 1, 8)], ["made"])
    assert any("sequence of collectives" in note for note in made.notes)


def counted(count: int, **told: list[int]) -> HostRuns:
    columns = {name: np.array(values, np.int64) for name, values in told.items()}
    index = np.arange(count, dtype=np.int64)
    usual = {"start": index * 100, "end": NONE, "key": NONE, "step": NONE}
    return HostRuns(index=index, **{**usual, **columns})


class TestEvidence:
    def test_run_ids_that_hosts_share_come_first(self) -> None:
        hosts = {0: counted(3, key=[7, 8, 9], step=[1, 2, 3]), 1: counted(2, key=[8, 9])}
        found = find_shifts(hosts, clocks_agree=False)
        assert (found.by_host, found.told_by) == ({0: 0, 1: 1}, "run ids")

    def test_ids_that_contradict_each_other_tell_nothing(self) -> None:
        hosts = {0: counted(3, key=[7, 8, 9]), 1: counted(3, key=[9, 8, 7])}
        assert find_shifts(hosts, clocks_agree=False).told_by == LAST

    def test_steps_that_are_all_alike_leave_it_to_the_clocks(self) -> None:
        ends = [0, 100, 200, 300, 400, 500]
        hosts = {
            0: counted(6, end=ends),
            1: counted(5, start=[101, 201, 301, 401, 501], end=ends[:5]),
        }
        found = find_shifts(hosts, clocks_agree=True)
        assert (found.by_host, found.told_by) == ({0: 0, 1: 1}, "their clocks")

    def test_clocks_that_are_off_by_half_a_step_tell_nothing(self) -> None:
        hosts = {0: counted(6), 1: counted(5, start=[150, 250, 350, 450, 550])}
        assert find_shifts(hosts, clocks_agree=True).told_by == LAST
