"""Of a capture with very many steps, some typical ones are looked into, and all are timed."""

from __future__ import annotations

import pytest

from counterpoint.diagnose import selection
from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from recordings import Span, recording

STEPS = 101
"""The last one has no end, and does not count."""


def many_steps() -> Timeline:
    """Steps of 10,000, 11,000, ... nanoseconds in mixed order; half of each computes."""
    lengths = [(step * 37 % STEPS + 10) * 1000 for step in range(STEPS)]
    starts = [sum(lengths[:step]) for step in range(STEPS)]
    times = list(zip(range(STEPS), starts, lengths, strict=True))
    spans = [Span("fusion.1", start, length // 2) for _, start, length in times]
    markers = [(0, step, start, length) for step, start, length in times]
    return assemble([recording(spans, markers=markers)], ["made.xplane.pb"])


def test_all_typical_steps_of_a_small_capture_are_looked_into() -> None:
    explanation = explain(many_steps())
    assert explanation.devices["step"].n_unique() > selection._ENOUGH_STEPS
    assert not any("typical steps" in note for note in explanation.notes)


def test_of_many_steps_a_part_is_looked_into_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = explain(many_steps())
    monkeypatch.setattr(selection, "_ENOUGH_SPANS", 1)
    explanation = explain(many_steps())
    looked, typical = selection._ENOUGH_STEPS, whole.devices["step"].n_unique()
    assert explanation.devices["step"].n_unique() == looked
    assert f"the mean of {looked} of {typical} typical steps" in " ".join(explanation.notes)
    steps = explanation.steps
    assert (steps.count, steps.median_ms) == (whole.steps.count, whole.steps.median_ms)
    assert (steps.min_ms, steps.max_ms) == (whole.steps.min_ms, whole.steps.max_ms)
    # Scaled to the median, so that the parts still add up to it; half of each step computes.
    assert explanation.breakdown is not None
    assert steps.median_ms is not None
    assert explanation.breakdown.compute_ms == pytest.approx(steps.median_ms / 2)
    assert explanation.breakdown.idle_ms == pytest.approx(steps.median_ms / 2)
