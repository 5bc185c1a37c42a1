"""Outliers: steps that took longer than the others, and what there was more of."""

from __future__ import annotations

import pytest
from healthy import healthy
from megascale_fixture import Scene
from slices import case_of, timeline_of

from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.outliers import outlier_notes, outliers
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from golden_sections import Said


def test_a_stall_in_one_step_is_told_with_what_there_was_more_of() -> None:
    case = case_of(Scene(extra_network_ms=lambda step: 20 if step == 5 else 0))
    (one,) = outliers(case)
    # 10 of slack hide 5 of the 25 that the transfer takes.
    assert (one.step, one.cause, one.op) == (5, "collective", "send.3")
    assert one.longer_ms == pytest.approx(15.0, abs=0.05)
    assert one.more_ms["collective"] == pytest.approx(15.0, abs=0.05)
    assert sum(one.more_ms.values()) == pytest.approx(one.longer_ms)


def test_steps_of_one_cause_are_told_together(said: Said) -> None:
    case = case_of(Scene(steps=20, extra_network_ms=lambda step: 20 if step in (3, 9) else 0))
    (note,) = outlier_notes(outliers(case))
    assert note.startswith("steps 3 and 9 took 14.96")
    assert "most in send.3" in note
    said(note)


@pytest.mark.parametrize(
    "scene",
    [
        Scene(),
        Scene(late_ms=12),
        Scene(steps=20, network_ms=14, extra_network_ms=lambda n: 10 if n % 2 else 0),
        Scene(steps=5, extra_network_ms=lambda step: 20 if step == 2 else 0),  # three steady ones
    ],
)
def test_steps_alike_two_lengths_and_few_steps_have_no_outliers(scene: Scene) -> None:
    assert not outliers(case_of(scene))


def test_one_step_alone_and_a_healthy_profile_have_none() -> None:
    timeline = timeline_of(Scene(extra_network_ms=lambda step: 20 if step == 5 else 0))
    assert not outliers(StepData(selection=select(timeline, step=5), context=Context()))
    assert not outliers(StepData(selection=select(healthy()), context=Context()))


def test_explain_tells_them_once() -> None:
    """Where they are a finding, there is no note."""
    timeline = timeline_of(Scene(extra_network_ms=lambda step: 20 if step == 5 else 0))
    explained = explain(timeline)
    (finding,) = (it for it in explained.findings if it.code == "STEP309")
    assert finding.title.startswith("step 5 takes 14.96 ms longer")
    assert not any("longer than the median" in note for note in explained.notes)
