"""The tables of `tune`: arms as measured or predicted, and the effect of each change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun, some
from counterpoint.report import units
from counterpoint.report.document import (
    Block,
    CellColumn,
    Fact,
    FactList,
    Section,
    TextTable,
    Tone,
    labels,
    numbers,
    table,
    words,
)
from counterpoint.report.tune.figures import gain_range_text, gain_text, plain
from counterpoint.tune.arm import Arm
from counterpoint.tune.conclusion import WORTH_A_TRIAL, ArmRow, Conclusion
from counterpoint.tune.study import Ablated

_HASH: Final = 8
_REASONS: Final = 12
_NONE: Final = "-"  # the cell of a figure that an arm does not have
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
        are = "is" if others == 1 else "are"
        summary += f"; {counted_noun(others, 'arm')} with the program of another {are} listed below"
    measured = conclusion.basis != "predicted"
    arms = _measured(shown) if measured else _predicted(shown, conclusion.winner)
    blocks: list[Block] = [arms, *_reasons(conclusion.rows)]
    if conclusion.left_out:
        lines = [f"{omitted.name}: {omitted.why}" for omitted in conclusion.left_out]
        blocks.append(FactList(tuple(Fact("left out", line) for line in lines)))
        summary += f"; {counted_noun(len(lines), 'named arm')} left out"
    yield Section("Arms", summary, tuple(blocks))


def _kinds(conclusion: Conclusion) -> str:
    """Describe a prediction: how many arms were predicted, and what became of the others."""
    if conclusion.basis != "predicted":
        return ""
    others = [row for row in conclusion.rows if not row.arm.is_base]
    known = sum(row.arm.predicted is not None for row in others)
    silent = [row.status for row in others if row.arm.predicted is None]
    kinds = Counter("not predictable" if status == WORTH_A_TRIAL else status for status in silent)
    return ": " + ", ".join(
        [f"{known} predicted", *(f"{number} {kind}" for kind, number in kinds.items())]
    )


def _measured(rows: Sequence[ArmRow]) -> TextTable:
    bases = [row.estimate.base_s if row.estimate is not None else None for row in rows]
    figures = [
        None if seconds is None else seconds * 1e3
        for seconds in (*(row.step_s for row in rows), *bases)
    ]
    decimals = units.decimals_of([figure for figure in figures if figure is not None])
    decimals = min(decimals + 1, 5)  # a gain of a tenth of a percent shows in them
    shown = [_NONE if figure is None else units.column([figure], decimals)[0] for figure in figures]
    estimates = [row.estimate for row in rows]
    foreseen = [None if row.arm.is_base else row.arm.predicted for row in rows]
    predicted = numbers(
        "predicted", [_NONE if it is None else gain_text(it.gain) for it in foreseen], rank=2
    )
    off = [row.prediction_off for row in rows]
    error = numbers("step error", [_NONE if it is None else gain_text(it) for it in off], rank=3)
    return table(
        labels("arm", [row.arm.name for row in rows]),
        words("status", [row.status for row in rows]),
        numbers("gain", [_NONE if it is None else gain_text(it.gain) for it in estimates]),
        words("range", [_NONE if it is None else gain_range_text(it.range) for it in estimates]),
        numbers("rows", [_NONE if it is None else str(it.rows) for it in estimates], rank=2),
        words("source", [_source(row) for row in rows], rank=4),
        numbers("step ms", shown[: len(rows)], rank=1),
        numbers("base ms", shown[len(rows) :], rank=1),
        *([predicted] if any(row.arm.predicted for row in rows) else []),
        *([error] if any(it is not None for it in off) else []),
        numbers("trials", [_trials(row) for row in rows], rank=3),
        *_seconds("trial s", [row.trial_s for row in rows]),
        *_seconds("start s", [row.start_s for row in rows]),
        words("program", [_program(row) for row in rows], rank=5),
    )


def _trials(row: ArmRow) -> str:
    """Return how many trials there were; interrupted ones are not the arm's failures."""
    kinds = {"failed": row.failures - row.interrupted, "interrupted": row.interrupted}
    untimed = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    return f"{row.trials} ({untimed})" if untimed else str(row.trials)


def _seconds(title: str, figures: Sequence[float | None]) -> Iterator[CellColumn]:
    """Yield a column of seconds, if any is known; tenths are enough of what a busy host delays."""
    if any(figure is not None for figure in figures):
        cells = [_NONE if figure is None else f"{figure:.1f}" for figure in figures]
        yield numbers(title, cells, rank=4)


def _source(row: ArmRow) -> str:
    if row.confirmed is not None:
        return "fresh runs"
    return "race" if row.raced is not None else _NONE


def _predicted(rows: Sequence[ArmRow], best: Arm | None) -> TextTable:
    forecasts = [row.arm.predicted for row in rows]
    gains = [None if row.arm.is_base else row.arm.predicted for row in rows]
    steps = [None if it is None else it.step_s * 1e3 for it in forecasts]
    exposed = [
        None if it is None or it.exposed_s is None else it.exposed_s * 1e3 for it in forecasts
    ]
    peaks = [None if it is None else it.peak_bytes for it in forecasts]

    def known(cells: Sequence[str]) -> list[str]:
        return [_NONE if it is None else cell for it, cell in zip(forecasts, cells, strict=True)]

    return table(
        labels("arm", [row.arm.name for row in rows]),
        words("status", [_tied(row, best) for row in rows]),
        numbers("gain", [_NONE if it is None else gain_text(it.gain) for it in gains]),
        words("range", [_NONE if it is None else gain_range_text(it.gain_range) for it in gains]),
        numbers("step ms", known(units.column(steps)), rank=1),
        numbers("exposed ms", known(units.column(exposed)), rank=2),
        numbers("peak", known([units.size(peak) for peak in peaks]), rank=2),
        words("program", [_program(row) for row in rows], rank=3),
    )


def _tied(row: ArmRow, best: Arm | None) -> str:
    """Return the status of an arm, with `best` or its tie with the best."""
    predicted = row.arm.predicted
    if best is not None and row.arm.name == best.name:
        return "best"
    tied = best is not None and predicted is not None and predicted.tied
    return f"{row.status}, tied with the best" if tied else row.status


def _program(row: ArmRow) -> str:
    known = row.program or (row.arm.predicted.program if row.arm.predicted else None)
    return _NONE if known is None else known[:_HASH]


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
        Fact(status, text)
        for (status, _), alike in sorted(groups.items(), key=lambda group: group[0][0] in _QUIET)
        for text in _reason_lines(alike)
    ]
    if len(facts) > _REASONS:
        more = len(facts) - _REASONS
        facts = [*facts[:_REASONS], Fact("", f"and {more} more: --json", Tone.QUIET)]
    if facts:
        yield FactList(tuple(facts))


def _reason_lines(alike: Iterable[ArmRow]) -> Iterator[str]:
    """Yield the lines for reasons that differ only in figures."""
    same: dict[str, list[ArmRow]] = {}
    for row in alike:
        same.setdefault(plain(row.why), []).append(row)
    texts = [f"{_some_names(alike_rows)}: {why}" for why, alike_rows in same.items()]
    if len(texts) <= _APART:
        yield from texts
        return
    first, *others = same.values()
    yield texts[0]
    rest = _some_names([row for rows in others for row in rows])
    yield f"{rest}: the same as {first[0].arm.name}, with other figures"


def _some_names(rows: Sequence[ArmRow]) -> str:
    return some([row.arm.name for row in rows], _NAMES)


def ablation_section(conclusion: Conclusion) -> Iterator[Section]:
    """Yield what the best arm loses without each of its changes."""
    ablations = conclusion.ablation
    if not ablations:
        return
    rows = sorted(ablations, key=lambda ablated: -ablated.loses)
    changes = table(
        labels("change", [_change(ablated) for ablated in rows]),
        numbers("contributes", [gain_text(ablated.loses) for ablated in rows]),
        words("range", [gain_range_text(_reach(ablated)) for ablated in rows]),
        words("basis", [ablated.basis for ablated in rows]),
    )
    arms = " and ".join(dict.fromkeys(ablated.arm for ablated in ablations))
    how = "" if any(ablated.basis != "predicted" for ablated in ablations) else ", as predicted"
    summary = f"what {arms} loses without it{how}, as a share of the base's step"
    yield Section("What each change contributes", summary, (changes,))


def _change(it: Ablated) -> str:
    return it.dimension if it.choice == "on" else f"{it.dimension} {it.choice}"


def _reach(it: Ablated) -> Range | None:
    return None if it.low is None or it.high is None else Range(it.low, it.high)
