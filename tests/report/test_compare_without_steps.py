"""Profiles without steps: what runs less often takes less time, and is not faster for it."""

from __future__ import annotations

from counterpoint.diagnose.compare.comparison import StepDifference, compare
from counterpoint.report.document import Prose, TextTable
from counterpoint.report.explain.compare_tables import ops_section
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from recordings import Span, recording

MS = 1_000_000


def attention(calls: int) -> Timeline:
    spans = [Span("flash_fwd_kernel", at * 8 * MS, 4 * MS, module=None) for at in range(calls)]
    return assemble([recording(spans)], ["made by hand"])


def compared(a: int, b: int) -> tuple[dict[str, str], list[str]]:
    """The first row of the table of ops, by column, and the sentences below it."""
    work = compare(attention(a), attention(b)).work
    assert isinstance(work, StepDifference)
    section = ops_section(work, 10)
    shown = next(block for block in section.blocks if isinstance(block, TextTable))
    titles = [column.title for column in shown.columns]
    texts = [block.text for block in section.blocks if isinstance(block, Prose)]
    return dict(zip(titles, shown.rows[0], strict=True)), texts


def test_the_times_of_calls_and_their_number_are_told() -> None:
    row, texts = compared(34, 30)
    assert (row["calls A"], row["calls B"]) == ("34", "30")
    assert row["per call A"] == row["per call B"] == "4.000 ms"
    assert any("34 times in A and 30 times in B (-12%)" in text for text in texts)


def test_equal_work_is_not_worth_a_word() -> None:
    _, texts = compared(34, 34)
    assert not any("times in A" in text for text in texts)
