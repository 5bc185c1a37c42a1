"""`predict` as JSON: `counterpoint.predict/1`, docs/reference/predict-json.md.

It is the JSON of `explain` for the simulated Timeline, with additional keys. Nothing is cut.
"""

from __future__ import annotations

from typing import Annotated, Literal

from counterpoint.flags.settings import Settings
from counterpoint.report.explain.explain_json import Explained, explained
from counterpoint.report.json import At, CountOf, Pair, Result, fill, json_text
from counterpoint.workflow.forecast import counts_of
from counterpoint.workflow.prediction import (
    Forecast,
    Gain,
    MeasurementComparison,
    Prediction,
    RankedCandidate,
)


class RequestedSettings(Result):
    """XLA flags with compiler options, and the environment."""

    flags: dict[str, str]
    environment: Annotated[dict[str, str], At("variables")]


class FiguresJson(Result):
    """A predicted step, and whether its memory fits; null where there is no forecast."""

    step_ms: Annotated[float | None, At("forecast.step_ms")]
    range_ms: Annotated[Pair | None, At("forecast.range_ms")]
    peak_bytes: Annotated[int | None, At("forecast.memory.peak_bytes")]
    host_bytes: Annotated[int | None, At("forecast.memory.host_bytes")]
    least_bytes: Annotated[int | None, At("forecast.memory.least_bytes")]
    hbm_bytes: Annotated[int | None, At("forecast.memory.memory_bytes")]
    memory_fraction: Annotated[float | None, At("forecast.memory.fraction")]
    available_bytes: Annotated[int | None, At("forecast.memory.available_bytes")]
    fits: Annotated[bool | None, At("forecast.memory.fits")]


class RangeCovers(Result):
    """The share of published steps that lie within such ranges."""

    share: float
    published_steps: Annotated[int, At("steps")]
    basis: str


class JitterJson(Result):
    """The step under noise."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    steps: Annotated[int, CountOf("samples")]


class PredictedStepJson(FiguresJson):
    """The predicted step."""

    workload: str
    target: str
    devices: Annotated[int, At("target.devices")]
    basis: Literal["predicted"]
    settings: RequestedSettings
    versions: Annotated[dict[str, str] | None, At("forecast.compiled.versions")]
    lower_bound: Annotated[bool, At("forecast.simulation.lower_bound")]
    range_covers: Annotated[RangeCovers | None, At("forecast.range_covers")]
    tokens_per_s: float | None
    communication_ms: Annotated[float, At("forecast.simulation.communicating_ms")]
    exposed_ms: Annotated[float, At("forecast.simulation.exposed_ms")]
    critical_path_ms: Annotated[float, At("forecast.simulation.critical_path_ms")]
    busiest_lane_ms: Annotated[float, At("forecast.simulation.busiest_lane_ms")]
    reach_ms: Annotated[dict[str, Pair], At("forecast.simulation.reach_ms")]
    jitter: JitterJson | None


class ProgramOfStepJson(Result):
    """A program of the predicted step, with what stays alive beside it in its peak."""

    name: Annotated[str, At("program.name")]
    runs: int
    each_ms: Annotated[float, At("step_ms")]
    peak_bytes: Annotated[int | None, At("memory.peak_bytes")]


class UnpricedJson(Result):
    """An instruction that nothing prices."""

    instruction: str
    times: int
    low_ms: float
    high_ms: float
    share: float
    what: Annotated[str, At("how")]


class UncountedJson(Result):
    """A loop whose trip count is not known."""

    instruction: str
    each_ms: float
    source: str | None


class CandidateJson(FiguresJson):
    """Settings that were predicted, or the reason why they could not be."""

    rank: int | None
    name: str
    is_base: bool
    settings: RequestedSettings
    behind: float | None
    behind_range: Annotated[Pair | None, At("reach")]
    tied: bool | None
    same_as: str | None
    exposed_ms: float | None
    notes: tuple[str, ...]
    error: str | None


class WhatIfJson(Result):
    """A prediction of the same schedule on other hardware."""

    question: str
    step_ms: float
    range_ms: Pair
    saves_ms: float
    saves_range_ms: Pair


class UnansweredJson(Result):
    """A question about names that the program does not have."""

    question: str
    error: str


class Pgle(FiguresJson):
    """The most that a profile of real costs could gain."""

    used: bool
    reason: str
    changed: bool
    costs: int
    gains_ms: float | None
    wanted_bytes: Annotated[int | None, At("crowded.wanted_bytes")]
    limit_bytes: Annotated[int | None, At("crowded.limit_bytes")]
    saves_ms: float | None
    saves_range_ms: Pair | None
    path: str | None


class CategoryTimes(Result):
    """Device time of a category."""

    predicted_ms: float
    measured_ms: float


class OpTimes(Result):
    """An op, as predicted and as measured."""

    program: str
    op: Annotated[str, At("name")]
    measured_op: Annotated[str | None, At("measured_name")]
    category: str
    predicted_ms: float | None
    measured_ms: float | None
    difference_ms: float
    source: str | None


class AgainstJson(Result):
    """The comparison with a measurement, or with a kept prediction."""

    path: Annotated[str, At("origin")]
    basis: str
    predicted_ms: float
    measured_ms: float | None
    program_ms: float | None
    programs: int
    ratio: float | None
    matched_share: float
    how: str
    warnings: tuple[str, ...]
    categories: dict[str, CategoryTimes]
    ops: tuple[OpTimes, ...]


class Predict(Explained, tag_field="schema", tag="counterpoint.predict/1"):
    """The predicted step on a target: `counterpoint predict --json`."""

    warnings: tuple[str, ...]
    prediction: PredictedStepJson
    basis: dict[str, float]
    programs_of_step: tuple[ProgramOfStepJson, ...]
    unpriced: Annotated[tuple[UnpricedJson, ...], At("base.simulation.unpriced")]
    uncounted: Annotated[tuple[UncountedJson, ...], At("base.simulation.uncounted")]
    candidates: tuple[CandidateJson, ...]
    what_if: tuple[WhatIfJson, ...]
    unanswered: tuple[UnansweredJson, ...]
    pgle: Pgle | None
    against: AgainstJson | None


def predict_json(prediction: Prediction) -> str:
    """Return the prediction as text, with each op, candidate and other row on its own line."""
    step, simulation = prediction.explanation, prediction.base.simulation
    own = {
        "inputs": [prediction.origin],
        "notes": [*dict.fromkeys([*prediction.notes, *step.notes])],
        "warnings": prediction.warnings,
        "prediction": _step(prediction),
        "basis": {str(at).replace(" ", "_"): share for at, share in prediction.basis.items()},
        "programs_of_step": programs_of_step(prediction.base),
        "unpriced": simulation.unpriced,
        "uncounted": simulation.uncounted,
        "candidates": [
            _candidate(rank, candidate) for rank, candidate in enumerate(prediction.candidates, 1)
        ],
        "what_if": prediction.what_if,
        "unanswered": prediction.unanswered,
        "pgle": _pgle(prediction.gain),
        "against": _against(prediction.against),
    }
    return json_text(fill(Predict, step, **{**explained(step), **own}))


def programs_of_step(forecast: Forecast) -> list[ProgramOfStepJson]:
    """Return the programs of a step that runs several, or one several times."""
    return [
        fill(ProgramOfStepJson, part, runs=runs)
        for part, runs in zip(forecast.parts, counts_of(forecast), strict=True)
    ]


def _step(prediction: Prediction) -> PredictedStepJson:
    base = prediction.base
    found = {
        "forecast": base,
        "workload": prediction.workload,
        "target": prediction.target,
        "settings": _settings(base.settings),
        "tokens_per_s": prediction.tokens_per_s,
        "jitter": base.simulation.jittered,
    }
    return fill(PredictedStepJson, found)


def _settings(settings: Settings) -> RequestedSettings:
    return fill(RequestedSettings, settings, flags={**settings.flags, **dict(settings.options)})


def _candidate(rank: int, candidate: RankedCandidate) -> CandidateJson:
    forecast = candidate.forecast
    return fill(
        CandidateJson,
        candidate,
        rank=None if forecast is None else rank,
        settings=_settings(candidate.settings),
        tied=None if forecast is None else candidate.tied,
        notes=() if forecast is None else forecast.notes,
    )


def _pgle(gain: Gain | None) -> Pgle | None:
    if gain is None:
        return None
    if not gain.used:
        return fill(Pgle, gain, gains_ms=None, saves_ms=None, saves_range_ms=None)
    return fill(Pgle, gain, gains_ms=max(gain.saves_s, 0.0) * 1e3)


def _against(found: MeasurementComparison | None) -> AgainstJson | None:
    if found is None:
        return None
    times = {
        name: {"predicted_ms": predicted, "measured_ms": measured}
        for name, (predicted, measured) in found.categories.items()
    }
    return fill(AgainstJson, found, categories=times)
