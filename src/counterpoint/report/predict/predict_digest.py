"""The digest of `predict`: the predicted step, what it rests on, candidates and losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from counterpoint.core import Range
from counterpoint.report import units
from counterpoint.report.digest import Digest, DigestLine, notes, short_name, short_place
from counterpoint.report.explain.explain_digest import finding_lines, other_notes, step_lines
from counterpoint.report.predict.predict_document import (
    bounded,
    coverage_text,
    peak_text,
    programs_text,
    sources_text,
)
from counterpoint.report.predict.predict_tables import verdict_text
from counterpoint.workflow.forecast import MemoryFit
from counterpoint.workflow.prediction import Forecast, Prediction, RankedCandidate, simplest

_ABOUT_STEP: Final = ("step", "figures below")
_CANDIDATE: Final = 3
_LOSSES_AFTER: Final = 3
"""Added to the rank of losses, which come after what was asked for: candidates and what-if."""


def predict_digest(prediction: Prediction, next: str) -> Digest:
    """Return the digest of a Prediction."""
    base, explanation = prediction.base, prediction.explanation
    reach = _step(base)
    lines = [
        DigestLine(f"predict {short_name(prediction.workload)} on {prediction.target}", 0),
        DigestLine(f"step [predicted, nothing was run]: {reach}", 0),
        *_programs(prediction),
        *(
            DigestLine(line.text, max(line.rank, 2))
            for line in step_lines(explanation)
            if not line.text.startswith(_ABOUT_STEP)
        ),
        _memory(base.memory),
        DigestLine(f"range: {coverage_text(base)}", 2),
        DigestLine(f"priced by: {sources_text(prediction)}", 2),
        *(DigestLine(f"warning: {text}", 1, "warning") for text in prediction.warnings),
        *_loops(base),
        *_candidates(prediction),
        *_what_if(prediction),
        *_gain(prediction),
        *_against(prediction),
        *_unpriced(base),
        *(replace(it, rank=it.rank + _LOSSES_AFTER) for it in finding_lines(explanation)),
    ]
    return Digest((*lines, *notes((*prediction.notes, *other_notes(explanation)), 90)), next)


def _programs(prediction: Prediction) -> Iterator[DigestLine]:
    base = prediction.base
    if base.parts:
        yield DigestLine(f"one step runs: {programs_text(base, prediction.workload)}", 0)


def _step(forecast: Forecast) -> str:
    step, reach = forecast.step_s * 1e3, forecast.range_s
    low, high = units.column([reach.low * 1e3, reach.high * 1e3], units.decimals_of([step]))
    return bounded(f"{units.milliseconds(step)}, range {low} to {high} ms", forecast).rstrip(",")


def _memory(memory: MemoryFit) -> DigestLine:
    room = f"{memory.room} {units.size(memory.available_bytes)}"
    if memory.fits is None:
        least = memory.least_bytes
        peak = "unknown" if least is None else f"at least {units.size(least)} (buffers alone)"
        return DigestLine(f"memory [predicted]: {peak} at the peak; {room}", 0)
    fits = "it fits" if memory.fits else "OUT OF MEMORY"
    return DigestLine(f"memory [predicted]: {peak_text(memory)}; {room}: {fits}", 0)


def _loops(base: Forecast) -> Iterator[DigestLine]:
    for loop in base.simulation.uncounted:
        place = f", {short_place(loop.source)}" if loop.source else ""
        text = f"trip count unknown, counted once, {units.milliseconds(loop.each_s * 1e3)}{place}"
        yield DigestLine(f"loop {short_name(loop.instruction)} [predicted]: {text}", 1, "loop")


def _candidates(prediction: Prediction) -> Iterator[DigestLine]:
    named = simplest(prediction.candidates)
    for place, candidate in enumerate(prediction.candidates, 1):
        text = f"candidate {place} {candidate.name}"
        if candidate.same_as is not None:
            text += f": the same program as {candidate.same_as}"
        elif candidate.forecast is None:
            why = "" if candidate.error is None else f", {candidate.error.sentence}"
            text += f": does not compile{why}"
        else:
            text += f" [predicted]: {_candidate(candidate, candidate.forecast)}"
            text += f": {verdict_text(place, candidate, named)}"
        yield DigestLine(text, 1 if place == 1 else _CANDIDATE, "candidate")  # the best first


def _candidate(candidate: RankedCandidate, forecast: Forecast) -> str:
    text = _step(forecast)
    if candidate.behind and candidate.reach is not None:
        low, high = units.percent(candidate.reach.low), units.percent(candidate.reach.high)
        text += f", {units.percent(candidate.behind)} behind the best ({low} to {high})"
    return text


def _what_if(prediction: Prediction) -> Iterator[DigestLine]:
    for answer in prediction.what_if:
        step = units.milliseconds(answer.step_s * 1e3)
        saves = _milliseconds(answer.saves_range_s)
        text = f"if {answer.question} [predicted, same schedule]: {step}, saves {saves}"
        yield DigestLine(text, 4, "what-if")
    for question in prediction.unanswered:
        yield DigestLine(f"if {question.question}: {question.error.sentence}", 4, "what-if")


def _gain(prediction: Prediction) -> Iterator[DigestLine]:
    gain = prediction.gain
    if gain is None:
        return
    if not gain.used:
        yield DigestLine(f"PGLE: the profile was not used: {gain.reason}", 5)
        return
    saves = _milliseconds(gain.saves_range_s)
    bound = "at most" if prediction.target.tpu is None else "one schedule of several"
    yield DigestLine(f"PGLE [predicted, {bound}]: a profile of real costs saves {saves}", 5)


def _milliseconds(seconds: Range) -> str:
    return units.span(seconds.low * 1e3, seconds.high * 1e3)


def _against(prediction: Prediction) -> Iterator[DigestLine]:
    against = prediction.against
    if against is None:
        return
    whole = against.program_ms if against.program_alone else against.measured_ms
    if whole is None or against.ratio is None:
        yield DigestLine(f"against {short_name(against.origin)}: no whole step there", 5)
        return
    what = "program" if against.program_alone else "step"
    ratio = f"predicted / {against.basis} = {against.ratio:.3f} (ratio)"
    yield DigestLine(
        f"against {short_name(against.origin)} [{against.basis}]: its {what} takes"
        f" {units.milliseconds(whole)}; {ratio}",
        5,
    )


def _unpriced(base: Forecast) -> Iterator[DigestLine]:
    for item in base.simulation.unpriced:
        reach = units.span(item.low_s * 1e3, item.high_s * 1e3)
        text = f"unpriced {short_name(item.instruction)} [bounds]: {reach}"
        yield DigestLine(text, 60, "unpriced instruction")
