"""What the reports on the workflows have in common: runs, step times, the compiler's word."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low

from counterpoint.core.basis import Unknown
from counterpoint.pgle.proof import Complaint, ModuleUse
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Fact,
    Facts,
    Kind,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.runs import Run
from counterpoint.runs.score import Score
from counterpoint.workflow.feedback.comparison import Comparison, Verdict

_SOURCES = {
    "annotation": "the program's step annotations",
    "api": "StepProfiler",
    "log": "lines that name a step",
    "profile": "the profile",
}


def times_section(
    rows: Iterable[tuple[str, Run, Score | Unknown]], comparison: Comparison | Unknown
) -> Section:
    """Step times of runs, and what may be said of their difference."""
    cells = tuple((arm, printable(run.path.name), *_score(score)) for arm, run, score in rows)
    columns = (
        Column("", Kind.WORD),
        Column("run", Kind.NAME),
        Column("median step", Kind.NUMBER),
        Column("steps", Kind.NUMBER),
        Column("counted by", Kind.WORD),
    )
    blocks = (Table(columns=columns, rows=cells), Prose(_reach(comparison), Tone.QUIET))
    return Section("Step times", _change(comparison), blocks)


def times_line(
    without: Iterable[Score | Unknown],
    with_profile: Iterable[Score | Unknown],
    comparison: Comparison | Unknown,
) -> str:
    """The step times without and with the profile in one line, the median of each one's runs."""
    said = f"{_median(without)} without, {_median(with_profile)} with the profile"
    return f"{said}: {_change(comparison)}"


def _median(scores: Iterable[Score | Unknown]) -> str:
    known = [it.seconds for it in scores if not isinstance(it, Unknown)]
    return units.milliseconds(median_low(known) * 1e3) if known else units.UNKNOWN


def _score(score: Score | Unknown) -> tuple[str, str, str]:
    if isinstance(score, Unknown):
        return units.UNKNOWN, units.UNKNOWN, printable(score.reason)
    source = _SOURCES.get(score.source, score.source)
    return units.milliseconds(score.seconds * 1e3), units.count(score.steps), source


def _change(comparison: Comparison | Unknown) -> str:
    if isinstance(comparison, Unknown):
        return "not compared"
    way = "shorter" if comparison.change < 0 else "longer"
    if comparison.verdict is Verdict.OPEN:
        return f"{abs(comparison.change):.1%} {way}, not decided"
    return f"{comparison.verdict}: {abs(comparison.change):.1%} {way}"


def _reach(comparison: Comparison | Unknown) -> str:
    if isinstance(comparison, Unknown):
        return printable(comparison.reason)
    if isinstance(comparison.range, Unknown):
        return f"measured; {comparison.range.reason}. More pairs: --repeats 3"
    low, high = comparison.range.low, comparison.range.high
    pairs = len(comparison.without_s)
    return (
        f"measured; 95 % range of the change, from {pairs} pairs of runs: {low:+.1%} to {high:+.1%}"
    )


def compiler_facts(use: ModuleUse | None, complaints: Iterable[Complaint]) -> Facts:
    """What the compiler wrote of a module's profile, and what to do about its complaints."""
    rows: list[Fact] = []
    if use is not None:
        rows.append(Fact("module", printable(use.module)))
        if use.source:
            rows.append(Fact("took costs from", printable(use.source)))
        if use.found is not None:
            rows.append(Fact("costs", f"{use.found:,} found, {use.missing or 0:,} missing"))
        elif use.looked_up:
            rows.append(Fact("costs", f"{len(use.looked_up):,} found, {len(use.missed):,} missing"))
        if use.fallback:
            rows.append(Fact("the others by", printable(use.fallback)))
    for complaint in complaints:
        rows.append(Fact("it says", printable(complaint.text), Tone.WARNING))
        rows.append(Fact("next", printable(complaint.next), Tone.QUIET))
    return Facts(tuple(rows))
