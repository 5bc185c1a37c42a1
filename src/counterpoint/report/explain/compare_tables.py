"""The tables of `compare`: parts and phases, ops, collectives, the schedule, the settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.compare.collective_changes import CollectiveChange
from counterpoint.diagnose.compare.comparison import Comparison, PartChange, StepDifference
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.compare.matching import MatchStage
from counterpoint.diagnose.compare.op_changes import OpChange
from counterpoint.diagnose.compare.schedule_changes import RegroupedCollectives, ScheduleChanges
from counterpoint.diagnose.selection import WindowKind
from counterpoint.pgle.applying.movement import CollectiveMove
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    CellColumn,
    Prose,
    Section,
    TextTable,
    Tone,
    names,
    numbers,
    places,
    table,
    words,
)
from counterpoint.report.explain.compare_json import (
    ChangeJson,
    CompareMoveJson,
    PartJson,
    PhaseJson,
)
from counterpoint.report.places import distinct, short_path
from counterpoint.timeline.kernel_names import kernel_label

_NAME: Final = 40
_PAIR: Final = 84
_NOISY: Final = 3
_HOW: Final = {
    MatchStage.LOOPED: "loop rolled up",
    MatchStage.SAME: "",
    MatchStage.NAME: "by name",
    MatchStage.WORK: "same work",
    MatchStage.SHAPES: "other shapes",
    MatchStage.MERGED: "combined",
    MatchStage.FUSED: "fused",
    MatchStage.PLACE: "same place",
    MatchStage.RENAMED: "renamed",
}
_Pair = Callable[[CollectiveChange], tuple[float | None, float | None]]
_SAME_WORK: Final = 0.02
"""Executions may differ by this share where profiles begin and end within an iteration."""

_ABSENT: Final = "-"  # does not run on this side, so there is nothing to know


def changes_table(
    kind: type[PartJson | PhaseJson], changes: Sequence[PartChange], total: PartChange
) -> TextTable:
    """Return parts or phases that add up to a total."""
    return with_total(table(*field_columns(kind, [*changes, total])))


def with_total(all_: TextTable) -> TextTable:
    """Return the table with its last row as the total."""
    return replace(all_, rows=all_.rows[:-1], total=all_.rows[-1])


def ops_section(work: StepDifference, top: int, *, alone: bool = False) -> Section:
    """Return the ops that are clearly slower or faster, removed or new, with the rest in one row.

    If no difference is clear, the largest are shown. `alone`: there is one run per side.
    """
    cells = units.differences([*(row.difference_ms for row in work.ops), work.busy.difference_ms])
    seen = [row for row, cell in zip(work.ops, cells, strict=False) if cell != "0"]
    listed = [row for row in seen if row.clear][:top] or seen[: min(top, _NOISY)]
    shown = {id(row) for row in listed}
    others = [row for row in work.ops if id(row) not in shown]
    whole = work.window is WindowKind.PROFILE
    blocks: list[TextTable | Prose] = [_ops_table(listed, others, work.busy, per_call=whole)]
    if whole and (text := _other_work(work)):
        blocks.append(Prose(text, Tone.QUIET))
    for side, name in enumerate("AB"):
        count, ms = _alone(work, side)
        if count:
            text = f"only in {name}: {counted_noun(count, 'op')}, {units.milliseconds(ms)}"
            blocks.append(Prose(text, Tone.QUIET))
    if alone and any(row.noise_ms is None for row in work.ops):
        text = f"{units.UNKNOWN}: one run each can't separate a difference from noise; several can:"
        blocks.append(Prose(f"{text} counterpoint compare A1 A2 --with B1 B2", Tone.QUIET))
    return Section("Ops", _differ(work.ops), tuple(blocks))


def _differ(rows: Sequence[OpChange]) -> str:
    """Describe how many rows differ by more than noise, or that the noise is unknown."""
    clear = sum(row.clear for row in rows)
    unknown = sum(row.noise_ms is None for row in rows)
    if unknown and not clear:
        some = "" if unknown == len(rows) else f" for {unknown:,} of {len(rows):,}"
        return f"the noise is unknown{some}"
    text = f"{clear:,} of {len(rows):,} differ" if clear else "none differs"
    text = f"{text} by more than noise"
    return f"{text}; unknown for {unknown:,}" if unknown else text


def _alone(work: StepDifference, side: int) -> tuple[int, float]:
    rows = [row for row in work.ops if row.how is MatchStage.ALONE]
    of_side = [row for row in rows if (row.match.a, row.match.b)[side]]
    return len(of_side), math.fsum((row.a_ms, row.b_ms)[side] for row in of_side)


def _ops_table(
    listed: Sequence[OpChange], others: Sequence[OpChange], busy: PartChange, *, per_call: bool
) -> TextTable:
    """Return the table of ops; `per_call`: profiles without steps may hold more or less work."""
    rest = PartChange(
        counted_noun(len(others), "other"),
        math.fsum(row.a_ms for row in others),
        math.fsum(row.b_ms for row in others),
    )
    tail = [rest, PartChange("busy", busy.a_ms, busy.b_ms)]
    ops = distinct([_names(row) for row in listed], _PAIR)
    return with_total(
        table(
            names("op", [*ops, *(change.what for change in tail)]),
            words("match", [*(_how(row) for row in listed), "", ""], 1),
            words("category", [*(row.shown.category for row in listed), "", ""], 2),
            *field_columns(ChangeJson, [*listed, *tail]),
            *(_calls(listed, len(tail)) if per_call else ()),
            numbers("noise", [*units.column(row.noise_ms for row in listed), "", ""], 2),
            words("phase", [*(row.shown.phase or "" for row in listed), "", ""], 3),
            places("source", [*(_place(row) for row in listed), "", ""], 1),
        )
    )


def _calls(listed: Sequence[OpChange], more: int) -> Iterator[CellColumn]:
    """Yield how often each op runs, and what one execution takes on both sides."""
    blank = [""] * more
    for side, name in enumerate("AB"):
        counts = [row.calls[side] for row in listed]
        times = [(row.a_self_ms, row.b_self_ms)[side] for row in listed]
        each = [ms / count if count else None for ms, count in zip(times, counts, strict=True)]
        yield numbers(f"calls {name}", [*(f"{count:,.0f}" for count in counts), *blank])
        cells = [_ABSENT if ms is None else units.milliseconds(ms) for ms in each]
        yield numbers(f"per call {name}", [*cells, *blank])


def _other_work(work: StepDifference) -> str:
    a, b = work.calls
    if not a or not b or abs(b - a) <= _SAME_WORK * max(a, b):
        return ""
    return (
        f"ops of both run {a:,.0f} times in A and {b:,.0f} times in B ({(b - a) / a:+.0%}): the"
        " profiles differ by the work that they hold, too; compare the times of a call"
    )


def _names(row: OpChange) -> str:
    """Return `fusion.3`, or which ops became which: `2 ops (fusion.3, ...) > fusion.9`."""
    a, b = (_some([kernel_label(op.op) for op in items]) for items in (row.match.a, row.match.b))
    return a if a == b or not b else b if not a else f"{a} > {b}"


def _some(ops: Sequence[str]) -> str:
    first = ops[0] if ops else ""
    return first if len(ops) < 2 else f"{len(ops)} ops ({first}, …)"


def _how(row: OpChange) -> str:
    if row.how is MatchStage.ALONE:
        return "only in A" if row.match.a else "only in B"
    if row.how is MatchStage.MERGED:
        return "split" if len(row.match.a) < len(row.match.b) else "combined"
    if row.how is MatchStage.LOOPED and len(row.match.a) < len(row.match.b):
        return "loop unrolled"
    if row.how is MatchStage.FUSED and len(row.match.a) < len(row.match.b):
        return "no longer fused"
    return _HOW[row.how]


def _place(row: OpChange) -> str:
    where = row.shown.source or row.shown.scope
    return short_path(where) if where else units.UNKNOWN


def collectives_section(work: StepDifference, top: int) -> Section:
    """Return the collectives whose exposed time changed most."""
    if not work.collectives:
        return Section("Collectives", "none ran in a step")
    rows = work.collectives[:top]
    exposed_a, exposed_b = _both(rows, lambda change: change.exposed_ms)
    wait_a, wait_b = _both(rows, lambda change: change.wait_ms)
    bus_a, bus_b = _both(rows, lambda change: change.busbw_gbps, 1)
    collectives = table(
        names("collective", distinct([_names(change.row) for change in rows], _PAIR)),
        words("match", [_how(change.row) for change in rows], 2),
        words("kind", [change.row.shown.kind or units.UNKNOWN for change in rows], 4),
        numbers("size", [units.size(change.row.volume) for change in rows], 1),
        numbers("ranks", [units.count(change.row.shown.group_size) for change in rows], 3),
        numbers("exposed A", exposed_a),
        numbers("B", exposed_b),
        numbers("B-A", _exposed_more(rows)),
        numbers("wait A", wait_a, 2),
        numbers("B", wait_b, 2),
        numbers("bus GB/s A", bus_a, 1),
        numbers("B", bus_b, 1),
    )
    summary = f"{_differ([change.row for change in work.collectives])}; times in ms"
    return Section("Collectives", summary, (collectives,))


def _exposed_more(rows: Sequence[CollectiveChange]) -> list[str]:
    """Return B-A of the exposed time; a side without the collective counts as 0."""
    more: list[float | None] = []
    for change in rows:
        sides = zip(change.exposed_ms, (change.row.match.a, change.row.match.b), strict=True)
        a, b = (ms if items else 0.0 for ms, items in sides)
        more.append(None if a is None or b is None else b - a)
    return units.differences(more)


def _both(
    rows: Sequence[CollectiveChange], of: _Pair, decimals: int | None = None
) -> list[list[str]]:
    return [
        [
            cell if (change.row.match.a, change.row.match.b)[side] else _ABSENT
            for change, cell in zip(
                rows, units.column((of(change)[side] for change in rows), decimals), strict=True
            )
        ]
        for side in (0, 1)
    ]


def schedule_section(schedule: ScheduleChanges, top: int) -> Section:
    """Return combined and split collectives, those now sync or async, and those that moved."""
    blocks: list[TextTable | Prose] = []
    if schedule.regrouped:
        blocks.append(_regrouped(schedule.regrouped[:top]))
    if isinstance(schedule.moves, Unknown):
        blocks.append(Prose(schedule.moves.reason, Tone.QUIET))
        return Section("Schedule", "moves are unknown", tuple(blocks))
    if schedule.moves:
        blocks.append(_moves(schedule.moves[:top]))
        blocks.append(
            Prose("moves are measured in compute passed, with the times of A", Tone.QUIET)
        )
    return Section("Schedule", _moved(schedule, len(schedule.moves)), tuple(blocks))


def _moved(schedule: ScheduleChanges, moved: int) -> str:
    texts = [f"{moved:,} of {schedule.compared:,} collectives moved" if moved else ""]
    for count, what in (
        (len(schedule.regrouped), "combined or split"),
        (len(schedule.now_async), "now async"),
        (len(schedule.now_sync), "now sync"),
    ):
        texts.append(f"{count:,} {what}" if count else "")
    return ", ".join(filter(None, texts)) or "no collective moved"


def _regrouped(regrouped: Sequence[RegroupedCollectives]) -> TextTable:
    return table(
        names("in A", distinct([_some(group.a) for group in regrouped], _NAME)),
        names("in B", distinct([_some(group.b) for group in regrouped], _NAME)),
        *field_columns(RegroupedCollectives, regrouped, ["kind", "bytes"]),
    )


def _moves(moves: Sequence[CollectiveMove]) -> TextTable:
    syncs = [(move.before.sync, move.after.sync) for move in moves]
    now = {(True, False): "async", (False, True): "sync"}
    return table(
        names("collective in B", distinct([move.name for move in moves], _NAME)),
        *field_columns(CompareMoveJson, moves, ["kind"]),
        words("starts", [units.shift(move.start_shift_us, "as in A") for move in moves]),
        numbers("compute within A, us", [f"{move.before.within_us:,.1f}" for move in moves]),
        numbers("B", [f"{move.after.within_us:,.1f}" for move in moves]),
        words("now", [now.get(sync, "") for sync in syncs], 1),
        *field_columns(CompareMoveJson, moves, ["source"]),
    )


_RECORDED: Final = "none known to differ; a Run records more than a profile"
_WHAT_IS_RECORDED: Final = (
    "a Run records the variables of JAX, XLA, libtpu, NCCL, CUDA and TensorFlow, and those that"
    " `run` sets; others, which a program may read, are not compared, nor is its source"
)


def differs_section(comparison: Comparison, top: int) -> Section:
    """Return the settings, versions and other facts that differ between the sides."""
    rows = [
        differs for differs in comparison.differs if differs.about is not DifferenceKind.EXPERIMENT
    ]
    known = comparison.a.run is not None and comparison.b.run is not None
    blocks = (Prose(_WHAT_IS_RECORDED, Tone.QUIET),) if known else ()
    same = ""
    if comparison.same_modules is not None:
        passed = counted_noun(comparison.same_modules, "module")
        same = f"; JAX passed the same {passed} to XLA on both sides"
    if not rows:
        text = "none of those recorded differ" if known else _RECORDED
        return Section("Settings and versions", f"{text}{same}", blocks)
    shown = rows[: 2 * top]
    values = table(
        words("about", [str(differs.about) for differs in shown]),
        names("what", [differs.what for differs in shown]),
        words("A", [_value(differs.a) for differs in shown]),
        words("B", [_value(differs.b) for differs in shown]),
    )
    summary = f"{len(rows):,} differ{'s' * (len(rows) == 1)}" + (
        "" if len(rows) <= 2 * top else f", {2 * top} shown"
    )
    return Section("Settings and versions", f"{summary}{same}", (values, *blocks))


def _value(text: str | None) -> str:
    return "not given" if text is None else text
