"""The tables of `tune`: arms as measured or as predicted, and what each change brings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core import Range
from counterpoint.report import units
from counterpoint.report.document import (
    Block,
    Column,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.report.words import gain_text, plain, reach_text, several
from counterpoint.tune import Arm
from counterpoint.tune.conclusion import ArmRow, Conclusion
from counterpoint.tune.journal import Ablated

_HASH: Final = 8
_REASONS: Final = 12
_NOT_SO: Final = "-"
_NAMES: Final = 6
_APART: Final = 4
"""So many reasons that differ in figures alone are told one by one."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_QUIET: Final = ("same program", "not predictable", "not looked at")
"""Reasons that come last: nothing went wrong."""


def arms_section(conclusion: Conclusion, top: int) -> Iterator[Section]:
    """All arms, as they stand; of more than `top`, the first."""
    if not conclusion.rows:
        return
    apart = [it for it in conclusion.rows if it.status != _QUIET[0]]  # told below, by their names
    shown = apart[:top]
    count = sum(not it.arm.is_base for it in conclusion.rows)
    summary = f"{several(count, 'arm')} against the base{_kinds(conclusion)}"
    if len(shown) < len(apart):
        rows = f"the first {len(shown)} rows of {len(apart)}"
        summary += f"; {rows}, all with --top {len(apart)}"
    if others := len(conclusion.rows) - len(apart):
        summary += f"; {several(others, 'arm')} with the program of another below the table"
    measured = conclusion.basis != "predicted"
    table = _measured(shown) if measured else _predicted(shown, conclusion.winner)
    blocks: list[Block] = [table, *_reasons(conclusion.rows)]
    if conclusion.left_out:
        told = [f"{it.name}: {it.why}" for it in conclusion.left_out]
        blocks.append(Facts(tuple(Fact("left out", printable(it)) for it in told)))
        summary += f"; {several(len(told), 'named arm')} left out"
    yield Section("Arms", summary, tuple(blocks))


def _kinds(conclusion: Conclusion) -> str:
    """Of a prediction: how many were predicted, and what became of the others."""
    if conclusion.basis != "predicted":
        return ""
    others = [it for it in conclusion.rows if not it.arm.is_base]
    known = sum(it.arm.predicted is not None for it in others)
    silent = [it.status for it in others if it.arm.predicted is None]
    kinds = Counter("not predictable" if it == "worth a trial" else it for it in silent)
    return ": " + ", ".join([f"{known} predicted", *(f"{n} {it}" for it, n in kinds.items())])


def _measured(rows: Iterable[ArmRow]) -> Table:
    rows = tuple(rows)
    bases = [it.told.base_s if it.told is not None else None for it in rows]
    figures = [None if it is None else it * 1e3 for it in (*(row.step_s for row in rows), *bases)]
    decimals = units.decimals_of([it for it in figures if it is not None])
    decimals = min(decimals + 1, 5)  # a gain of a tenth of a percent shows in them
    shown = [_NOT_SO if it is None else units.column([it], decimals)[0] for it in figures]
    steps = list(zip(shown[: len(rows)], shown[len(rows) :], strict=True))
    foreseen = any(it.arm.predicted is not None for it in rows)
    compared = any(it.prediction_off is not None for it in rows)
    columns = (
        Column("arm", Kind.LABEL),
        Column("status", Kind.WORD),
        Column("gain", Kind.NUMBER),
        Column("range", Kind.WORD),
        Column("rows", Kind.NUMBER, rank=2),
        Column("told by", Kind.WORD, rank=4),
        Column("step ms", Kind.NUMBER, rank=1),
        Column("base ms", Kind.NUMBER, rank=1),
        *((Column("predicted", Kind.NUMBER, rank=2),) if foreseen else ()),
        *((Column("step off by", Kind.NUMBER, rank=3),) if compared else ()),
        Column("trials", Kind.NUMBER, rank=3),
        Column("program", Kind.WORD, rank=5),
    )
    return Table(
        columns=columns,
        rows=tuple(
            _measured_row(it, step, foreseen=foreseen, compared=compared)
            for it, step in zip(rows, steps, strict=True)
        ),
    )


def _measured_row(
    row: ArmRow, steps: tuple[str, str], *, foreseen: bool, compared: bool
) -> tuple[str, ...]:
    told = row.told
    nothing = _NOT_SO if row.arm.is_base or told is None else units.UNKNOWN
    cells = [
        _name(row),
        printable(row.status),
        nothing if told is None else gain_text(told.gain),
        nothing if told is None else reach_text(told.range),
        _NOT_SO if told is None else str(told.rows),
        _told_by(row),
        *steps,
    ]
    if foreseen:
        said = row.arm.predicted
        cells.append(_NOT_SO if said is None or row.arm.is_base else gain_text(said.gain))
    if compared:
        cells.append(_NOT_SO if row.prediction_off is None else gain_text(row.prediction_off))
    failed = f" ({row.failures} failed)" if row.failures else ""
    return (*cells, f"{row.trials}{failed}", _program(row))


def _told_by(row: ArmRow) -> str:
    if row.confirmed is not None:
        return "fresh runs"
    return "race" if row.raced is not None else _NOT_SO


def _predicted(rows: Iterable[ArmRow], best: Arm | None) -> Table:
    rows = tuple(rows)
    said = [it.arm.predicted for it in rows]
    steps = units.column([None if it is None else it.step_s * 1e3 for it in said])
    exposed = units.column(
        [None if it is None or it.exposed_s is None else it.exposed_s * 1e3 for it in said]
    )
    columns = (
        Column("arm", Kind.LABEL),
        Column("status", Kind.WORD),
        Column("gain", Kind.NUMBER),
        Column("range", Kind.WORD),
        Column("step ms", Kind.NUMBER, rank=1),
        Column("exposed ms", Kind.NUMBER, rank=2),
        Column("peak", Kind.NUMBER, rank=2),
        Column("program", Kind.WORD, rank=3),
    )
    found: list[tuple[str, ...]] = []
    for row, it, step, hidden in zip(rows, said, steps, exposed, strict=True):
        compared = it is not None and not row.arm.is_base
        found.append(
            (
                _name(row),
                _tied(row, best),
                gain_text(it.gain) if it is not None and compared else _NOT_SO,
                reach_text(it.gain_range) if it is not None and compared else _NOT_SO,
                step if it is not None else _NOT_SO,
                hidden if it is not None else _NOT_SO,
                units.size(it.peak_bytes) if it is not None else _NOT_SO,
                _program(row),
            )
        )
    return Table(columns=columns, rows=tuple(found))


def _tied(row: ArmRow, best: Arm | None) -> str:
    """Who is tied with the best; it itself is the best."""
    said = row.arm.predicted
    if best is not None and row.arm.name == best.name:
        return "best"
    tied = said is not None and said.tied
    return printable(f"{row.status}, tied with the best" if tied else row.status)


def _name(row: ArmRow) -> str:
    return printable(row.arm.name)


def _program(row: ArmRow) -> str:
    known = row.program or (row.arm.predicted.program if row.arm.predicted else None)
    return _NOT_SO if known is None else printable(known[:_HASH])


def _reasons(rows: Iterable[ArmRow]) -> Iterator[Facts]:
    """Why an arm is where it is, also of arms that the table has no room for.

    Arms stand together where the text is the same to the last figure. Of many that differ in
    figures alone the first is told, and the others are said to have other figures.
    """
    alike: dict[tuple[str, str], list[ArmRow]] = {}
    for it in rows:
        if it.why:
            alike.setdefault((it.status, _NUMBER.sub("0", it.why)), []).append(it)
    facts = [
        Fact(printable(status), text)
        for (status, _), found in sorted(alike.items(), key=lambda it: it[0][0] in _QUIET)
        for text in _told(found)
    ]
    if len(facts) > _REASONS:
        more = len(facts) - _REASONS
        facts = [*facts[:_REASONS], Fact("", f"and {more} more: --json", Tone.QUIET)]
    if facts:
        yield Facts(tuple(facts))


def _told(alike: Iterable[ArmRow]) -> Iterator[str]:
    """Reasons that differ in figures at most."""
    same: dict[str, list[ArmRow]] = {}
    for it in alike:
        same.setdefault(plain(it.why), []).append(it)
    texts = [f"{_some(found)}: {why}" for why, found in same.items()]
    if len(texts) <= _APART:
        yield from texts
        return
    first, *others = same.values()
    yield texts[0]
    yield f"{_some([row for rows in others for row in rows])}: as {_name(first[0])}, other figures"


def _some(rows: Sequence[ArmRow]) -> str:
    more = len(rows) - _NAMES
    return ", ".join(map(_name, rows[:_NAMES])) + (f" and {more} more" if more > 0 else "")


def ablation_section(conclusion: Conclusion) -> Iterator[Section]:
    """What the best arm loses without each of its changes."""
    found = conclusion.ablation
    if not found:
        return
    columns = (
        Column("change", Kind.LABEL),
        Column("brings", Kind.NUMBER),
        Column("range", Kind.WORD),
        Column("basis", Kind.WORD),
    )
    rows = tuple(
        (
            printable(it.dimension if it.choice == "on" else f"{it.dimension} {it.choice}"),
            gain_text(it.loses),
            reach_text(_reach(it)),
            printable(it.basis),
        )
        for it in sorted(found, key=lambda it: -it.loses)
    )
    names = list(dict.fromkeys(it.arm for it in found))
    how = "" if any(it.basis != "predicted" for it in found) else ", as predicted"
    summary = printable(
        f"what {' and '.join(names)} loses without it{how}; shares of the base's step"
    )
    yield Section("What each change brings", summary, (Table(columns=columns, rows=rows),))


def _reach(it: Ablated) -> Range | None:
    return None if it.low is None or it.high is None else Range(it.low, it.high)
