"""`compare` as JSON: `counterpoint.compare/1`, docs/reference/compare-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Annotated

import msgspec

from counterpoint.core import Unknown
from counterpoint.diagnose.compare import Comparison, Network, Row, Side, StepChange, Verdict
from counterpoint.report.json import At, Pair, Result, Why, fill, json_text


class SideRead(Result):
    """A side, of several runs the one in the middle."""

    name: str
    runs: int
    run: Annotated[str | None, At("run.path")]
    basis: Annotated[str | None, At("timeline.basis")]
    devices: int | None
    steps: int | None
    median_step_ms: Annotated[float | None, At("times.median_ms")]
    steps_by: Annotated[str | None, At("times.source")]


class StepTimes(Result):
    """The step time of both sides."""

    a_ms: float | None
    b_ms: float | None
    change: float | None
    range: Pair | None
    range_of_steps: Annotated[Pair | None, At("of_steps")]
    verdict: str
    how: str


class Differs(Result):
    """What differs around the step; null: not given."""

    about: str
    what: str
    a: str | None
    b: str | None


class Times(Result):
    """A time of both sides."""

    a_ms: float | None
    b_ms: float | None
    difference_ms: float | None


class Part(Times):
    """A part of the step."""

    part: Annotated[str, At("what")]


class Phase(Times):
    """A phase of the busy time."""

    phase: Annotated[str, At("what")]


class WorkKnown(Result):
    """Where the time of a median step goes, or why that is not known."""

    known: bool
    why_not: str | None
    window: str | None = msgspec.field(name="of")
    step: Times | None
    busy: Times | None
    idle: Times | None
    phases_unknown: Annotated[str | None, Why("phases")]
    moves_unknown: Annotated[str | None, Why("schedule.moves")]


class Ops(Times):
    """Ops that match; an empty side has none."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    matched_by: Annotated[str, At("how")]
    category: Annotated[str | None, At("shown.category")]
    phase: Annotated[str | None, At("shown.phase")]
    scope: Annotated[str | None, At("shown.scope")]
    source: Annotated[str | None, At("shown.source")]
    noise_ms: float | None
    clear: bool
    a_self_ms: float | None
    b_self_ms: float | None


class Collective(Result):
    """Collectives that match; pairs are A's figure and B's."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    matched_by: Annotated[str, At("row.how")]
    kind: Annotated[str | None, At("row.shown.kind")]
    bytes: Annotated[int | None, At("row.volume")]
    group_size: Annotated[int | None, At("row.shown.group_size")]
    exposed_ms: tuple[float | None, float | None]
    wait_ms: tuple[float | None, float | None]
    busbw_gbps: tuple[float | None, float | None]
    clear: Annotated[bool, At("row.clear")]


class Regrouped(Result):
    """Collectives that were combined or split."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    kind: str
    bytes: int | None


class Move(Result):
    """A collective that stands elsewhere in the schedule."""

    a: Annotated[str, At("name_before")]
    b: Annotated[str, At("name")]
    kind: str
    bytes: int | None
    source: str | None
    start_shift_us: float
    within_us: Annotated[Pair, At("before.within_us", "after.within_us")]
    sync: Annotated[tuple[bool, bool], At("before.sync", "after.sync")]


class Compare(Result, tag_field="schema", tag="counterpoint.compare/1"):
    """Two runs side by side: `counterpoint compare --json`."""

    a: SideRead
    b: SideRead
    same_experiment: bool
    notes: tuple[str, ...]
    step: StepTimes
    differs: tuple[Differs, ...]
    work: WorkKnown
    parts: Annotated[tuple[Part, ...], At("work.parts")]
    phases: Annotated[tuple[Phase, ...], At("work.phases")]
    ops: tuple[Ops, ...]
    collectives: tuple[Collective, ...]
    regrouped: Annotated[tuple[Regrouped, ...], At("work.schedule.regrouped")]
    moves: Annotated[tuple[Move, ...], At("work.schedule.moves")]


def compare_json(found: Comparison) -> str:
    """Return the comparison as text, with each row of a table on a line of its own."""
    work = None if isinstance(found.work, Unknown) else found.work
    return json_text(
        fill(
            Compare,
            found,
            a=_side(found.a, found.runs[0]),
            b=_side(found.b, found.runs[1]),
            notes=[*found.notes, *filter(None, (found.contradicted,))],
            step=_step(found.step),
            work=fill(
                WorkKnown,
                work,
                known=work is not None,
                why_not=found.work.reason if isinstance(found.work, Unknown) else None,
            ),
            ops=[] if work is None else [_ops(row) for row in work.ops],
            collectives=[]
            if work is None
            else [_collective(network) for network in work.collectives],
        )
    )


def _side(side: Side, runs: int) -> SideRead:
    return fill(
        SideRead,
        side,
        runs=runs,
        devices=None if side.timeline is None else len(side.timeline.devices),
        steps=None if side.times is None else len(side.times.each_s),
    )


def _step(step: StepChange | Unknown) -> StepTimes:
    if isinstance(step, Unknown):
        return fill(StepTimes, None, verdict=Verdict.UNKNOWN, how=step.reason)
    return fill(StepTimes, step)


def _ops(row: Row) -> Ops:
    return fill(Ops, row, a=[op.op for op in row.match.a], b=[op.op for op in row.match.b])


def _collective(network: Network) -> Collective:
    match = network.row.match
    return fill(Collective, network, a=[op.op for op in match.a], b=[op.op for op in match.b])
