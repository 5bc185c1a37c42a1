"""Frames from samples of stacks: as long as samples show, and nested with what is recorded."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import MS, NS, Plane, Ref, host, step_marker, xspace

from counterpoint.timeline.recording import PYTHON_SAMPLED, WORKS_IN_NATIVE_CODE, WORKS_IN_PYTHON
from counterpoint.timeline.xplane.missed_samples import with_missed
from counterpoint.timeline.xplane.python_samples import (
    SAMPLE,
    THREAD,
    Frame,
    Sample,
    frames_of,
    work_of,
)
from counterpoint.timeline.xplane.reader import read_xplane

MAIN, LOADER = "$train.py:1 <module>", "$train.py:9 load_batch"
NO_TIMES = np.empty(0, np.int64)


def frames(
    stacks: dict[int, tuple[str, ...]], recorded: list[tuple[int, int]] | None = None
) -> list[Frame]:
    samples = [Sample(at, stack) for at, stack in stacks.items()]
    start, end = np.array(recorded or [], np.int64).reshape(-1, 2).T
    return [*frames_of(samples, start, end)]


def test_a_function_lasts_half_the_way_to_samples_without_it() -> None:
    stacks = {0: (MAIN,), 10: (MAIN, LOADER), 20: (MAIN, LOADER), 30: (MAIN,)}
    assert frames(stacks) == [Frame(MAIN, -5, 35), Frame(LOADER, 5, 25)]


def test_a_sample_that_came_late_shows_no_more_than_others() -> None:
    """The sampler did not run between 20 and 100."""
    stacks = {0: (MAIN,), 10: (MAIN,), 20: (MAIN, LOADER), 100: (MAIN,), 110: (MAIN,)}
    assert frames(stacks)[1] == Frame(LOADER, 15, 25)


def test_what_the_thread_recorded_bounds_what_samples_show() -> None:
    stacks = {0: (MAIN,), 10: (MAIN, LOADER), 20: (MAIN, LOADER), 30: (MAIN,)}
    assert Frame(LOADER, 8, 24) in frames(stacks, [(1, 8), (24, 40)])


def test_a_function_is_around_an_event_in_which_it_was_seen() -> None:
    stacks = {0: (MAIN,), 10: (MAIN, LOADER), 20: (MAIN, LOADER), 30: (MAIN,)}
    assert Frame(LOADER, 4, 26) in frames(stacks, [(4, 12), (18, 26)])


def steps_with(sampled: dict[int, tuple[str, ...]], last_ms: int = 7) -> list[Sample]:
    """Return what is added to samples of five steps, with 6 or `last_ms` ms between calls."""
    took = [6, 6, 6, 6, last_ms]
    start = np.array([10 * step + ms for step, ms in enumerate(took)], np.int64) * MS
    end = np.array([10 * (step + 1) for step in range(5)], np.int64) * MS
    samples = [Sample(at, stack) for at, stack in sampled.items()]
    found = with_missed(samples, start, end, np.zeros(5, np.int64))
    return [it for it in found if it not in samples]


def test_what_no_sample_hit_is_what_the_same_place_of_other_steps_shows() -> None:
    """Python code that holds the interpreter's lock is over before the sampler gets it."""
    hit = {13 * MS: (MAIN, LOADER), 33 * MS: (MAIN, LOADER), 28 * MS: (MAIN,)}
    assert steps_with(hit) == [
        Sample(23 * MS, (MAIN, LOADER)),
        Sample(43 * MS + MS // 2, (MAIN, LOADER)),
    ]


def test_samples_that_differ_show_only_what_they_have_in_common() -> None:
    hit = {13 * MS: (MAIN, LOADER), 33 * MS: (MAIN, "$log.py:3 write")}
    assert {it.stack for it in steps_with(hit)} == {(MAIN,)}


def test_one_sample_or_a_step_of_another_length_shows_nothing_of_others() -> None:
    assert not steps_with({13 * MS: (MAIN, LOADER)})
    hit = {13 * MS: (MAIN, LOADER), 23 * MS: (MAIN, LOADER), 33 * MS: (MAIN, LOADER)}
    assert steps_with(hit)
    assert not steps_with(hit, last_ms=2)


def test_a_function_within_an_event_stays_within() -> None:
    stacks = {0: (MAIN,), 10: (MAIN, LOADER), 20: (MAIN, LOADER), 30: (MAIN,)}
    assert Frame(LOADER, 5, 25) in frames(stacks, [(-2, 32)])
    assert Frame(LOADER, 2, 28) in frames(stacks, [(2, 28)])


def test_where_samples_are_rare_a_function_begins_when_a_wait_ends() -> None:
    """And ends when the next call begins: the result was read until 21, and a call began at 55."""
    reads, logs = "$array.py:9 _value", "$train.py:20 log"
    stacks = {0: (MAIN,), 20: (MAIN, reads), 40: (MAIN, logs), 60: (MAIN,), 80: (MAIN,)}
    found = frames(stacks, [(12, 21), (55, 62)])
    assert Frame(reads, 12, 21) in found
    assert Frame(logs, 21, 55) in found


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Intervals that nest or follow each other."""
    times = sorted(draw(st.lists(st.integers(-10, 130), max_size=10, unique=True)))
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for at in times:
        if opened and draw(st.booleans()):
            found.append((opened.pop(), at))
        else:
            opened.append(at)
    return found


@given(
    st.dictionaries(
        st.integers(0, 120),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple),
        max_size=12,
    ),
    nested(),
)
def test_frames_nest_with_each_other_and_with_what_is_recorded(
    stacks: dict[int, tuple[str, ...]], recorded: list[tuple[int, int]]
) -> None:
    found = frames(stacks, recorded)
    spans = [(frame.start_ps, frame.end_ps) for frame in found]
    assert all(start < end for start, end in spans)
    for turn, (start, end) in enumerate(spans):
        for other_start, other_end in (*recorded, *spans[turn + 1 :]):
            apart = end <= other_start or other_end <= start
            within = start <= other_start and other_end <= end
            around = other_start <= start and end <= other_end
            assert apart or within or around


def work(ran: float, waited: float = 0.0, *, in_python: bool = False) -> list[Frame]:
    """Of a thread that ran and waited for a core in such shares of 0.2 s, looked at each 5 ms."""
    each = 5_000
    samples = [
        Sample(turn * 5 * MS, (MAIN,), int(turn * each * ran), int(turn * each * waited), in_python)
        for turn in range(41)
    ]
    return [*work_of(samples)]


def test_a_thread_works_while_it_runs_or_waits_for_a_core() -> None:
    assert sum(it.end_ps - it.start_ps for it in work(0.9)) == 200 * MS
    assert {it.name for it in work(0.9)} == {WORKS_IN_NATIVE_CODE}
    assert {it.name for it in work(0.9, in_python=True)} == {WORKS_IN_PYTHON}
    assert work(0.15, 0.8), "three threads on a core"


def test_a_thread_that_sleeps_does_not_work_though_it_waits_for_a_core_when_it_wakes() -> None:
    assert not work(0.0)
    assert not work(0.1)
    assert not work(0.05, 0.6)


def test_linux_counts_a_wait_for_a_core_when_it_ends() -> None:
    counted = [(0, 0), *[(5, 40)] * 3, *[(10, 80)] * 3, (15, 120)]
    samples = [
        Sample(turn * 15 * MS, (MAIN,), ran * 1000, waited * 1000)
        for turn, (ran, waited) in enumerate(counted)
    ]
    assert sum(it.end_ps - it.start_ps for it in work_of(samples)) == 105 * MS


def test_without_times_of_threads_no_work_is_known() -> None:
    assert not [*work_of([Sample(turn * 5 * MS, (MAIN,)) for turn in range(40)])]


def sampled(
    threads: Plane, thread: int, at_ps: int, *stack: str, ran_us: int | None = None
) -> None:
    said: dict[str, int | Ref] = {"thread": thread, "stack": Ref("|".join(stack))}
    if ran_us is not None:
        said |= {"ran": ran_us, "waited": 0, "python": 1}
    threads.add("sampler", SAMPLE, at_ps, 2000 * NS, said)


def test_samples_become_frames_of_the_thread_that_was_sampled() -> None:
    threads = host()
    step_marker(threads, "python", 3, 0, 100 * MS)
    threads.add("python", THREAD, 1 * MS, 1000 * NS, {"thread": 77})
    for turn in range(1, 50):
        sampled(threads, 77, 2 * turn * MS, MAIN, *([LOADER] if turn < 30 else []))
        sampled(threads, 88, 2 * turn * MS, "$loader.py:3 fill")
    recording = read_xplane(memoryview(xspace(threads)), "made.xplane.pb")
    assert recording.environment[PYTHON_SAMPLED] == "every 2.0 ms"
    name = pl.col("name").replace_strict(dict(enumerate(recording.host_names)))
    events = recording.host_events.with_columns(name=name)
    (line,) = events.filter(pl.col("name") == "train")["line"]
    ((where, took),) = events.filter(pl.col("name") == LOADER).select("line", "dur_ps").rows()
    assert where == line
    assert abs(took - 58 * MS) <= 2 * MS
    assert "$loader.py:3 fill" in events["name"].to_list()
    assert not {SAMPLE, THREAD} & {*recording.host_names}
    assert not any("book-keeping" in note for note in recording.notes)


def test_work_of_a_sampled_thread_is_on_its_line() -> None:
    threads = host()
    step_marker(threads, "python", 3, 0, 100 * MS)
    threads.add("python", THREAD, 1 * MS, 1000 * NS, {"thread": 77})
    for turn in range(1, 50):
        sampled(threads, 77, 2 * turn * MS, MAIN, ran_us=0)
        sampled(threads, 88, 2 * turn * MS, "$loader.py:3 fill", ran_us=2000 * turn)
    recording = read_xplane(memoryview(xspace(threads)), "made.xplane.pb")
    name = pl.col("name").replace_strict(dict(enumerate(recording.host_names)))
    events = recording.host_events.with_columns(name=name)
    works = events.filter(pl.col("name") == WORKS_IN_PYTHON)
    assert {*works["line"]} == {*events.filter(pl.col("name").str.ends_with("fill"))["line"]}
    assert works["dur_ps"].sum() == 96 * MS
