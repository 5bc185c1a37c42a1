"""`compare` as JSON: `counterpoint.compare/1`, docs/reference/compare-json.md. Nothing is cut."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from counterpoint.core import Unknown
from counterpoint.core.field import Field, Form
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.compare.experiment import SideDifference
from counterpoint.diagnose.compare.schedule_changes import RegroupedCollectives
from counterpoint.diagnose.compare.step_time import StepChange, StepVerdict
from counterpoint.report.json import At, CountOf, Pair, ReasonUnknown, Result, fill, json_text


class FaultJson(Result):
    """A run that does not count, and why."""

    name: Annotated[str, Field("the run")]
    why: Annotated[str, At("fault"), Field("why it does not count")]


class LossesJson(Result):
    """The largest difference between losses of B and those of the nearest run of A, as a share."""

    share: Annotated[
        float | None,
        Field(
            "the largest difference between a loss of B and that of the nearest run of A, as a "
            "share; null if `why_not` is not, or if one of the two is not finite"
        ),
    ]
    step: Annotated[int | None, Field("the step of that difference")]
    steps: Annotated[int | None, Field("number of steps whose losses all runs printed")]
    own: Annotated[
        float | None, Field("the largest difference between two runs of A; null: there is one")
    ]
    differ: Annotated[bool | None, Field("`share` is more than three times `own`")]
    why_not: Annotated[str | None, ReasonUnknown(), Field("why losses are not compared")]


class SideJson(Result):
    """A side; of several runs, the median one."""

    name: Annotated[
        str,
        Field(
            "as given; with several runs, the one nearest to the middle of their medians: the "
            "tables are of it"
        ),
    ]
    runs: Annotated[int, Field("number of runs of this side")]
    timed: Annotated[int, Field("number of those whose step time counts")]
    faults: Annotated[
        tuple[FaultJson, ...],
        Field(
            "runs that failed, computed NaN or made fewer steps. Unless all runs of the side are, "
            "they do not count"
        ),
    ]
    run: Annotated[str | None, At("run.path"), Field("the Run's directory")]
    basis: Annotated[
        str | None, At("timeline.basis"), Field("`measured` or `predicted`; null: no profile")
    ]
    devices: Annotated[
        int | None, CountOf("timeline.devices"), Field("number of devices in the profile")
    ]
    steps: Annotated[
        int | None, CountOf("times.each_s"), Field("number of steps whose time counts")
    ]
    median_step_ms: Annotated[
        float | None, At("times.median_ms"), Field("the median step of this run")
    ]
    steps_by: Annotated[
        str | None,
        At("times.source"),
        Field("how steps were counted: `annotation`, `api`, `log`, `profile` or `prediction`"),
    ]


class StepChangeJson(Result):
    """The step time of both sides."""

    a_ms: Annotated[
        float | None,
        Field("A's median step; with several runs, the geometric mean of their medians"),
    ]
    b_ms: Annotated[float | None, Field("the same of B")]
    change: Annotated[float | None, Field("0.03: B is 3% slower")]
    range: Annotated[Pair | None, Field("the range of `change`, including run-to-run noise")]
    range_of_steps: Annotated[
        Pair | None, At("of_steps"), Field("the range from the steps of single runs only")
    ]
    verdict: Annotated[
        str,
        Field(
            "`faster`, `slower`, `no difference`, `within what two identical runs differ by`, "
            "`tied: ...`, `not decided`, `unknown`"
        ),
    ]
    how: Annotated[str, Field("the basis of the range, or the reason why it is unknown")]
    assumed: Annotated[
        bool | None,
        Field("true: one run of each, so that no measurement shows how much runs differ"),
    ]
    surely_above: Annotated[
        float | None,
        Field(
            "several runs: `change` is above this in all but one of a hundred pairs; "
            "`--fail-above` needs it above zero"
        ),
    ]
    order: Annotated[
        str | None, At("order.text"), Field("the order in which several runs were made: `ABBA`")
    ]


class ChangeJson(Result):
    """A time of both sides."""

    COLUMNS: ClassVar = ("a_ms", "b_ms", "difference_ms")

    a_ms: Annotated[float | None, Field("time in which A's step waits for it", "A ms", Form.MS)]
    b_ms: Annotated[float | None, Field("time in which B's step waits for it", "B ms", Form.MS)]
    difference_ms: Annotated[float | None, Field("B - A", "B-A", Form.DIFFERENCE)]


class PartJson(ChangeJson):
    """A part of the step."""

    COLUMNS: ClassVar = ("part", *ChangeJson.COLUMNS)

    part: Annotated[
        str, At("what"), Field("`compute`, `exposed collective`, `exposed copy` or `idle`", "part")
    ]


class PhaseJson(ChangeJson):
    """A phase of the busy time."""

    COLUMNS: ClassVar = ("phase", *ChangeJson.COLUMNS)

    phase: Annotated[str, At("what"), Field("as in [explain](explain-json.md)", "phase")]


class StepDifferenceJson(Result):
    """The parts of a median step, or the reason why they are unknown."""

    known: Annotated[bool, Field("whether the other figures are known: they are null if not")]
    why_not: Annotated[str | None, ReasonUnknown(), Field("why they are not known")]
    window: Annotated[
        str | None,
        Field(
            "`step`; if a side has no whole step, `run`, which is one run of the step's program, "
            "or `profile`"
        ),
    ] = msgspec.field(name="of")
    step: Annotated[ChangeJson | None, Field("the step, or what stands for it")]
    busy: Annotated[ChangeJson | None, Field("the time in which anything runs")]
    idle: Annotated[ChangeJson | None, Field("the time in which nothing runs")]
    phases_unknown: Annotated[
        str | None, ReasonUnknown("phases"), Field("why phases are not known; null: they are")
    ]
    moves_unknown: Annotated[
        str | None,
        ReasonUnknown("schedule.moves"),
        Field("why moves in the schedule are not known; null: they are"),
    ]


class OpChangeJson(ChangeJson):
    """Ops that match; a side without such an op is empty."""

    a: Annotated[
        tuple[str, ...],
        At("match.a.op"),
        Field("ops of A; empty if B alone has the op"),
    ]
    b: Annotated[
        tuple[str, ...],
        At("match.b.op"),
        Field("ops of B; empty if A alone has the op"),
    ]
    matched_by: Annotated[
        str,
        At("how"),
        Field(
            "`same`, `work`, `name`, `shapes`, `looped`, `merged`, `fused`, `place`, `renamed` or "
            "`alone`"
        ),
    ]
    category: Annotated[str | None, At("shown.category"), Field("that of its most expensive op")]
    phase: Annotated[str | None, At("shown.phase"), Field("likewise")]
    scope: Annotated[str | None, At("shown.scope"), Field("likewise")]
    source: Annotated[str | None, At("shown.source"), Field("likewise")]
    noise_ms: Annotated[
        float | None,
        Field(
            "the difference that identical runs may show in any row; null: unknown, or it may "
            "explain the whole row"
        ),
    ]
    clear: Annotated[bool, Field("the difference exceeds `noise_ms` and a thousandth of the step")]
    a_self_ms: Annotated[float | None, Field("self time in A, hidden or not")]
    b_self_ms: Annotated[float | None, Field("self time in B, hidden or not")]


class CollectiveChangeJson(Result):
    """Collectives that match; pairs are A's figure and B's."""

    a: Annotated[
        tuple[str, ...], At("row.match.a.op"), Field("ops of A; empty if B alone has the op")
    ]
    b: Annotated[
        tuple[str, ...], At("row.match.b.op"), Field("ops of B; empty if A alone has the op")
    ]
    matched_by: Annotated[str, At("row.how"), Field("as in `ops`")]
    kind: Annotated[str | None, At("row.shown.kind"), Field("`all-gather`, `all-reduce`, ...")]
    bytes: Annotated[int | None, At("row.volume"), Field("of one execution; for a group, the sum")]
    group_size: Annotated[int | None, At("row.shown.group_size"), Field("participating ranks")]
    exposed_ms: Annotated[
        tuple[float | None, float | None], Field("exposed time per step, of A and of B")
    ]
    wait_ms: Annotated[
        tuple[float | None, float | None], Field("wait for the last device per step, of A and of B")
    ]
    busbw_gbps: Annotated[tuple[float | None, float | None], Field("bus bandwidth of A and of B")]
    clear: Annotated[bool, At("row.clear"), Field("as in `ops`")]


class CompareMoveJson(Result):
    """A collective that moved in the schedule."""

    COLUMNS: ClassVar = ("kind", "bytes", "source")

    a: Annotated[str, At("name_before"), Field("its name in A")]
    b: Annotated[str, At("name"), Field("its name in B")]
    kind: Annotated[str, Field("the kind of collective", "kind", rank=2)]
    bytes: Annotated[
        int | None, Field("of one execution", "size", Form.BYTES, unknown="not recorded")
    ]
    source: Annotated[str | None, Field("file:line", "source", Form.PLACE, rank=3)]
    start_shift_us: Annotated[
        float, Field("compute that the start passed, at A's prices; negative: earlier")
    ]
    within_us: Annotated[
        Pair,
        At("before.within_us", "after.within_us"),
        Field("compute between start and done, of A and of B"),
    ]
    sync: Annotated[
        tuple[bool, bool],
        At("before.sync", "after.sync"),
        Field("whether it is synchronous, in A and in B"),
    ]


class Compare(Result, tag_field="schema", tag="counterpoint.compare/1"):
    """Two runs side by side: `counterpoint compare --json`."""

    a: Annotated[SideJson, Field("the first side")]
    b: Annotated[SideJson, Field("the second side")]
    same_experiment: Annotated[bool, Field("false: chip, devices or shapes differ")]
    notes: Annotated[tuple[str, ...], Field("missing data, and limits of the figures")]
    step: Annotated[StepChangeJson, Field("step time")]
    losses: Annotated[LossesJson, Field("whether both sides printed the same losses")]
    differs: Annotated[
        tuple[SideDifference, ...], Field("differences of machine, program, settings and versions")
    ]
    same_modules: Annotated[
        int | None,
        Field(
            "number of modules that JAX passed to XLA, if both sides have the same; null: others, "
            "or unknown"
        ),
    ]
    work: Annotated[StepDifferenceJson, Field("where the time of a median step goes, if known")]
    parts: Annotated[
        tuple[PartJson, ...],
        At("work.parts"),
        Field("the step by parts"),
    ]
    phases: Annotated[
        tuple[PhaseJson, ...],
        At("work.phases"),
        Field("the busy time by phases"),
    ]
    ops: Annotated[
        tuple[OpChangeJson, ...],
        At("work.ops"),
        Field("every match; `difference_ms` adds up to that of `work.busy`"),
    ]
    collectives: Annotated[
        tuple[CollectiveChangeJson, ...],
        At("work.collectives"),
        Field("the matches that are collectives"),
    ]
    regrouped: Annotated[
        tuple[RegroupedCollectives, ...],
        At("work.schedule.regrouped"),
        Field("collectives that were combined or split"),
    ]
    moves: Annotated[
        tuple[CompareMoveJson, ...],
        At("work.schedule.moves"),
        Field("collectives that moved in the schedule"),
    ]


def compare_json(comparison: Comparison) -> str:
    """Return the comparison as text, with each row of a table on a line of its own."""
    known = not isinstance(comparison.work, Unknown)
    return json_text(
        fill(
            Compare,
            comparison,
            a=_side(comparison, 0),
            b=_side(comparison, 1),
            notes=[*comparison.notes, *filter(None, (comparison.contradicted,))],
            step=_step(comparison.step),
            work=fill(StepDifferenceJson, comparison.work, known=known),
        )
    )


def _side(comparison: Comparison, number: int) -> SideJson:
    side = (comparison.a, comparison.b)[number]
    runs, timed, faults = (
        it[number] for it in (comparison.runs, comparison.timed, comparison.faults)
    )
    return fill(SideJson, side, runs=runs, timed=timed, faults=faults)


def _step(step: StepChange | Unknown) -> StepChangeJson:
    if isinstance(step, Unknown):
        return fill(StepChangeJson, None, verdict=StepVerdict.UNKNOWN, how=step.reason)
    return fill(StepChangeJson, step)
