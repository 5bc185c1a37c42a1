"""The tables of `tune`: arms as measured or predicted, and the effect of each change."""

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
    ColumnKind,
    Fact,
    FactList,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.tune.figures import gain_range_text, gain_text, plain
from counterpoint.report.units import counted_noun
from counterpoint.tune import Arm
from counterpoint.tune.conclusion import ArmRow, Conclusion
from counterpoint.tune.study import Ablated

_HASH: Final = 8
_REASONS: Final = 12
_NOT_SO: Final = "-"
_NAMES: Final = 6
_APART: Final = 4
"""Up to this many reasons that differ only in figures are listed one by one."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_QUIET: Final = ("same program", "not predictable", "not looked at")
"""Reasons listed last: nothing went wrong."""


def arms_section(conclusion: Conclusion, top: int) -> Iterator[Section]:
    """Yield all arms in their current order; if there are more than `top`, the first."""
    if not conclusion.rows:
        return
    listed = [row for row in conclusion.rows if row.status != _QUIET[0]]  # listed below, by name
    shown = listed[:top]
    count = sum(not row.arm.is_base for row in conclusion.rows)
    summary = f"{counted_noun(count, 'arm')} against the base{_kinds(conclusion)}"
    if len(shown) < len(listed):
        rows = f"the first {len(shown)} rows of {len(listed)}"
        summary += f"; {rows}, all with --top {len(listed)}"
    if others := len(conclusion.rows) - len(listed):
        summary += f"; {counted_noun(others, 'arm')} with the program of another below the table"
    measured = conclusion.basis != "predicted"
    table = _measured(shown) if measured else _predicted(shown, conclusion.winner)
    blocks: list[Block] = [table, *_reasons(conclusion.rows)]
    if conclusion.left_out:
        lines = [f"{omitted.name}: {omitted.why}" for omitted in conclusion.left_out]
        blocks.append(FactList(tuple(Fact("left out", printable(line)) for line in lines)))
        summary += f"; {counted_noun(len(lines), 'named arm')} left out"
    yield Section("Arms", summary, tuple(blocks))


def _kinds(conclusion: Conclusion) -> str:
    """Describe a prediction: how many arms were predicted, and what became of the others."""
    if conclusion.basis != "predicted":
        return ""
    others = [row for row in conclusion.rows if not row.arm.is_base]
    known = sum(row.arm.predicted is not None for row in others)
    silent = [row.status for row in others if row.arm.predicted is None]
    kinds = Counter("not predictable" if status == "worth a trial" else status for status in silent)
    return ": " + ", ".join(
        [f"{known} predicted", *(f"{number} {kind}" for kind, number in kinds.items())]
    )


def _measured(rows: Iterable[ArmRow]) -> TextTable:
    rows = tuple(rows)
    bases = [row.told.base_s if row.told is not None else None for row in rows]
    figures = [
        None if seconds is None else seconds * 1e3
        for seconds in (*(row.step_s for row in rows), *bases)
    ]
    decimals = units.decimals_of([figure for figure in figures if figure is not None])
    decimals = min(decimals + 1, 5)  # a gain of a tenth of a percent shows in them
    shown = [
        _NOT_SO if figure is None else units.column([figure], decimals)[0] for figure in figures
    ]
    steps = list(zip(shown[: len(rows)], shown[len(rows) :], strict=True))
    foreseen = any(row.arm.predicted is not None for row in rows)
    compared = any(row.prediction_off is not None for row in rows)
    columns = (
        Column("arm", ColumnKind.LABEL),
        Column("status", ColumnKind.WORD),
        Column("gain", ColumnKind.NUMBER),
        Column("range", ColumnKind.WORD),
        Column("rows", ColumnKind.NUMBER, rank=2),
        Column("source", ColumnKind.WORD, rank=4),
        Column("step ms", ColumnKind.NUMBER, rank=1),
        Column("base ms", ColumnKind.NUMBER, rank=1),
        *((Column("predicted", ColumnKind.NUMBER, rank=2),) if foreseen else ()),
        *((Column("step error", ColumnKind.NUMBER, rank=3),) if compared else ()),
        Column("trials", ColumnKind.NUMBER, rank=3),
        Column("program", ColumnKind.WORD, rank=5),
    )
    return TextTable(
        columns=columns,
        rows=tuple(
            _measured_row(row, step, foreseen=foreseen, compared=compared)
            for row, step in zip(rows, steps, strict=True)
        ),
    )


def _measured_row(
    row: ArmRow, steps: tuple[str, str], *, foreseen: bool, compared: bool
) -> tuple[str, ...]:
    estimate = row.told
    nothing = _NOT_SO if row.arm.is_base or estimate is None else units.UNKNOWN
    cells = [
        _name(row),
        printable(row.status),
        nothing if estimate is None else gain_text(estimate.gain),
        nothing if estimate is None else gain_range_text(estimate.range),
        _NOT_SO if estimate is None else str(estimate.rows),
        _told_by(row),
        *steps,
    ]
    if foreseen:
        predicted = row.arm.predicted
        cells.append(_NOT_SO if predicted is None or row.arm.is_base else gain_text(predicted.gain))
    if compared:
        cells.append(_NOT_SO if row.prediction_off is None else gain_text(row.prediction_off))
    failed = f" ({row.failures} failed)" if row.failures else ""
    return (*cells, f"{row.trials}{failed}", _program(row))


def _told_by(row: ArmRow) -> str:
    if row.confirmed is not None:
        return "fresh runs"
    return "race" if row.raced is not None else _NOT_SO


def _predicted(rows: Iterable[ArmRow], best: Arm | None) -> TextTable:
    rows = tuple(rows)
    forecasts = [row.arm.predicted for row in rows]
    steps = units.column(
        [None if forecast is None else forecast.step_s * 1e3 for forecast in forecasts]
    )
    exposed = units.column(
        [
            None if forecast is None or forecast.exposed_s is None else forecast.exposed_s * 1e3
            for forecast in forecasts
        ]
    )
    columns = (
        Column("arm", ColumnKind.LABEL),
        Column("status", ColumnKind.WORD),
        Column("gain", ColumnKind.NUMBER),
        Column("range", ColumnKind.WORD),
        Column("step ms", ColumnKind.NUMBER, rank=1),
        Column("exposed ms", ColumnKind.NUMBER, rank=2),
        Column("peak", ColumnKind.NUMBER, rank=2),
        Column("program", ColumnKind.WORD, rank=3),
    )
    found: list[tuple[str, ...]] = []
    for row, forecast, step, hidden in zip(rows, forecasts, steps, exposed, strict=True):
        compared = forecast is not None and not row.arm.is_base
        found.append(
            (
                _name(row),
                _tied(row, best),
                gain_text(forecast.gain) if forecast is not None and compared else _NOT_SO,
                gain_range_text(forecast.gain_range)
                if forecast is not None and compared
                else _NOT_SO,
                step if forecast is not None else _NOT_SO,
                hidden if forecast is not None else _NOT_SO,
                units.size(forecast.peak_bytes) if forecast is not None else _NOT_SO,
                _program(row),
            )
        )
    return TextTable(columns=columns, rows=tuple(found))


def _tied(row: ArmRow, best: Arm | None) -> str:
    """Return the status of an arm, with `best` or its tie with the best."""
    predicted = row.arm.predicted
    if best is not None and row.arm.name == best.name:
        return "best"
    tied = predicted is not None and predicted.tied
    return printable(f"{row.status}, tied with the best" if tied else row.status)


def _name(row: ArmRow) -> str:
    return printable(row.arm.name)


def _program(row: ArmRow) -> str:
    known = row.program or (row.arm.predicted.program if row.arm.predicted else None)
    return _NOT_SO if known is None else printable(known[:_HASH])


def _reasons(rows: Iterable[ArmRow]) -> Iterator[FactList]:
    """Yield the reason for each arm's status, including arms that the table has no room for.

    Arms whose text is identical share one line. If many texts differ only in figures, the first is
    shown, and the others are listed as having other figures.
    """
    groups: dict[tuple[str, str], list[ArmRow]] = {}
    for row in rows:
        if row.why:
            groups.setdefault((row.status, _NUMBER.sub("0", row.why)), []).append(row)
    facts = [
        Fact(printable(status), text)
        for (status, _), found in sorted(groups.items(), key=lambda group: group[0][0] in _QUIET)
        for text in _told(found)
    ]
    if len(facts) > _REASONS:
        more = len(facts) - _REASONS
        facts = [*facts[:_REASONS], Fact("", f"and {more} more: --json", Tone.QUIET)]
    if facts:
        yield FactList(tuple(facts))


def _told(alike: Iterable[ArmRow]) -> Iterator[str]:
    """Yield the lines for reasons that differ only in figures."""
    same: dict[str, list[ArmRow]] = {}
    for row in alike:
        same.setdefault(plain(row.why), []).append(row)
    texts = [f"{_some(found)}: {why}" for why, found in same.items()]
    if len(texts) <= _APART:
        yield from texts
        return
    first, *others = same.values()
    yield texts[0]
    rest = _some([row for rows in others for row in rows])
    yield f"{rest}: the same as {_name(first[0])}, with other figures"


def _some(rows: Sequence[ArmRow]) -> str:
    more = len(rows) - _NAMES
    return ", ".join(map(_name, rows[:_NAMES])) + (f" and {more} more" if more > 0 else "")


def ablation_section(conclusion: Conclusion) -> Iterator[Section]:
    """Yield what the best arm loses without each of its changes."""
    found = conclusion.ablation
    if not found:
        return
    columns = (
        Column("change", ColumnKind.LABEL),
        Column("contributes", ColumnKind.NUMBER),
        Column("range", ColumnKind.WORD),
        Column("basis", ColumnKind.WORD),
    )
    rows = tuple(
        (
            printable(
                ablated.dimension
                if ablated.choice == "on"
                else f"{ablated.dimension} {ablated.choice}"
            ),
            gain_text(ablated.loses),
            gain_range_text(_reach(ablated)),
            printable(ablated.basis),
        )
        for ablated in sorted(found, key=lambda ablated: -ablated.loses)
    )
    names = list(dict.fromkeys(ablated.arm for ablated in found))
    how = "" if any(ablated.basis != "predicted" for ablated in found) else ", as predicted"
    summary = printable(
        f"what {' and '.join(names)} loses without it{how}, as a share of the base's step"
    )
    yield Section("What each change contributes", summary, (TextTable(columns=columns, rows=rows),))


def _reach(it: Ablated) -> Range | None:
    return None if it.low is None or it.high is None else Range(it.low, it.high)
