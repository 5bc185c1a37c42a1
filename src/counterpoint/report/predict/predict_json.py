"""`predict` as JSON: `counterpoint.predict/1`, docs/reference/predict-json.md.

It is the JSON of `explain` for the simulated Timeline, with additional keys. Nothing is cut.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from counterpoint.core.field import Field, Form
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

    flags: Annotated[dict[str, str], Field("XLA flags and compiler options")]
    environment: Annotated[dict[str, str], At("variables"), Field("environment variables")]


class FiguresJson(Result):
    """A predicted step, and whether its memory fits; null where there is no forecast."""

    step_ms: Annotated[float | None, At("forecast.step_ms"), Field("the step")]
    range_ms: Annotated[Pair | None, At("forecast.range_ms"), Field("its range")]
    peak_bytes: Annotated[
        int | None,
        At("forecast.memory.peak_bytes"),
        Field(
            "what a step allocates on one device, as planned by the compiler: arguments + outputs "
            "- aliases + temporaries (one block, gaps included) + constants, in all spaces of the "
            "device's memory; null if unknown"
        ),
    ]
    host_bytes: Annotated[
        int | None,
        At("forecast.memory.host_bytes"),
        Field(
            "pinned memory of the host for each device, if the program offloads; null if unknown"
        ),
    ]
    least_bytes: Annotated[
        int | None,
        At("forecast.memory.least_bytes"),
        Field(
            "with `--schedule-only`: what buffers take, a lower bound of the unknown peak; else "
            "null"
        ),
    ]
    hbm_bytes: Annotated[
        int | None,
        At("forecast.memory.memory_bytes"),
        Field("the chip's memory"),
    ]
    memory_fraction: Annotated[
        float | None,
        At("forecast.memory.fraction"),
        Field("the share of it that JAX's allocator takes"),
    ]
    available_bytes: Annotated[
        int | None,
        At("forecast.memory.available_bytes"),
        Field("the resulting bytes"),
    ]
    fits: Annotated[
        bool | None,
        At("forecast.memory.fits"),
        Field("whether the peak is within `available_bytes`; null if unknown"),
    ]


class RangeCovers(Result):
    """The share of published steps that lie within such ranges."""

    share: Annotated[float, Field("share of the published steps that lie within such ranges")]
    published_steps: Annotated[int, At("steps"), Field("number of published steps")]
    basis: Annotated[str, Field("`measured`")]


class JitterJson(Result):
    """The step under noise."""

    median_ms: Annotated[float, Field("the median step")]
    p10_ms: Annotated[float, Field("the tenth percentile")]
    p90_ms: Annotated[float, Field("the ninetieth percentile")]
    steps: Annotated[int, CountOf("samples"), Field("number of simulated steps")]


class PredictedStepJson(FiguresJson):
    """The predicted step."""

    workload: Annotated[str, Field("the module")]
    target: Annotated[str, Field("the machine it was compiled for")]
    devices: Annotated[int, At("target.devices"), Field("number of devices")]
    basis: Annotated[Literal["predicted"], Field("`predicted`")]
    settings: Annotated[RequestedSettings, Field("`flags` and `environment`")]
    versions: Annotated[
        dict[str, str] | None,
        At("forecast.compiled.versions"),
        Field(
            "the versions of jax and jaxlib that compiled it; null if the module was scheduled "
            "elsewhere"
        ),
    ]
    lower_bound: Annotated[
        bool,
        At("forecast.simulation.lower_bound"),
        Field(
            "whether loops are counted once because their trip count is unknown (`uncounted`): "
            "the step takes at least `step_ms`, and the range covers no further iterations"
        ),
    ]
    range_covers: Annotated[
        RangeCovers | None,
        At("forecast.range_covers"),
        Field(
            "how often published steps lie within such ranges; null with measured costs, on TPUs, "
            "and for steps that bounds decide or that are not mostly products and communication"
        ),
    ]
    tokens_per_s: Annotated[
        float | None,
        Field(
            "tokens per second on all devices, of the step's largest argument of integers whose "
            "elements become vectors, or by a known trainer's options; else null"
        ),
    ]
    communication_ms: Annotated[
        float,
        At("forecast.simulation.communicating_ms"),
        Field("time of any communication in the simulated step"),
    ]
    exposed_ms: Annotated[
        float,
        At("forecast.simulation.exposed_ms"),
        Field("the part of it without concurrent compute; the rest is hidden"),
    ]
    critical_path_ms: Annotated[
        float,
        At("forecast.simulation.critical_path_ms"),
        Field(
            "the step if communication and asynchronous copies took no time (copies that are "
            "kernels keep theirs); less than the step minus its exposed communication, because "
            "collectives slow down the compute beside them"
        ),
    ]
    busiest_lane_ms: Annotated[
        float,
        At("forecast.simulation.busiest_lane_ms"),
        Field("busy time of the busiest stream, a lower bound of the step"),
    ]
    reach_ms: Annotated[
        dict[str, Pair],
        At("forecast.simulation.reach_ms"),
        Field(
            "by family of prices: the change of the step if all its prices are at either end of "
            "their range"
        ),
    ]
    jitter: Annotated[
        JitterJson | None, Field("with `--jitter`, the step under noise; null: not asked for")
    ]


class ProgramOfStepJson(Result):
    """A program of the predicted step, with what stays alive beside it in its peak."""

    COLUMNS: ClassVar = ("name", "runs", "each_ms", "peak_bytes")

    name: Annotated[str, At("program.name"), Field("the module's name", "program")]
    runs: Annotated[int, Field("runs in one step", "runs", Form.COUNT)]
    each_ms: Annotated[float, At("step_ms"), Field("time of one run", "each ms", Form.MS)]
    peak_bytes: Annotated[
        int | None,
        At("memory.peak_bytes"),
        Field(
            "the peak of one run, with what stays alive beside it",
            "peak",
            Form.BYTES,
            unknown="the compiler did not say",
        ),
    ]


class UnpricedJson(Result):
    """An instruction that nothing prices."""

    COLUMNS: ClassVar = ("instruction", "times", "low_ms", "high_ms", "share", "what")

    instruction: Annotated[str, Field("its name", "instruction", Form.NAME)]
    times: Annotated[int, Field("executions in a step", "times", Form.COUNT)]
    low_ms: Annotated[float, Field("the least that it may take in a step", "at least ms", Form.MS)]
    high_ms: Annotated[float, Field("the most that it may take in a step", "at most ms", Form.MS)]
    share: Annotated[float, Field("of the step, at most", "of the step", Form.SHARE, digits=1)]
    what: Annotated[str, At("how"), Field("what it does, and why it has no price", "what it is")]


class UncountedJson(Result):
    """A loop whose trip count is not known."""

    instruction: Annotated[str, Field("its name")]
    each_ms: Annotated[float, Field("time of one iteration")]
    source: Annotated[str | None, Field("file:line")]


class CandidateJson(FiguresJson):
    """Settings that were predicted, or the reason why they could not be."""

    rank: Annotated[int | None, Field("1 is the best; null without a forecast")]
    name: Annotated[str, Field("the settings as given")]
    is_base: Annotated[bool, Field("the requested settings")]
    settings: Annotated[RequestedSettings, Field("the settings")]
    behind: Annotated[float | None, Field("how much longer than the best, as a share of it")]
    behind_range: Annotated[
        Pair | None, At("reach"), Field("the range of that; errors that both share cancel")
    ]
    tied: Annotated[bool | None, Field("with the best")]
    same_as: Annotated[str | None, Field("the candidate with the same schedule; null: none")]
    exposed_ms: Annotated[float | None, Field("communication that the step waits for")]
    notes: Annotated[tuple[str, ...], Field("what may make it differ from a run")]
    error: Annotated[str | None, Field("why it could not be predicted; null: it was")]


class WhatIfJson(Result):
    """A prediction of the same schedule on other hardware."""

    COLUMNS: ClassVar = ("question", "step_ms", "range_ms", "saves_ms", "saves_range_ms")

    question: Annotated[str, Field("as given", "if", Form.NAME)]
    step_ms: Annotated[float, Field("the step on such hardware", "step ms", Form.MS)]
    range_ms: Annotated[Pair, Field("its range", "range", Form.RANGE, rank=2)]
    saves_ms: Annotated[float, Field("by how much it is shorter", "saves ms", Form.MS)]
    saves_range_ms: Annotated[
        Pair,
        Field(
            "the range of that; errors that both share cancel", "range of the saving", Form.RANGE
        ),
    ]


class UnansweredJson(Result):
    """A question about names that the program does not have."""

    question: Annotated[str, Field("as given")]
    error: Annotated[str, Field("why it has no answer")]


class Pgle(FiguresJson):
    """The most that a profile of real costs could gain; the figures are of the step with it.

    If a step runs several programs, the costs are of all of them, and the profile was used if all
    of them used theirs.
    """

    used: Annotated[bool, Field("whether the compiler used the profile, by its own log")]
    reason: Annotated[str, Field("how it is known")]
    changed: Annotated[bool, Field("whether the schedule is another one")]
    costs: Annotated[int, Field("number of costs in the profile")]
    gains_ms: Annotated[
        float | None,
        Field("the most that PGLE could gain: at least zero, because a profile is optional"),
    ]
    wanted_bytes: Annotated[
        int | None,
        At("crowded.wanted_bytes"),
        Field(
            "memory that XLA's schedule with the profile takes, if it exceeds the scheduler's "
            "limit; else null"
        ),
    ]
    limit_bytes: Annotated[int | None, At("crowded.limit_bytes"), Field("that limit; else null")]
    saves_ms: Annotated[
        float | None,
        Field(
            "by how much the step is shorter; negative: it is longer; null: the profile was not "
            "used"
        ),
    ]
    saves_range_ms: Annotated[Pair | None, Field("the range of `saves_ms`")]
    path: Annotated[str | None, Field("the file of the profile")]


class CategoryTimes(Result):
    """Device time of a category."""

    predicted_ms: Annotated[float, Field("predicted device time")]
    measured_ms: Annotated[float, Field("measured device time")]


class OpTimes(Result):
    """An op, as predicted and as measured."""

    COLUMNS: ClassVar = (
        "program",
        "op",
        "category",
        "predicted_ms",
        "measured_ms",
        "difference_ms",
        "measured_op",
        "source",
    )

    program: Annotated[str, Field("the program", "program", Form.NAME)]
    op: Annotated[str, At("name"), Field("the instruction", "op", Form.NAME)]
    measured_op: Annotated[
        str | None,
        At("measured_name"),
        Field("its name in the measurement", "measured as", Form.NAME, rank=2),
    ]
    category: Annotated[str, Field("as in [explain](explain-json.md)", "category", rank=1)]
    predicted_ms: Annotated[
        float | None, Field("per step; null: only the measurement has it", "predicted ms", Form.MS)
    ]
    measured_ms: Annotated[
        float | None, Field("per step; null: only the prediction has it", "measured ms", Form.MS)
    ]
    difference_ms: Annotated[float, Field("predicted - measured", "off by ms", Form.MS)]
    source: Annotated[str | None, Field("file:line", "source", Form.PLACE, rank=3)]


class AgainstJson(Result):
    """The comparison with a measurement, or with a kept prediction."""

    path: Annotated[str, At("origin"), Field("the other side")]
    basis: Annotated[str, Field("of the other side: `predicted` for a saved prediction")]
    predicted_ms: Annotated[float, Field("the predicted step")]
    measured_ms: Annotated[float | None, Field("a median step")]
    program_ms: Annotated[float | None, Field("of its program, or of all its programs")]
    programs: Annotated[int, Field("how many a step runs")]
    ratio: Annotated[
        float | None,
        Field("predicted over measured; over `program_ms` if that is less than 95% of the step"),
    ]
    matched_share: Annotated[float, Field("share of the measured device time in ops that match")]
    how: Annotated[str, Field("what was compared with what")]
    warnings: Annotated[tuple[str, ...], Field("reasons to doubt the comparison")]
    categories: Annotated[dict[str, CategoryTimes], Field("device time by category")]
    ops: Annotated[tuple[OpTimes, ...], Field("largest difference first")]


class Predict(Explained, tag_field="schema", tag="counterpoint.predict/1"):
    """The predicted step on a target: `counterpoint predict --json`."""

    warnings: Annotated[
        tuple[str, ...],
        Field(
            "reasons to doubt the figures: a profile of another program, a calibration of another "
            "chip"
        ),
    ]
    prediction: Annotated[PredictedStepJson, Field("the predicted step")]
    basis: Annotated[
        dict[str, float],
        Field(
            "sources of the priced time, as shares: `measured`, `user_table`, `table`, `compiler` "
            "(XLA's own estimates, on TPUs), `analytic`, `bound`"
        ),
    ]
    programs_of_step: Annotated[
        tuple[ProgramOfStepJson, ...],
        Field("the programs of a step that runs several, or one several times; else empty"),
    ]
    unpriced: Annotated[
        tuple[UnpricedJson, ...],
        At("base.simulation.unpriced"),
        Field("instructions without a price"),
    ]
    uncounted: Annotated[
        tuple[UncountedJson, ...],
        At("base.simulation.uncounted"),
        Field("loops with an unknown trip count, of which one iteration is counted"),
    ]
    candidates: Annotated[
        tuple[CandidateJson, ...],
        Field("best first, including the requested settings (`base`); empty without `--candidate`"),
    ]
    what_if: Annotated[
        tuple[WhatIfJson, ...],
        Field("answers to `--what-if`"),
    ]
    unanswered: Annotated[
        tuple[UnansweredJson, ...],
        Field("questions of `--what-if` about names that the program lacks: the exit code is 2"),
    ]
    pgle: Annotated[Pgle | None, Field("the maximum gain from PGLE")]
    against: Annotated[AgainstJson | None, Field("the comparison with a measurement")]


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
    parts = {
        "forecast": base,
        "workload": prediction.workload,
        "target": prediction.target,
        "settings": _settings(base.settings),
        "tokens_per_s": prediction.tokens_per_s,
        "jitter": base.simulation.jittered,
    }
    return fill(PredictedStepJson, parts)


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


def _against(comparison: MeasurementComparison | None) -> AgainstJson | None:
    if comparison is None:
        return None
    times = {
        name: {"predicted_ms": predicted, "measured_ms": measured}
        for name, (predicted, measured) in comparison.categories.items()
    }
    return fill(AgainstJson, comparison, categories=times)
