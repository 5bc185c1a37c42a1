"""The tables of `compare`: parts and phases, ops, collectives, the schedule, the settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.compare import (
    CollectiveChange,
    Comparison,
    DifferenceKind,
    MatchStage,
    OpChange,
    PartChange,
    RegroupedCollectives,
    ScheduleChanges,
    StepDifference,
)
from counterpoint.pgle.applying import CollectiveMove, displayed_us
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.places import distinct, short_path

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
_THREE: Final = (
    Column("A ms", ColumnKind.NUMBER),
    Column("B ms", ColumnKind.NUMBER),
    Column("B-A", ColumnKind.NUMBER),
)


def changes_table(title: str, changes: Sequence[PartChange], total: PartChange) -> TextTable:
    """Return parts that add up to a total."""
    all_ = [*changes, total]
    cells = (
        [change.what for change in all_],
        units.column(change.a_ms for change in all_),
        units.column(change.b_ms for change in all_),
        signed([change.difference_ms for change in all_]),
    )
    rows = tuple(zip(*cells, strict=True))
    return TextTable(
        columns=(Column(title, ColumnKind.WORD), *_THREE), rows=rows[:-1], total=rows[-1]
    )


def signed(values: Sequence[float]) -> list[str]:
    """Format a column of differences with their signs; 0 if none of its digits is visible."""
    decimals = units.decimals_of(values)
    seen = [0.0 if abs(value) < 0.5 * 10**-decimals else value for value in values]
    return [f"{value:+,.{decimals}f}" if value else "0" for value in seen]


def ops_section(work: StepDifference, top: int, *, alone: bool = False) -> Section:
    """Return the ops that are clearly slower or faster, removed or new; the rest in one row.

    If none is clear, the largest differences are shown and marked as such. `alone`: one run per
    side.
    """
    clear = [row for row in work.ops if row.clear]
    listed = clear[:top] or work.ops[: min(top, _NOISY)]
    shown = {id(row) for row in listed}
    others = [row for row in work.ops if id(row) not in shown]
    blocks: list[TextTable | Prose] = [_ops_table(listed, others, work.busy)]
    for side, name in enumerate("AB"):
        count, ms = _alone(work, side)
        if count:
            ops = "op" if count == 1 else "ops"
            text = f"only in {name}: {count:,} {ops}, {units.milliseconds(ms)}"
            blocks.append(Prose(text, Tone.QUIET))
    if alone and any(row.noise_ms is None for row in work.ops):
        text = f"{units.UNKNOWN}: one run each can't separate a difference from noise; several can:"
        blocks.append(Prose(f"{text} counterpoint compare A1 A2 --with B1 B2", Tone.QUIET))
    return Section("Ops", _differ(work.ops), tuple(blocks))


def _differ(rows: Sequence[OpChange]) -> str:
    """Describe how many rows differ by more than noise, or that the noise is unknown."""
    clear = sum(row.clear for row in rows)
    unknown = sum(row.noise_ms is None for row in rows)
    if unknown == len(rows) or (unknown and not clear):
        return "the noise is unknown"
    text = f"{clear:,} of {len(rows):,} differ" if clear else "none differs"
    text = f"{text} by more than noise"
    return f"{text}; unknown for {unknown:,}" if unknown else text


def _alone(work: StepDifference, side: int) -> tuple[int, float]:
    rows = [row for row in work.ops if row.how is MatchStage.ALONE]
    of_side = [row for row in rows if (row.match.a, row.match.b)[side]]
    return len(of_side), math.fsum((row.a_ms, row.b_ms)[side] for row in of_side)


def _ops_table(
    listed: Sequence[OpChange], others: Sequence[OpChange], busy: PartChange
) -> TextTable:
    rest = PartChange(
        f"{len(others):,} others",
        math.fsum(row.a_ms for row in others),
        math.fsum(row.b_ms for row in others),
    )
    tail = [rest, PartChange("busy", busy.a_ms, busy.b_ms)]
    cells = (
        [*distinct([_names(row) for row in listed], _PAIR), *(change.what for change in tail)],
        [*(_how(row) for row in listed), "", ""],
        [*(row.shown.category for row in listed), "", ""],
        units.column([*(row.a_ms for row in listed), *(change.a_ms for change in tail)]),
        units.column([*(row.b_ms for row in listed), *(change.b_ms for change in tail)]),
        signed([*(r.difference_ms for r in listed), *(change.difference_ms for change in tail)]),
        [*units.column(row.noise_ms for row in listed), "", ""],
        [*(row.shown.phase or "" for row in listed), "", ""],
        [*(_place(row) for row in listed), "", ""],
    )
    rows = tuple(zip(*cells, strict=True))
    columns = (
        Column("op", ColumnKind.NAME),
        Column("match", ColumnKind.WORD, 1),
        Column("category", ColumnKind.WORD, 2),
        *_THREE,
        Column("noise", ColumnKind.NUMBER, 2),
        Column("phase", ColumnKind.WORD, 3),
        Column("source", ColumnKind.PLACE, 1),
    )
    return TextTable(columns=columns, rows=rows[:-1], total=rows[-1])


def _names(row: OpChange) -> str:
    """Return `fusion.3`, or which ops became which: `2 ops (fusion.3, ...) > fusion.9`."""
    a, b = (_some([op.op for op in items]) for items in (row.match.a, row.match.b))
    return a if a == b or not b else b if not a else f"{a} > {b}"


def _some(ops: Sequence[str]) -> str:
    first = printable(ops[0]) if ops else ""
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
    return printable(short_path(where)) if where else units.UNKNOWN


def collectives_section(work: StepDifference, top: int) -> Section:
    """Return the collectives whose exposed time changed most."""
    if not work.collectives:
        return Section("Collectives", "none ran in a step")
    rows = work.collectives[:top]
    columns = (
        Column("collective", ColumnKind.NAME),
        Column("match", ColumnKind.WORD, 2),
        Column("kind", ColumnKind.WORD, 4),
        Column("size", ColumnKind.NUMBER, 1),
        Column("ranks", ColumnKind.NUMBER, 3),
        Column("exposed A", ColumnKind.NUMBER),
        Column("B", ColumnKind.NUMBER),
        Column("B-A", ColumnKind.NUMBER),
        Column("wait A", ColumnKind.NUMBER, 2),
        Column("B", ColumnKind.NUMBER, 2),
        Column("bus GB/s A", ColumnKind.NUMBER, 1),
        Column("B", ColumnKind.NUMBER, 1),
    )
    cells = (
        distinct([_names(network.row) for network in rows], _PAIR),
        [_how(network.row) for network in rows],
        [network.row.shown.kind or units.UNKNOWN for network in rows],
        [units.size(network.row.volume) for network in rows],
        [units.count(network.row.shown.group_size) for network in rows],
        *_both(rows, lambda network: network.exposed_ms),
        _exposed_more(rows),
        *_both(rows, lambda network: network.wait_ms),
        *_both(rows, lambda network: network.busbw_gbps, 1),
    )
    summary = f"{_differ([network.row for network in work.collectives])}; times in ms"
    table = TextTable(columns=columns, rows=tuple(zip(*cells, strict=True)))
    return Section("Collectives", summary, (table,))


def _exposed_more(rows: Sequence[CollectiveChange]) -> list[str]:
    """Return B-A of the exposed time; a side without the collective counts as 0."""
    known: list[float] = []
    for network in rows:
        sides = zip(network.exposed_ms, (network.row.match.a, network.row.match.b), strict=True)
        a, b = (ms if items else 0.0 for ms, items in sides)
        known.append(math.nan if a is None or b is None else b - a)
    cells = iter(signed([difference for difference in known if not math.isnan(difference)]))
    return [units.UNKNOWN if math.isnan(difference) else next(cells) for difference in known]


_Pair = Callable[[CollectiveChange], tuple[float | None, float | None]]
_ABSENT: Final = "-"  # does not run on this side, so there is nothing to know


def _both(
    rows: Sequence[CollectiveChange], of: _Pair, decimals: int | None = None
) -> list[list[str]]:
    return [
        [
            cell if (network.row.match.a, network.row.match.b)[side] else _ABSENT
            for network, cell in zip(
                rows, units.column((of(network)[side] for network in rows), decimals), strict=True
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
        blocks.append(Prose(printable(schedule.moves.reason), Tone.QUIET))
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
    columns = (
        Column("in A", ColumnKind.NAME),
        Column("in B", ColumnKind.NAME),
        Column("kind", ColumnKind.WORD),
        Column("bytes per step", ColumnKind.NUMBER),
    )
    a = distinct([_some(group.a) for group in regrouped], _NAME)
    b = distinct([_some(group.b) for group in regrouped], _NAME)
    rows = tuple(
        (was, became, group.kind, units.size(group.bytes))
        for was, became, group in zip(a, b, regrouped, strict=True)
    )
    return TextTable(columns=columns, rows=rows)


def _moves(moves: Sequence[CollectiveMove]) -> TextTable:
    columns = (
        Column("collective in B", ColumnKind.NAME),
        Column("kind", ColumnKind.WORD, 2),
        Column("starts", ColumnKind.WORD),
        Column("compute within A, us", ColumnKind.NUMBER),
        Column("B", ColumnKind.NUMBER),
        Column("now", ColumnKind.WORD, 1),
        Column("source", ColumnKind.PLACE, 3),
    )
    names = distinct([move.name for move in moves], _NAME)
    return TextTable(columns=columns, rows=tuple(map(_move, moves, names)))


def _move(move: CollectiveMove, name: str) -> tuple[str, ...]:
    us = move.start_shift_us
    shift = f"{abs(us):,.1f} us {'earlier' if us < 0 else 'later'}"
    sync = (move.before.sync, move.after.sync)
    return (
        printable(name),
        move.kind,
        shift if displayed_us(us) else "as in A",
        f"{move.before.within_us:,.1f}",
        f"{move.after.within_us:,.1f}",
        {(True, False): "async", (False, True): "sync"}.get(sync, ""),
        printable(short_path(move.source or "")),
    )


def differs_section(found: Comparison, top: int) -> Section:
    """Return the settings, versions and other facts that differ."""
    rows = [differs for differs in found.differs if differs.about is not DifferenceKind.EXPERIMENT]
    known = found.a.run is not None and found.b.run is not None
    if not rows:
        text = "none differ" if known else "none known to differ; a Run records more than a profile"
        return Section("Settings and versions", text)
    columns = (
        Column("about", ColumnKind.WORD),
        Column("what", ColumnKind.NAME),
        Column("A", ColumnKind.WORD),
        Column("B", ColumnKind.WORD),
    )
    cells = tuple(
        (str(differs.about), printable(differs.what), _value(differs.a), _value(differs.b))
        for differs in rows[: 2 * top]
    )
    summary = f"{len(rows):,} differ" + ("" if len(rows) <= 2 * top else f", {2 * top} shown")
    return Section("Settings and versions", summary, (TextTable(columns=columns, rows=cells),))


def _value(text: str | None) -> str:
    return "not given" if text is None else printable(text)
