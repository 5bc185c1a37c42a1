"""`compare` as JSON: `counterpoint.compare/1`, docs/reference/compare-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Annotated

import msgspec

from counterpoint.core import Unknown
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.compare.experiment import SideDifference
from counterpoint.diagnose.compare.schedule_changes import RegroupedCollectives
from counterpoint.diagnose.compare.step_time import StepChange, StepVerdict
from counterpoint.report.json import At, CountOf, Pair, ReasonUnknown, Result, fill, json_text


class FaultJson(Result):
    """A run that does not count, and why."""

    name: str
    why: Annotated[str, At("fault")]


class LossesJson(Result):
    """The largest difference between losses of B and those of the nearest run of A, as a share."""

    share: float | None
    step: int | None
    steps: int | None
    own: float | None
    differ: bool | None
    why_not: Annotated[str | None, ReasonUnknown()]


class SideJson(Result):
    """A side; of several runs, the median one."""

    name: str
    runs: int
    timed: int
    faults: tuple[FaultJson, ...]
    run: Annotated[str | None, At("run.path")]
    basis: Annotated[str | None, At("timeline.basis")]
    devices: Annotated[int | None, CountOf("timeline.devices")]
    steps: Annotated[int | None, CountOf("times.each_s")]
    median_step_ms: Annotated[float | None, At("times.median_ms")]
    steps_by: Annotated[str | None, At("times.source")]


class StepChangeJson(Result):
    """The step time of both sides."""

    a_ms: float | None
    b_ms: float | None
    change: float | None
    range: Pair | None
    range_of_steps: Annotated[Pair | None, At("of_steps")]
    verdict: str
    how: str
    assumed: bool | None
    surely_above: float | None
    order: Annotated[str | None, At("order.text")]


class ChangeJson(Result):
    """A time of both sides."""

    a_ms: float | None
    b_ms: float | None
    difference_ms: float | None


class PartJson(ChangeJson):
    """A part of the step."""

    part: Annotated[str, At("what")]


class PhaseJson(ChangeJson):
    """A phase of the busy time."""

    phase: Annotated[str, At("what")]


class StepDifferenceJson(Result):
    """The parts of a median step, or the reason why they are unknown."""

    known: bool
    why_not: Annotated[str | None, ReasonUnknown()]
    window: str | None = msgspec.field(name="of")
    step: ChangeJson | None
    busy: ChangeJson | None
    idle: ChangeJson | None
    phases_unknown: Annotated[str | None, ReasonUnknown("phases")]
    moves_unknown: Annotated[str | None, ReasonUnknown("schedule.moves")]


class OpChangeJson(ChangeJson):
    """Ops that match; a side without such an op is empty."""

    a: Annotated[tuple[str, ...], At("match.a.op")]
    b: Annotated[tuple[str, ...], At("match.b.op")]
    matched_by: Annotated[str, At("how")]
    category: Annotated[str | None, At("shown.category")]
    phase: Annotated[str | None, At("shown.phase")]
    scope: Annotated[str | None, At("shown.scope")]
    source: Annotated[str | None, At("shown.source")]
    noise_ms: float | None
    clear: bool
    a_self_ms: float | None
    b_self_ms: float | None


class CollectiveChangeJson(Result):
    """Collectives that match; pairs are A's figure and B's."""

    a: Annotated[tuple[str, ...], At("row.match.a.op")]
    b: Annotated[tuple[str, ...], At("row.match.b.op")]
    matched_by: Annotated[str, At("row.how")]
    kind: Annotated[str | None, At("row.shown.kind")]
    bytes: Annotated[int | None, At("row.volume")]
    group_size: Annotated[int | None, At("row.shown.group_size")]
    exposed_ms: tuple[float | None, float | None]
    wait_ms: tuple[float | None, float | None]
    busbw_gbps: tuple[float | None, float | None]
    clear: Annotated[bool, At("row.clear")]


class CompareMoveJson(Result):
    """A collective that moved in the schedule."""

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

    a: SideJson
    b: SideJson
    same_experiment: bool
    notes: tuple[str, ...]
    step: StepChangeJson
    losses: LossesJson
    differs: tuple[SideDifference, ...]
    same_modules: int | None
    work: StepDifferenceJson
    parts: Annotated[tuple[PartJson, ...], At("work.parts")]
    phases: Annotated[tuple[PhaseJson, ...], At("work.phases")]
    ops: Annotated[tuple[OpChangeJson, ...], At("work.ops")]
    collectives: Annotated[tuple[CollectiveChangeJson, ...], At("work.collectives")]
    regrouped: Annotated[tuple[RegroupedCollectives, ...], At("work.schedule.regrouped")]
    moves: Annotated[tuple[CompareMoveJson, ...], At("work.schedule.moves")]


def compare_json(found: Comparison) -> str:
    """Return the comparison as text, with each row of a table on a line of its own."""
    known = not isinstance(found.work, Unknown)
    return json_text(
        fill(
            Compare,
            found,
            a=_side(found, 0),
            b=_side(found, 1),
            notes=[*found.notes, *filter(None, (found.contradicted,))],
            step=_step(found.step),
            work=fill(StepDifferenceJson, found.work, known=known),
        )
    )


def _side(found: Comparison, number: int) -> SideJson:
    side = (found.a, found.b)[number]
    runs, timed, faults = (it[number] for it in (found.runs, found.timed, found.faults))
    return fill(SideJson, side, runs=runs, timed=timed, faults=faults)


def _step(step: StepChange | Unknown) -> StepChangeJson:
    if isinstance(step, Unknown):
        return fill(StepChangeJson, None, verdict=StepVerdict.UNKNOWN, how=step.reason)
    return fill(StepChangeJson, step)
