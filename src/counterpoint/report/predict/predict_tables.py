"""The tables of `predict`: candidates, what-if, PGLE gain, measurement, unpriced instructions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.report import units
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Fact,
    FactList,
    Prose,
    Section,
    TextTable,
    Tone,
    numbers,
    table,
    words,
)
from counterpoint.report.predict.predict_json import (
    OpTimes,
    ProgramOfStepJson,
    UnpricedJson,
    WhatIfJson,
)
from counterpoint.report.predict.step_programs import names_apart
from counterpoint.workflow.forecast import counts_of
from counterpoint.workflow.prediction import (
    INDIFFERENCE,
    MeasurementComparison,
    Prediction,
    RankedCandidate,
    simplest,
)

_LONGEST: Final = 60
_PROGRAMS: Final = 20
"""Programs of a step that are listed, those that take longest."""
_BOUNDS: Final = {
    False: "an upper bound: scheduled and simulated with the same costs, so no cost misleads the"
    " compiler",
    True: "libtpu may find a schedule that is some percent shorter or longer if a cost differs by"
    " a nanosecond",
}


def candidates_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the candidates, the best first."""
    candidates = prediction.candidates
    if not candidates:
        return
    distinct_programs = [candidate for candidate in candidates if candidate.same_as is None]
    note = "Errors that two schedules share cancel in their difference."
    if sum(candidate.tied for candidate in distinct_programs) > 1:
        within = units.percent(INDIFFERENCE)
        note += f" Tied: the difference may be within {within}, too small to prefer either."
    errors = tuple(
        Fact(candidate.name, candidate.error.sentence, Tone.WARNING)
        for candidate in candidates
        if candidate.error is not None
    )
    same = tuple(
        Fact("same program", f"{candidate.name}   as {candidate.same_as}")
        for candidate in candidates
        if candidate.same_as is not None
    )
    blocks = (_candidates(distinct_programs, candidates), Prose(note, Tone.QUIET))
    yield Section(
        "Candidates",
        _counted(candidates, distinct_programs),
        (*blocks, *(FactList(facts) for facts in (same, errors) if facts)),
    )


def _counted(candidates: Sequence[RankedCandidate], apart: Sequence[RankedCandidate]) -> str:
    """Describe how many candidates there are, in how many rows, and how many rows are tied."""
    summary = f"{len(candidates)}"
    if len(apart) < len(candidates):
        rows = counted_noun(len(apart), "row")
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


def _candidates(
    rows: Sequence[RankedCandidate], candidates: Sequence[RankedCandidate]
) -> TextTable:
    forecasts = [candidate.forecast for candidate in rows]
    steps = [None if it is None else it.step_s * 1e3 for it in forecasts]
    decimals = units.decimals_of(it.forecast.step_s * 1e3 for it in candidates if it.forecast)
    exposed = [None if it.forecast is None else it.exposed_ms for it in rows]
    peaks = [None if it is None else it.memory.peak_bytes for it in forecasts]
    named = simplest(candidates)
    verdicts = [verdict_text(place, candidate, named) for place, candidate in enumerate(rows, 1)]
    return table(
        numbers("", ["-" if it is None else str(at) for at, it in enumerate(forecasts, 1)]),
        words("settings", [candidate.name for candidate in rows]),  # whole, for pasting
        numbers("step ms", units.column(steps, decimals)),
        words("range", [_range(it and it.range_s, decimals) for it in forecasts], rank=2),
        words("behind the best", [_behind(candidate) for candidate in rows]),
        numbers("exposed ms", [units.column([ms])[0] for ms in exposed], rank=1),
        numbers("peak", [units.size(peak) for peak in peaks], rank=1),
        words("verdict", verdicts),
    )


def _range(reach_s: Range | None, decimals: int) -> str:
    if reach_s is None:
        return units.UNKNOWN
    return " to ".join(units.column([reach_s.low * 1e3, reach_s.high * 1e3], decimals))


def _behind(candidate: RankedCandidate) -> str:
    if candidate.forecast is None:
        return units.UNKNOWN
    if not candidate.behind or candidate.reach is None:
        return "0"
    low, high = units.percent(candidate.reach.low), units.percent(candidate.reach.high)
    return f"{units.percent(candidate.behind)} ({low} to {high})"


def verdict_text(place: int, candidate: RankedCandidate, named: RankedCandidate | None) -> str:
    """Return the verdict on a candidate; `named` is the simplest of those that are tied."""
    if candidate.forecast is None:
        return "does not compile"
    if candidate.forecast.memory.fits is False:
        return "OUT OF MEMORY"
    if candidate.tied:
        verdict = "best" if place == 1 else "tied with the best"
        return f"{verdict}, the simplest" if candidate is named else verdict
    return "slower"


def programs_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the programs of a step, if it runs several or one of them several times."""
    base = prediction.base
    if not base.parts:
        return
    all_counts = counts_of(base)
    all_names = names_apart([part.program for part in base.parts])
    all_ms = [part.step_s * 1e3 * count for part, count in zip(base.parts, all_counts, strict=True)]
    longest = sorted(range(len(all_ms)), key=lambda at: -all_ms[at])[:_PROGRAMS]
    shown = sorted(longest)  # in their order
    parts = [
        {
            "name": all_names[at],
            "runs": all_counts[at],
            "each_ms": base.parts[at].step_s * 1e3,
            "peak_bytes": base.parts[at].memory.peak_bytes,
        }
        for at in shown
    ]
    rows = table(
        *field_columns(ProgramOfStepJson, parts),
        numbers("all ms", units.column([all_ms[at] for at in shown])),
    )
    others = len(all_ms) - len(shown)
    rest = math.fsum(all_ms) - math.fsum(all_ms[at] for at in shown)
    note = (
        ""
        if not others
        else (f"{counted_noun(others, 'more program')} take {units.milliseconds(rest)} together. ")
    )
    note += (
        "A step is one iteration of the training loop. Peaks include what the loop keeps alive"
        " beside a program, as far as that is known."
    )
    summary = f"{len(base.order)} runs, with a launch between two"
    yield Section("Programs of a step", summary, (rows, Prose(note, Tone.QUIET)))


def what_if_section(prediction: Prediction) -> Iterator[Section]:
    """Yield what the step would take on other hardware, with the same schedule."""
    if not prediction.what_if and not prediction.unanswered:
        return
    step, answers = prediction.step_s, prediction.what_if
    shares = [answer.saves_s / step if step else None for answer in answers]
    answered = table(
        *field_columns(WhatIfJson, answers),
        numbers("of the step", [units.percent(share) for share in shares]),
    )
    note = "The schedule is unchanged; a compiler that knew this hardware might do better."
    errors = tuple(
        Fact(question.question, question.error.sentence, Tone.WARNING)
        for question in prediction.unanswered
    )
    blocks = (answered, Prose(note, Tone.QUIET)) if answers else ()
    yield Section("What if", "", (*blocks, FactList(errors)) if errors else blocks)


def gain_section(prediction: Prediction) -> Iterator[Section]:
    """Yield the gain from a profile of real costs: at most, or for TPUs by one schedule."""
    gain = prediction.gain
    if gain is None:
        return
    base, forecast = prediction.base, gain.forecast
    if not gain.used:
        rows = [Fact("WARNING", f"not used: {gain.reason}", Tone.WARNING)]
        yield Section(
            "PGLE", f"{units.UNKNOWN}   the compiler did not use it", (FactList(tuple(rows)),)
        )
        return
    saves = gain.saves_s / base.step_s if base.step_s else 0.0
    reach, on_tpus = gain.saves_range_s, prediction.target.tpu is not None
    low, high = units.column([reach.low * 1e3, reach.high * 1e3], 2)
    rows = [
        Fact(
            "step",
            f"{units.milliseconds(forecast.step_s * 1e3)} with {gain.costs:,} predicted costs",
        ),
        Fact("schedule", "different" if gain.changed else "unchanged: PGLE can't help here"),
        Fact("no bound" if on_tpus else "at most", _BOUNDS[on_tpus], Tone.QUIET),
    ]
    if gain.crowded is not None:
        wanted, limit = gain.crowded.wanted_bytes, gain.crowded.limit_bytes
        rows.append(
            Fact(
                "memory",
                f"XLA's schedule by these costs needs {units.size(wanted)}, above its limit of"
                f" {units.size(limit)}: there it prefers orders that free memory to orders that"
                " overlap. With more memory PGLE may gain something",
                Tone.WARNING,
            )
        )
    if forecast.memory.fits is False:
        rows.append(Fact("OUT OF MEMORY", units.size(forecast.memory.peak_bytes), Tone.WARNING))
    if gain.path is not None:
        whose = "predicted costs, not measured ones"
        if gain.path_of is not None:
            whose += f"; of {gain.path_of} alone, since libtpu tells no program's names apart"
        rows.append(Fact("saved", f"{gain.path} ({whose})"))
    gains = "this schedule gains" if on_tpus else "gains at most"
    summary = f"{gains} {units.percent(max(saves, 0.0))} ({low} to {high} ms)"
    if saves < 0:
        summary = (
            f"no gain: the schedule with it is {units.percent(-saves)} longer; don't use it here"
        )
    yield Section("PGLE", summary, (FactList(tuple(rows)),))


def against_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """Yield the prediction beside a measurement, or beside an earlier prediction."""
    against = prediction.against
    if against is None:
        return
    warned = [Fact("WARNING", text, Tone.WARNING) for text in against.warnings]
    label = "there" if against.basis is Basis.PREDICTED else "measured"
    facts = [
        *warned,
        Fact(label, _other(against)),
        Fact(
            "matched", f"{units.percent(against.matched_share)} of its device time, {against.how}"
        ),
    ]
    times = against.categories.values()
    kinds = table(
        words("category", [*against.categories]),
        numbers("predicted ms", units.column((predicted for predicted, _ in times), 2)),
        numbers(f"{label} ms", units.column((measured for _, measured in times), 2)),
        numbers("off by ms", units.column((each[0] - each[1] for each in times), 2)),
    )
    rows = against.ops[:top]
    shown = [name for name in OpTimes.COLUMNS if name != "program" or against.programs > 1]
    columns = field_columns(OpTimes, rows, shown)
    ops = table(*(replace(it, title=it.title.replace("measured", label)) for it in columns))
    predicted, measured = units.column([against.compared_ms, against.measured_ms])
    ratio = units.UNKNOWN if against.ratio is None else f"{against.ratio - 1:+.1%}"
    summary = f"predicted {predicted} ms, {label} {measured} ms: {ratio}"
    if against.program_alone:
        runs = units.milliseconds(against.program_ms)
        ran = "its program" if against.programs == 1 else f"its {against.programs} programs"
        summary = f"predicted {predicted} ms, {ran} ran for {runs}: {ratio}"
        step = f"{measured} ms: the rest is host time, which is not predicted"
        if against.measured_ms is None:
            step = "no complete step was recorded"
        facts.append(Fact("step", step))
    cut = Prose(f"{len(rows)} of {len(against.ops):,} ops, largest difference first", Tone.QUIET)
    yield Section("Against", summary, (FactList(tuple(facts)), kinds, cut, ops))


def _other(against: MeasurementComparison) -> str:
    if against.basis is Basis.PREDICTED:
        return f"{against.origin}, a saved prediction, not a measurement"
    return against.origin


def unpriced_section(prediction: Prediction, top: int) -> Iterator[Section]:
    """Yield the instructions that nothing prices, with their assumed bounds."""
    unpriced = prediction.base.simulation.unpriced
    if not unpriced:
        return
    rows = unpriced[:top]
    instructions = table(*field_columns(UnpricedJson, rows))
    share = units.percent(min(1.0, sum(each.share for each in unpriced)))
    summary = f"{len(rows)} of {len(unpriced):,}, at most {share} of the longest step in the range"
    yield Section("Not priced", summary, (instructions,))
