"""The tables of `predict`: candidates, what-if, what PGLE could gain, measurement, the unpriced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core import Basis, Range
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
from counterpoint.report.explain.findings import distinct, short_path, without_middle
from counterpoint.workflow.prediction import INDIFFERENCE, Against, Prediction, Standing, simplest

_LONGEST: Final = 60


def candidates_section(prediction: Prediction) -> Iterator[Section]:
    """The candidates, the best first."""
    found = prediction.candidates
    if not found:
        return
    columns = (
        Column("", Kind.NUMBER),
        Column("settings", Kind.WORD),  # whole: they are to be pasted
        Column("step ms", Kind.NUMBER),
        Column("range", Kind.WORD, rank=2),
        Column("behind the best", Kind.WORD),
        Column("exposed ms", Kind.NUMBER, rank=1),
        Column("peak", Kind.NUMBER, rank=1),
        Column("verdict", Kind.WORD),
    )
    named = simplest(found)
    apart = [it for it in found if it.same_as is None]
    rows = tuple(_standing(place, it, found, named) for place, it in enumerate(apart, 1))
    how = (
        "Differences count errors that two schedules share once; tied means that the difference"
        f" may be within {units.percent(INDIFFERENCE)}, which is no reason to prefer one."
    )
    errors = tuple(
        Fact(it.name, printable(it.error.sentence), Tone.WARNING)
        for it in found
        if it.error is not None
    )
    same = tuple(
        Fact("same program", printable(f"{it.name}   as {it.same_as}"))
        for it in found
        if it.same_as is not None
    )
    blocks = (Table(columns=columns, rows=rows), Prose(how, Tone.QUIET))
    yield Section(
        "Candidates", _counted(found, apart), (*blocks, *(Facts(it) for it in (same, errors) if it))
    )


def _counted(found: Sequence[Standing], apart: Sequence[Standing]) -> str:
    """How many there are, in how many rows, and how many of those rows are tied."""
    summary = f"{len(found)}"
    if len(apart) < len(found):
        rows = "1 row" if len(apart) == 1 else f"{len(apart)} rows"
        summary += f" in {rows} (candidates of the same program share one)"
    if len(apart) > 1:
        summary += ", the best first"
    tied = [it for it in apart if it.tied]
    if len(tied) == len(apart) > 1:
        summary += "; all are tied" if len(apart) > 2 else "; both are tied"
    elif len(tied) > 1:
        first = all(it.tied for it in apart[: len(tied)])
        summary += f"; the first {len(tied)} are tied" if first else "; some are tied"
    return summary


def _standing(
    place: int, it: Standing, found: tuple[Standing, ...], named: Standing | None
) -> tuple[str, ...]:
    made = it.forecast
    name = printable(it.name)
    if made is None:
        return ("-", name, *[units.UNKNOWN] * 5, "does not compile")
    steps = [one.forecast.step_s * 1e3 for one in found if one.forecast]
    decimals = units.decimals_of(steps)
    low, high = made.range_s.low * 1e3, made.range_s.high * 1e3
    return (
        str(place),
        name,
        units.column([made.step_s * 1e3], decimals)[0],
        " to ".join(units.column([low, high], decimals)),
        _behind(it),
        units.column([it.exposed_ms])[0],
        units.size(made.memory.peak_bytes),
        _verdict(place, it, named),
    )


def _behind(it: Standing) -> str:
    if not it.behind or it.reach is None:
        return "0"
    return f"{units.percent(it.behind)} ({_percents(it.reach)})"


def _percents(reach: Range) -> str:
    return f"{units.percent(reach.low)} to {units.percent(reach.high)}"


def _verdict(place: int, it: Standing, named: Standing | None) -> str:
    if it.forecast is not None and it.forecast.memory.fits is False:
        return "OUT OF MEMORY"
    if it.tied:
        said = "best" if place == 1 else "tied with the best"
        return f"{said}, the simplest" if it is named else said
    return "slower"


def what_if_section(prediction: Prediction) -> Iterator[Section]:
    """What other hardware would make of the same schedule."""
    if not prediction.what_if and not prediction.unanswered:
        return
    columns = (
        Column("if", Kind.NAME),
        Column("step ms", Kind.NUMBER),
        Column("saves ms", Kind.NUMBER),
        Column("range", Kind.WORD),
        Column("of the step", Kind.NUMBER),
    )
    step = prediction.step_s
    rows = tuple(
        (
            printable(it.question),
            units.column([it.step_s * 1e3], units.decimals_of([step * 1e3]))[0],
            units.column([it.saves_s * 1e3], 2)[0],
            " to ".join(units.column([it.saves_range_s.low * 1e3, it.saves_range_s.high * 1e3], 2)),
            units.percent(it.saves_s / step if step else None),
        )
        for it in prediction.what_if
    )
    how = "The schedule is the one above: a compiler that knew might do better."
    lacking = tuple(
        Fact(it.question, printable(it.error.sentence), Tone.WARNING)
        for it in prediction.unanswered
    )
    blocks = (Table(columns=columns, rows=rows), Prose(how, Tone.QUIET)) if rows else ()
    yield Section("What if", "", (*blocks, Facts(lacking)) if lacking else blocks)


def gain_section(prediction: Prediction) -> Iterator[Section]:
    """What a profile of real costs could gain at most."""
    gain = prediction.gain
    if gain is None:
        return
    base, made = prediction.base, gain.forecast
    if not gain.used:
        rows = [Fact("WARNING", printable(f"not used: {gain.reason}"), Tone.WARNING)]
        yield Section(
            "PGLE", f"{units.UNKNOWN}   the compiler did not use it", (Facts(tuple(rows)),)
        )
        return
    saves = gain.saves_s / base.step_s if base.step_s else 0.0
    reach = gain.saves_range_s
    low, high = units.column([reach.low * 1e3, reach.high * 1e3], 2)
    rows = [
        Fact(
            "step", f"{units.milliseconds(made.step_s * 1e3)} with {gain.costs:,} predicted costs"
        ),
        Fact("schedule", "another one" if gain.changed else "the same: PGLE can't help here"),
        Fact(
            "at most",
            "the costs that the compiler was told are those that it is simulated with: no cost"
            " misleads it",
            Tone.QUIET,
        ),
    ]
    if gain.crowded is not None:
        wanted, limit = gain.crowded.wanted_bytes, gain.crowded.limit_bytes
        rows.append(
            Fact(
                "memory",
                f"XLA's first schedule by these costs needed {units.size(wanted)}, above its limit"
                f" of {units.size(limit)}: it scheduled again, and overlaps less. With more memory"
                " PGLE may gain something",
                Tone.WARNING,
            )
        )
    if made.memory.fits is False:
        rows.append(Fact("OUT OF MEMORY", units.size(made.memory.peak_bytes), Tone.WARNING))
    if gain.path is not None:
        rows.append(Fact("kept", printable(f"{gain.path} (predicted costs, not measured ones)")))
    summary = f"gains at most {units.percent(max(saves, 0.0))} ({low} to {high} ms)"
    if saves < 0:
        summary = (
            f"gains nothing: the schedule with it is {units.percent(-saves)} longer, so don't use"
            " it here"
        )
    yield Section("PGLE", summary, (Facts(tuple(rows)),))


def against_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """Prediction and measurement side by side."""
    found = prediction.against
    if found is None:
        return
    warned = [Fact("WARNING", printable(text), Tone.WARNING) for text in found.warnings]
    there = "there" if found.basis is Basis.PREDICTED else "measured"
    facts = [
        *warned,
        Fact(there, printable(_other(found))),
        Fact("matched", f"{units.percent(found.matched_share)} of its device time, {found.how}"),
    ]
    kinds = Table(
        columns=(
            Column("category", Kind.WORD),
            Column("predicted ms", Kind.NUMBER),
            Column(f"{there} ms", Kind.NUMBER),
            Column("off by ms", Kind.NUMBER),
        ),
        rows=tuple(
            (name, *units.column([predicted, measured, predicted - measured], 2))
            for name, (predicted, measured) in found.categories.items()
        ),
    )
    rows = found.ops[:top]
    names = distinct([it.name for it in rows], _LONGEST)
    ops = Table(
        columns=(
            Column("op", Kind.NAME),
            Column("category", Kind.WORD, rank=1),
            Column("predicted ms", Kind.NUMBER),
            Column(f"{there} ms", Kind.NUMBER),
            Column("off by ms", Kind.NUMBER),
            Column(f"{there} as", Kind.NAME, rank=2),
            Column("source", Kind.PLACE, rank=3),
        ),
        rows=tuple(
            (
                printable(name),
                it.category,
                *units.column([it.predicted_ms, it.measured_ms, it.difference_ms], 2),
                printable(it.measured_name or units.UNKNOWN),
                printable(short_path(it.source)) if it.source else units.UNKNOWN,
            )
            for it, name in zip(rows, names, strict=True)
        ),
    )
    predicted, measured = units.column([found.predicted_ms, found.measured_ms])
    ratio = units.UNKNOWN if found.ratio is None else f"{found.ratio - 1:+.1%}"
    summary = f"predicted {predicted} ms, {there} {measured} ms: {ratio}"
    if found.program_alone:
        runs = units.milliseconds(found.program_ms)
        summary = f"predicted {predicted} ms, its program ran for {runs}: {ratio}"
        step = f"{measured} ms: the rest is the host's, which is not predicted"
        if found.measured_ms is None:
            step = "no whole step was seen: its time is not known"
        facts.append(Fact("step", step))
    cut = Prose(f"{len(rows)} of {len(found.ops):,} ops, the largest difference first", Tone.QUIET)
    yield Section("Against", summary, (Facts(tuple(facts)), kinds, cut, ops))


def _other(found: Against) -> str:
    if found.basis is Basis.PREDICTED:
        return f"{found.origin}, a kept prediction: nothing of it was measured"
    return found.origin


def unpriced_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """What nothing prices, with the bounds that it was given."""
    found = prediction.base.simulation.unpriced
    if not found:
        return
    rows = found[:top]
    names = distinct([it.instruction for it in rows], _LONGEST)
    table = Table(
        columns=(
            Column("instruction", Kind.NAME),
            Column("times", Kind.NUMBER),
            Column("at least ms", Kind.NUMBER),
            Column("at most ms", Kind.NUMBER),
            Column("of the step", Kind.NUMBER),
            Column("what it is", Kind.NAME, rank=1),
        ),
        rows=tuple(
            (
                printable(name),
                units.count(it.times),
                *units.column([it.low_s * 1e3, it.high_s * 1e3], 2),
                units.percent(it.share),
                printable(without_middle(it.how, _LONGEST)),
            )
            for it, name in zip(rows, names, strict=True)
        ),
    )
    share = sum(it.share for it in found)
    summary = f"{len(rows)} of {len(found):,}, at most {units.part(share, 'the step')}"
    yield Section("Not priced", summary, (table,))
