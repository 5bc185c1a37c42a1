"""The line on programs that run between steps: an evaluation is part of no step."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from host_side import PS, Run, made

from counterpoint.diagnose.between_steps import BETWEEN
from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.model import Timeline

STEP, EVALUATION = 100, 50
"""Microseconds."""


def loop(after: dict[int, int], *, count: int = 12, devices: int = 1, idle: int = 5) -> Timeline:
    """Steps under markers, and after some of them so many runs of an evaluation."""
    runs: list[Run] = []
    markers: list[tuple[int, int]] = []
    now = 0
    for step in range(count):
        runs += [Run(now, STEP - idle, device) for device in range(devices)]
        markers.append((now, STEP))
        now += STEP
        for _ in range(after.get(step, 0)):
            runs += [Run(now, EVALUATION, device, "jit_evaluate") for device in range(devices)]
            now += EVALUATION
    timeline = made(runs, steps=markers)
    # Markers of devices reach to the next one; those of the host end before an evaluation begins.
    ends = pl.col("start_ps") + STEP * PS
    of_steps = [program.name == "jit_step" for program in timeline.programs].index(True)
    step = pl.when(pl.col("program") == of_steps).then("step")
    return replace(
        timeline,
        steps=timeline.steps.with_columns(end_ps=ends),
        runs=timeline.runs.with_columns(step=step),
    )


def said(timeline: Timeline) -> list[str]:
    return [note for note in explain(timeline).notes if BETWEEN in note]


def test_an_evaluation_is_told_with_its_share_of_the_loop_and_its_period() -> None:
    (note,) = said(loop(dict.fromkeys((2, 5, 8), 4)))
    # 3 x 200 of 12 x 100 + 3 x 200
    assert note.startswith("33% of the time")
    assert "jit_evaluate (12 runs, 0.05 ms each): 0.20 ms after every 3 steps, 3 times" in note
    assert "evaluate less often" in note


def test_it_is_said_where_steps_lose_nothing() -> None:
    evaluated = explain(loop(dict.fromkeys((2, 5, 8), 4), idle=1))
    assert "But 33% of the time is between steps" in (evaluated.verdict or "")
    assert "between steps" not in (explain(loop({}, idle=1)).verdict or "between steps")


def test_it_is_no_part_of_the_step() -> None:
    with_it, without = explain(loop(dict.fromkeys((2, 5, 8), 4))), explain(loop({}))
    assert with_it.steps.median_ms == without.steps.median_ms


def test_each_device_counts_once() -> None:
    one, two = (said(loop(dict.fromkeys((2, 5, 8), 4), devices=n)) for n in (1, 2))
    assert one == two


def test_distances_that_differ_are_no_period() -> None:
    (note,) = said(loop(dict.fromkeys((1, 3, 8), 4)))
    assert "0.20 ms 3 times in the profile" in note
    assert "after every" not in note
    (note,) = said(loop({4: 4}))
    assert "once, after step 4" in note


def test_next_to_nothing_is_not_told() -> None:
    assert said(loop({4: 1})) == []  # 50 of 1250


def test_without_another_program_nothing_is_told() -> None:
    assert said(loop({})) == []


def test_what_runs_before_the_first_step_or_after_the_last_is_not_in_the_loop() -> None:
    assert said(loop({11: 10})) == []
