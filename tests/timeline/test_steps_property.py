"""Any cut of any steps: what is reported is the length of a step that was seen whole."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step import step_times
from counterpoint.timeline.hosts.assemble import assemble
from recordings import NS, Span, recording

OPS = 5
BUSY = 10 * OPS

lengths = st.lists(st.integers(BUSY + 1, 4 * BUSY), min_size=1, max_size=16)
cuts = st.tuples(st.integers(0, 900), st.integers(60, 1600))


@given(lengths, cuts, st.booleans(), st.integers(0, 1000))
def test_the_reported_median_is_that_of_whole_steps(
    steps: list[int], cut: tuple[int, int], marked: bool, first: int
) -> None:
    starts = [sum(steps[:at]) for at in range(len(steps))]
    begin, end = cut[0], sum(cut)
    spans = [
        Span(f"op.{at}", start + 10 * at, 9, run=turn)
        for turn, start in enumerate(starts)
        for at in range(OPS)
        if begin <= start + 10 * at and start + 10 * at + 9 <= end
    ]
    assume(spans)
    markers = [
        (None, first + turn, start, length)
        for turn, (start, length) in enumerate(zip(starts, steps, strict=True))
        if marked and begin <= start and start + length <= end
    ]
    timeline = assemble([recording(spans, markers=markers)], ["cut"])
    found = step_times(select(timeline), "", {})
    begun = {span.start for span in spans}
    whole = {
        length
        for start, length in zip(starts, steps, strict=True)
        if begin <= start and start + length in begun
    }
    if found.median_ms is not None:
        both_middle = {one + other for one in whole for other in whole}
        assert round(2 * found.median_ms * 1e9 / NS) in both_middle
        assert found.min_ms is not None
        assert found.max_ms is not None
        assert found.min_ms <= found.median_ms <= found.max_ms
    assert (found.p10_ms is None) == (found.count < 10)
    assert (found.window == "step") == (found.median_ms is not None)
