"""The tables of `predict`: candidates, what-if, PGLE gain, measurement, unpriced instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Fact,
    FactList,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.places import distinct, short_path, without_middle
from counterpoint.workflow.prediction import (
    INDIFFERENCE,
    MeasurementComparison,
    Prediction,
    RankedCandidate,
    simplest,
)

_LONGEST: Final = 60


def candidates_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the candidates, the best first."""
    found = prediction.candidates
    if not found:
        return
    columns = (
        Column("", ColumnKind.NUMBER),
        Column("settings", ColumnKind.WORD),  # whole, for pasting
        Column("step ms", ColumnKind.NUMBER),
        Column("range", ColumnKind.WORD, rank=2),
        Column("behind the best", ColumnKind.WORD),
        Column("exposed ms", ColumnKind.NUMBER, rank=1),
        Column("peak", ColumnKind.NUMBER, rank=1),
        Column("verdict", ColumnKind.WORD),
    )
    named = simplest(found)
    distinct_programs = [candidate for candidate in found if candidate.same_as is None]
    rows = tuple(
        _standing(place, candidate, found, named)
        for place, candidate in enumerate(distinct_programs, 1)
    )
    note = (
        "Errors that two schedules share cancel in their difference. Tied: the difference may be"
        f" within {units.percent(INDIFFERENCE)}, too small to prefer either."
    )
    errors = tuple(
        Fact(candidate.name, printable(candidate.error.sentence), Tone.WARNING)
        for candidate in found
        if candidate.error is not None
    )
    same = tuple(
        Fact("same program", printable(f"{candidate.name}   as {candidate.same_as}"))
        for candidate in found
        if candidate.same_as is not None
    )
    blocks = (TextTable(columns=columns, rows=rows), Prose(note, Tone.QUIET))
    yield Section(
        "Candidates",
        _counted(found, distinct_programs),
        (*blocks, *(FactList(candidate) for candidate in (same, errors) if candidate)),
    )


def _counted(found: Sequence[RankedCandidate], apart: Sequence[RankedCandidate]) -> str:
    """Describe how many candidates there are, in how many rows, and how many rows are tied."""
    summary = f"{len(found)}"
    if len(apart) < len(found):
        rows = "1 row" if len(apart) == 1 else f"{len(apart)} rows"
        summary += f" in {rows} (candidates of the same program share one)"
    if len(apart) > 1:
        summary += ", best first"
    tied = [candidate for candidate in apart if candidate.tied]
    if len(tied) == len(apart) > 1:
        summary += "; all are tied" if len(apart) > 2 else "; both are tied"
    elif len(tied) > 1:
        first = all(candidate.tied for candidate in apart[: len(tied)])
        summary += f"; the first {len(tied)} are tied" if first else "; some are tied"
    return summary


def _standing(
    place: int,
    candidate: RankedCandidate,
    found: tuple[RankedCandidate, ...],
    named: RankedCandidate | None,
) -> tuple[str, ...]:
    forecast = candidate.forecast
    name = printable(candidate.name)
    if forecast is None:
        return ("-", name, *[units.UNKNOWN] * 5, "does not compile")
    steps = [other.forecast.step_s * 1e3 for other in found if other.forecast]
    decimals = units.decimals_of(steps)
    low, high = forecast.range_s.low * 1e3, forecast.range_s.high * 1e3
    return (
        str(place),
        name,
        units.column([forecast.step_s * 1e3], decimals)[0],
        " to ".join(units.column([low, high], decimals)),
        _behind(candidate),
        units.column([candidate.exposed_ms])[0],
        units.size(forecast.memory.peak_bytes),
        _verdict(place, candidate, named),
    )


def _behind(candidate: RankedCandidate) -> str:
    if not candidate.behind or candidate.reach is None:
        return "0"
    return f"{units.percent(candidate.behind)} ({_percents(candidate.reach)})"


def _percents(reach: Range) -> str:
    return f"{units.percent(reach.low)} to {units.percent(reach.high)}"


def _verdict(place: int, candidate: RankedCandidate, named: RankedCandidate | None) -> str:
    if candidate.forecast is not None and candidate.forecast.memory.fits is False:
        return "OUT OF MEMORY"
    if candidate.tied:
        verdict = "best" if place == 1 else "tied with the best"
        return f"{verdict}, the simplest" if candidate is named else verdict
    return "slower"


def what_if_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the same schedule on other hardware."""
    if not prediction.what_if and not prediction.unanswered:
        return
    columns = (
        Column("if", ColumnKind.NAME),
        Column("step ms", ColumnKind.NUMBER),
        Column("saves ms", ColumnKind.NUMBER),
        Column("range", ColumnKind.WORD),
        Column("of the step", ColumnKind.NUMBER),
    )
    step = prediction.step_s
    rows = tuple(
        (
            printable(answer.question),
            units.column([answer.step_s * 1e3], units.decimals_of([step * 1e3]))[0],
            units.column([answer.saves_s * 1e3], 2)[0],
            " to ".join(
                units.column([answer.saves_range_s.low * 1e3, answer.saves_range_s.high * 1e3], 2)
            ),
            units.percent(answer.saves_s / step if step else None),
        )
        for answer in prediction.what_if
    )
    note = "The schedule is unchanged; a compiler that knew this hardware might do better."
    errors = tuple(
        Fact(question.question, printable(question.error.sentence), Tone.WARNING)
        for question in prediction.unanswered
    )
    blocks = (TextTable(columns=columns, rows=rows), Prose(note, Tone.QUIET)) if rows else ()
    yield Section("What if", "", (*blocks, FactList(errors)) if errors else blocks)


def gain_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the maximum gain from a profile of real costs."""
    gain = prediction.gain
    if gain is None:
        return
    base, forecast = prediction.base, gain.forecast
    if not gain.used:
        rows = [Fact("WARNING", printable(f"not used: {gain.reason}"), Tone.WARNING)]
        yield Section(
            "PGLE", f"{units.UNKNOWN}   the compiler did not use it", (FactList(tuple(rows)),)
        )
        return
    saves = gain.saves_s / base.step_s if base.step_s else 0.0
    reach = gain.saves_range_s
    low, high = units.column([reach.low * 1e3, reach.high * 1e3], 2)
    rows = [
        Fact(
            "step",
            f"{units.milliseconds(forecast.step_s * 1e3)} with {gain.costs:,} predicted costs",
        ),
        Fact("schedule", "different" if gain.changed else "unchanged: PGLE can't help here"),
        Fact(
            "at most",
            "an upper bound: scheduled and simulated with the same costs, so no cost misleads"
            " the compiler",
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
    if forecast.memory.fits is False:
        rows.append(Fact("OUT OF MEMORY", units.size(forecast.memory.peak_bytes), Tone.WARNING))
    if gain.path is not None:
        rows.append(Fact("saved", printable(f"{gain.path} (predicted costs, not measured ones)")))
    summary = f"gains at most {units.percent(max(saves, 0.0))} ({low} to {high} ms)"
    if saves < 0:
        summary = (
            f"no gain: the schedule with it is {units.percent(-saves)} longer; don't use it here"
        )
    yield Section("PGLE", summary, (FactList(tuple(rows)),))


def against_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """Yield prediction and measurement side by side."""
    found = prediction.against
    if found is None:
        return
    warned = [Fact("WARNING", printable(text), Tone.WARNING) for text in found.warnings]
    label = "there" if found.basis is Basis.PREDICTED else "measured"
    facts = [
        *warned,
        Fact(label, printable(_other(found))),
        Fact("matched", f"{units.percent(found.matched_share)} of its device time, {found.how}"),
    ]
    kinds = TextTable(
        columns=(
            Column("category", ColumnKind.WORD),
            Column("predicted ms", ColumnKind.NUMBER),
            Column(f"{label} ms", ColumnKind.NUMBER),
            Column("off by ms", ColumnKind.NUMBER),
        ),
        rows=tuple(
            (name, *units.column([predicted, measured, predicted - measured], 2))
            for name, (predicted, measured) in found.categories.items()
        ),
    )
    rows = found.ops[:top]
    names = distinct([op.name for op in rows], _LONGEST)
    ops = TextTable(
        columns=(
            Column("op", ColumnKind.NAME),
            Column("category", ColumnKind.WORD, rank=1),
            Column("predicted ms", ColumnKind.NUMBER),
            Column(f"{label} ms", ColumnKind.NUMBER),
            Column("off by ms", ColumnKind.NUMBER),
            Column(f"{label} as", ColumnKind.NAME, rank=2),
            Column("source", ColumnKind.PLACE, rank=3),
        ),
        rows=tuple(
            (
                printable(name),
                op.category,
                *units.column([op.predicted_ms, op.measured_ms, op.difference_ms], 2),
                printable(op.measured_name or units.UNKNOWN),
                printable(short_path(op.source)) if op.source else units.UNKNOWN,
            )
            for op, name in zip(rows, names, strict=True)
        ),
    )
    predicted, measured = units.column([found.predicted_ms, found.measured_ms])
    ratio = units.UNKNOWN if found.ratio is None else f"{found.ratio - 1:+.1%}"
    summary = f"predicted {predicted} ms, {label} {measured} ms: {ratio}"
    if found.program_alone:
        runs = units.milliseconds(found.program_ms)
        summary = f"predicted {predicted} ms, its program ran for {runs}: {ratio}"
        step = f"{measured} ms: the rest is host time, which is not predicted"
        if found.measured_ms is None:
            step = "no complete step was recorded"
        facts.append(Fact("step", step))
    cut = Prose(f"{len(rows)} of {len(found.ops):,} ops, largest difference first", Tone.QUIET)
    yield Section("Against", summary, (FactList(tuple(facts)), kinds, cut, ops))


def _other(found: MeasurementComparison) -> str:
    if found.basis is Basis.PREDICTED:
        return f"{found.origin}, a saved prediction, not a measurement"
    return found.origin


def unpriced_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """Yield the instructions that nothing prices, with their assumed bounds."""
    found = prediction.base.simulation.unpriced
    if not found:
        return
    rows = found[:top]
    names = distinct([unpriced.instruction for unpriced in rows], _LONGEST)
    table = TextTable(
        columns=(
            Column("instruction", ColumnKind.NAME),
            Column("times", ColumnKind.NUMBER),
            Column("at least ms", ColumnKind.NUMBER),
            Column("at most ms", ColumnKind.NUMBER),
            Column("of the step", ColumnKind.NUMBER),
            Column("what it is", ColumnKind.NAME, rank=1),
        ),
        rows=tuple(
            (
                printable(name),
                units.count(unpriced.times),
                *units.column([unpriced.low_s * 1e3, unpriced.high_s * 1e3], 2),
                units.percent(unpriced.share),
                printable(without_middle(unpriced.how, _LONGEST)),
            )
            for unpriced, name in zip(rows, names, strict=True)
        ),
    )
    share = sum(unpriced.share for unpriced in found)
    summary = f"{len(rows)} of {len(found):,}, at most {units.part(share, 'the step')}"
    yield Section("Not priced", summary, (table,))
