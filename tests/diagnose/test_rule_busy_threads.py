"""STEP311: threads that work all the time beside the launching one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from host_side import Event, case, loop, made, most

from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import busy_threads, host_bound
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.recording import PYTHON_SAMPLED, WORKS_IN_NATIVE_CODE, WORKS_IN_PYTHON

STEP = 150


def beside(*names: str, share: int = STEP) -> Timeline:
    """The loop calls late, in silence; another thread does each of these in each step."""
    part = share // len(names)
    events = [Event(name, index * part, part, thread="worker") for index, name in enumerate(names)]
    return loop([*events, Event("$recorder.py:7 at", 0, 2)])


def found(timeline: Timeline) -> list[Finding]:
    return list(busy_threads.check(case(timeline)))


def test_a_thread_that_holds_the_interpreters_lock_is_why_the_host_is_late() -> None:
    looked = beside("$builtins sum", "$words.py:5 count")
    (finding,) = found(looked)
    assert "1 other thread is busy 100% of the time" in finding.title
    assert most(finding) == pytest.approx(0.058)
    assert any("builtins sum" in it.what for it in finding.evidence)
    assert "another process" in finding.remedy.text
    (rest,) = host_bound.check(case(looked))
    assert most(rest) == pytest.approx(0.002)


def test_a_thread_that_sleeps_or_waits_is_not_busy() -> None:
    assert not found(beside("$time sleep", "$<unknown> acquire"))


def test_a_thread_that_works_a_third_of_the_time_is_not_busy() -> None:
    assert not found(beside("$builtins sum", share=50))


def test_native_code_without_the_lock_does_not_hold_up_the_host() -> None:
    assert not found(beside("$zlib compress"))


def test_a_frame_that_was_open_when_the_profile_began_or_ended_may_have_slept() -> None:
    """What it had called is not recorded."""
    sleeps = [Event("$words.py:5 decode", -90, 5 * STEP, thread="worker")]
    timeline = loop([])
    events = made([], sleeps).host_events.with_columns(line=pl.lit(9, pl.UInt32))
    names = (*timeline.host_names, "$words.py:5 decode")
    other = events.with_columns(name=pl.lit(len(names) - 1, pl.UInt32))
    joined = replace(
        timeline, host_events=pl.concat([timeline.host_events, other]), host_names=names
    )
    assert not found(joined)


def by_samples(work: str | None, *, works: int = STEP, loop_works: bool = False) -> Timeline:
    """Stacks are sampled: the loop's own function, and one of another thread that works or not."""
    frames = [
        Event("$train.py:1 main", -90, STEP),
        Event("$words.py:5 count", -90, STEP, thread="worker"),
    ]
    if work is not None:
        frames.append(Event(work, -90, works, thread="worker"))
    if loop_works:
        frames.append(Event(WORKS_IN_PYTHON, -90, STEP))
    timeline = loop(frames)
    return replace(timeline, environment={**timeline.environment, PYTHON_SAMPLED: "every 2.0 ms"})


def test_a_sampled_thread_in_python_is_why_the_loop_does_not_go_on() -> None:
    """Its samples show the loop where it was when another thread got the lock."""
    looked = by_samples(WORKS_IN_PYTHON)
    (finding,) = found(looked)
    assert "1 other thread is busy 100% of the time, most with words.py:5 count" in finding.title
    assert most(finding) == pytest.approx(0.06, abs=0.002)
    assert not list(host_bound.check(case(looked)))


def test_a_loop_that_runs_python_itself_is_not_held_up() -> None:
    looked = by_samples(WORKS_IN_PYTHON, loop_works=True)
    (rest,) = host_bound.check(case(looked))
    assert most(rest) > 0.045


@pytest.mark.parametrize("work", [None, WORKS_IN_NATIVE_CODE])
def test_a_sampled_thread_that_sleeps_or_works_in_native_code_holds_nothing_up(
    work: str | None,
) -> None:
    looked = by_samples(work)
    assert not found(looked)
    assert list(host_bound.check(case(looked)))


def test_a_sampled_thread_that_works_a_third_of_the_time_is_not_busy() -> None:
    assert not found(by_samples(WORKS_IN_PYTHON, works=50))
