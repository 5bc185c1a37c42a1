"""A profile of any part of a training: no figure of a step comes from a run that it cuts off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.selection import WindowKind
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.terminal import plain_text
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram, Timeline
from golden_sections import Said
from hand_made import compute, entry
from recordings import Span, recording

OPS = 40
OP_NS, STEP_NS, RUNS = 1_000, 45_000, 6
HLO = "HloModule jit_step, is_scheduled=true\n" + entry(*(compute(f"op.{n}") for n in range(OPS)))


def cut(
    begin: int, end: int, *, devices: int = 2, hlo: bool = True, keyed: bool = True
) -> Timeline:
    """What a profile from `begin` to `end` holds of six runs of forty ops; one device is late."""
    spans = [
        Span(f"op.{n}", start, OP_NS, device=device, line=device, run=run if keyed else None)
        for device in range(devices)
        for run in range(RUNS)
        for n in range(OPS)
        if begin <= (start := run * STEP_NS + n * OP_NS + 300 * device) and start + OP_NS <= end
    ]
    programs = {"jit_step": EmbeddedProgram("jit_step", HLO.encode)} if hlo else {}
    return assemble([recording(spans, devices=devices, programs=programs)], ["cut.xplane.pb"])


@pytest.mark.system
@given(
    begin=st.integers(0, RUNS * STEP_NS),
    length=st.integers(5 * OP_NS, RUNS * STEP_NS),
    hlo=st.booleans(),
    keyed=st.booleans(),
)
def test_whatever_is_recorded_a_step_is_a_step_and_a_run_a_run(
    begin: int, length: int, hlo: bool, keyed: bool
) -> None:
    timeline = cut(begin, begin + length, hlo=hlo, keyed=keyed)
    if len(timeline.spans) == 0:
        return
    explanation = explain(timeline)
    steps = explanation.steps
    if steps.window is WindowKind.STEP:
        assert steps.median_ms == pytest.approx(STEP_NS / 1e6)
        assert set(explanation.ops["count"].to_list()) == {1.0}
    elif steps.window is WindowKind.RUN and hlo:  # without HLO, nobody knows what is missing
        edges = 2 * 3 * OP_NS  # what may be missing before a run counts as cut off
        assert steps.window_ms is not None
        assert steps.window_ms * 1e6 >= OPS * OP_NS - edges


def test_a_run_that_is_cut_off_does_not_stand_for_a_step(said: Said) -> None:
    both = cut(
        20 * OP_NS, STEP_NS + 20 * OP_NS
    )  # the end of one run, and the beginning of the next
    explanation = explain(both)
    assert explanation.steps.median_ms is None
    assert explanation.steps.window is WindowKind.PROFILE
    said(plain_text(explain_document(explanation)).partition("\nWhere")[0])


def test_of_runs_beside_one_that_is_cut_off_the_whole_one_is_described() -> None:
    late = cut(20 * OP_NS, STEP_NS + 42 * OP_NS)
    steps = explain(late).steps
    assert steps.window is WindowKind.RUN
    assert steps.window_ms == pytest.approx(OPS * OP_NS / 1e6)
