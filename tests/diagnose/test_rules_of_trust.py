"""STEP605 and STEP606: a profile that lost events, and one that shows its own cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from healthy import healthy
from host_side import Event, Run, case, made

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import profile_truncated, profiler_overhead
from counterpoint.diagnose.step_data import Context
from counterpoint.runs.run import ObservedProcess, ProfileWindow, Rank, StepStart
from golden_sections import Said
from recorded_runs import ENDED, run_of

CUT = "cut at 1,000,000 events, the most that XLA writes to a trace.json"


def test_a_profile_that_lost_events() -> None:
    timeline = replace(healthy(), truncated=True, notes=(CUT, "another note"))
    (finding,) = profile_truncated.check(case(timeline))
    assert finding.detail == CUT
    assert isinstance(finding.saves_ms, Unknown)


def test_a_whole_profile_with_notes() -> None:
    timeline = replace(healthy(), notes=("step 0 is left out of the statistics",))
    assert not list(profile_truncated.check(case(timeline)))


def overhead(
    inside_ms: int, before: int = 6, outside_ms: Sequence[int] | None = None
) -> list[Finding]:
    """Steps of 100 ms, then four of `inside_ms` in a profile, at last one while it is written."""
    starts = [0.0]
    for took in (*(outside_ms or [100] * before), *[inside_ms] * 4, 9_000):
        starts.append(starts[-1] + took / 1e3)
    window = ProfileWindow("done", opened_s=starts[before], closed_s=starts[before + 4])
    process = ObservedProcess(
        pid=1,
        versions={},
        platform=None,
        devices=(),
        process_index=None,
        process_count=None,
        peak_memory={},
        window=window,
        facts={},
    )
    steps_ = tuple(StepStart(n, start, "annotation") for n, start in enumerate(starts))
    rank = Rank(0, "host0", Path("rank0"), ENDED, processes=(process,), steps=steps_)
    run = run_of(rank)
    return list(profiler_overhead.check(case(healthy(), Context(run=run))))


def test_steps_that_are_slower_inside_the_profile(said: Said) -> None:
    (finding,) = overhead(140)
    assert "of 7 steps outside: 100.0 ms" in finding.detail  # as the step time above it is counted
    assert isinstance(finding.saves_ms, Unknown)
    assert "40.0 ms" in finding.title
    assert "140.0 ms" in finding.detail
    said(finding)


def test_steps_that_are_hardly_slower() -> None:
    assert not overhead(104)


def test_too_few_steps_to_tell() -> None:
    assert not overhead(140, before=1)


def test_steps_that_differ_anyway_say_nothing_about_the_profiler() -> None:
    assert not overhead(140, outside_ms=(60, 150, 70, 160, 80, 90))


def test_no_run_no_verdict() -> None:
    assert not list(profiler_overhead.check(case(healthy())))


def traced(calls: int, *, idle: int = 50, name: str = "$train.py:1 f") -> list[Finding]:
    """Steps of 100 us: after each run devices wait for so many calls of Python."""
    runs = [Run(100 * step, 100 - idle) for step in range(12)]
    launching = [Event("PjitFunction(step)", 100 * step - 3, 2) for step in range(12)]
    called = [
        Event(name, 100 * step + 50 + (40 * call) // max(1, calls), 1)
        for step in range(12)
        for call in range(calls)
    ]
    return list(profiler_overhead.check(case(made(runs, launching + called))))


def test_recorded_calls_of_python_take_time_for_which_devices_wait(said: Said) -> None:
    (finding,) = traced(40)
    assert "40 calls per step" in finding.detail
    assert "0.006 to 0.024 ms" in finding.title
    assert isinstance(finding.saves_ms, Unknown)
    said(finding)


def test_few_calls_or_busy_devices_hide_what_recording_takes() -> None:
    assert not traced(10)
    assert not traced(40, idle=5)
    assert not traced(40, name="TraceAnnotation")
