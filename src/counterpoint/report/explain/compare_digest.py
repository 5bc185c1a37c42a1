"""The digest of `compare`: whether B is slower, and where its time differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.compare.comparison import Comparison, PartChange, StepDifference
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.compare.op_changes import OpChange
from counterpoint.diagnose.compare.side import Side
from counterpoint.diagnose.compare.step_time import StepChange
from counterpoint.report import units
from counterpoint.report.digest import Digest, DigestLine, notes, short_name
from counterpoint.report.explain.compare_document import (
    SOURCES,
    losses_answer,
    next_after_compare,
)

_TOP: Final = 5
_RARELY: Final = 90
"""The rank of lines that are kept only if there is much room."""


def compare_digest(comparison: Comparison) -> Digest:
    """Return the digest of a Comparison."""
    work = comparison.work
    lines: list[DigestLine] = [
        DigestLine(
            f"compare A {short_name(comparison.a.name)} with B {short_name(comparison.b.name)}", 0
        ),
        *(
            DigestLine(f"{name} failed: {short_name(side.name)}: {side.fault}", 0, "fault")
            for name, faults in zip("BA", reversed(comparison.faults), strict=True)
            for side in faults
        ),
        *(
            [DigestLine(f"losses: {losses_answer(comparison.losses)}", 0)]
            if not isinstance(comparison.losses, Unknown) and comparison.losses.differ
            else []
        ),
        *_step_change(comparison),
        *(
            DigestLine(
                f"different experiment: {it.what}: {it.a or 'none'} in A, {it.b or 'none'} in B", 1
            )
            for it in comparison.differs
            if it.about is DifferenceKind.EXPERIMENT
        ),
        *([] if isinstance(work, Unknown) else _work(comparison, work)),
        *(
            DigestLine(
                f"differs: {it.what}: {it.a or 'none'} in A, {it.b or 'none'} in B", 30, "setting"
            )
            for it in comparison.differs
            if it.about is not DifferenceKind.EXPERIMENT
        ),
    ]
    if isinstance(work, Unknown):
        lines.append(DigestLine(f"parts: not compared, {work.reason}", 2))
    return Digest((*lines, *notes(comparison.notes, _RARELY)), next_after_compare(comparison))


def _step_change(comparison: Comparison) -> Iterator[DigestLine]:
    step = comparison.step
    if isinstance(step, Unknown):
        yield DigestLine("step: the step times are not compared", 0)
        yield DigestLine(f"why: {step.reason}", 1)
        return
    a, b = (
        _side_step(seconds, side, timed, runs)
        for seconds, side, timed, runs in (
            (step.a_s, comparison.a, comparison.timed[0], comparison.runs[0]),
            (step.b_s, comparison.b, comparison.timed[1], comparison.runs[1]),
        )
    )
    yield DigestLine(f"step: A {a}; B {b}", 0)
    yield DigestLine(f"B against A: {_change(step)}", 0)
    if comparison.contradicted is not None:
        yield DigestLine(f"contradiction: {comparison.contradicted}", 1)


def _side_step(seconds: float, side: Side, timed: int, runs: int) -> str:
    times = side.times
    if times is None:
        return units.milliseconds(seconds * 1e3)
    counted = f"{timed} runs" if timed > 1 else counted_noun(len(times.each_s), "step")
    if timed < runs:
        counted = f"{counted}, {runs - timed} of {runs} runs not counted"
    by = SOURCES.get(times.source, times.source)
    return f"{units.milliseconds(seconds * 1e3)} [{times.basis}, {counted}, by {by}]"


def _change(step: StepChange) -> str:
    text = f"{step.change:+.2%} of A's step"
    if isinstance(step.range, Unknown):
        return f"{text}, range unknown: {step.verdict}"
    which = "assumed" if step.assumed else "95%"
    return f"{text}, {which} range {step.range.low:+.2%} to {step.range.high:+.2%}: {step.verdict}"


def _work(comparison: Comparison, work: StepDifference) -> Iterator[DigestLine]:
    basis = _basis(comparison)
    for part in (*work.parts, work.step):
        if part.a_ms or part.b_ms:
            which = _in_profile(comparison) if part is work.step else ""
            yield DigestLine(f"{part.what}{which} [{basis}]: {_both(part)}", 2, "part")
    if not isinstance(work.phases, Unknown):
        for part in work.phases:
            if part.a_ms or part.b_ms:
                yield DigestLine(f"{part.what} [{basis}]: {_both(part)}", 20, "phase")
    clear = [row for row in work.ops if row.clear]
    if not clear and work.ops:
        yield DigestLine("ops: no difference is known to exceed noise", 3)
    for at, row in enumerate(clear or work.ops[:_TOP]):
        yield DigestLine(f"op {_op(row)} [{basis}]: {_both(row)}", 4 + at, "op")


def _in_profile(comparison: Comparison) -> str:
    """Return whose step the parts add up to, if the verdict is about other steps."""
    times = [side.times for side in (comparison.a, comparison.b)]
    elsewhere = any(it is not None and it.source not in ("profile", "prediction") for it in times)
    return " of the profile, which the parts add up to" if elsewhere else ""


def _basis(comparison: Comparison) -> str:
    kinds = {
        str(it.timeline.basis) for it in (comparison.a, comparison.b) if it.timeline is not None
    }
    return " and ".join(sorted(kinds)) or "measured"


def _both(change: PartChange | OpChange) -> str:
    a, b = units.milliseconds(change.a_ms), units.milliseconds(change.b_ms)
    difference = units.column([abs(change.difference_ms)])[0]
    sign = "+" if change.difference_ms > 0 else "-" if change.difference_ms < 0 else ""
    return f"A {a}, B {b}, B-A {sign}{difference} ms"


def _op(row: OpChange) -> str:
    a, b = (items[0].op if items else "" for items in (row.match.a, row.match.b))
    if a == b or not b:
        return short_name(a) + ("" if b else " (only in A)")
    return f"{short_name(b)} (only in B)" if not a else f"{short_name(a)} > {short_name(b)}"
