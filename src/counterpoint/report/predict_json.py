"""`predict` as JSON: `counterpoint.predict/1`, docs/reference/predict-json.md.

It is the schema of `explain`, of the simulated Timeline, with keys more. Nothing is cut; what is
not known is null.
"""

from __future__ import annotations

from typing import Any, Final

from counterpoint.core.basis import Range
from counterpoint.flags import Settings
from counterpoint.report.json import Json, explain_data, json_lines
from counterpoint.workflow.prediction.against import Against
from counterpoint.workflow.prediction.gain import Gain
from counterpoint.workflow.prediction.prediction import Forecast, Prediction, Standing
from counterpoint.workflow.prediction.step_range import Covered

SCHEMA: Final = "counterpoint.predict/1"
_DECIMALS: Final = 6


def predict_data(prediction: Prediction) -> dict[str, Json]:
    """The prediction as plain data that JSON can hold."""
    simulation = prediction.base.simulation
    explained = explain_data(prediction.explanation)
    return {
        **explained,
        "schema": SCHEMA,
        "inputs": [prediction.origin],
        "notes": [*dict.fromkeys([*prediction.notes, *prediction.explanation.notes])],
        "warnings": [*prediction.warnings],
        "prediction": _prediction(prediction),
        "basis": {
            str(source).replace(" ", "_"): round(share, 6)
            for source, share in prediction.basis.items()
        },
        "unpriced": [
            {
                "instruction": it.instruction,
                "times": it.times,
                "low_ms": _ms(it.low_s),
                "high_ms": _ms(it.high_s),
                "share": round(it.share, 6),
                "what": it.how,
            }
            for it in simulation.unpriced
        ],
        "uncounted": [
            {"instruction": it.instruction, "each_ms": _ms(it.each_s), "source": it.source}
            for it in simulation.uncounted
        ],
        "candidates": [_standing(place, it) for place, it in enumerate(prediction.candidates, 1)],
        "what_if": [
            {
                "question": it.question,
                "step_ms": _ms(it.step_s),
                "range_ms": _range(it.range_s),
                "saves_ms": _ms(it.saves_s),
                "saves_range_ms": _range(it.saves_range_s),
            }
            for it in prediction.what_if
        ],
        "unanswered": [
            {"question": it.question, "error": str(it.error)} for it in prediction.unanswered
        ],
        "pgle": _gain(prediction.gain),
        "against": _against(prediction.against),
    }


def _prediction(prediction: Prediction) -> dict[str, Json]:
    simulation = prediction.base.simulation
    return {
        "workload": prediction.workload,
        "target": str(prediction.target),
        "devices": prediction.target.devices,
        "basis": "predicted",
        "settings": _settings(prediction.base.settings),
        "versions": _versions(prediction.base),
        **_figures(prediction.base),
        "range_covers": _covered(prediction.base.range_covers),
        "tokens_per_s": None,
        "communication_ms": _ms(simulation.communicating_s),
        "exposed_ms": _ms(simulation.exposed_s),
        "critical_path_ms": _ms(simulation.critical_path_s),
        "busiest_lane_ms": _ms(simulation.busiest_lane_s),
        "reach_ms": {
            str(family): [_ms(low), _ms(high)] for family, (low, high) in simulation.reach_s.items()
        },
        "jitter": _jitter(prediction.base),
    }


def predict_json(prediction: Prediction) -> str:
    """The same as text, with each op, candidate and the like on a line of its own."""
    return json_lines(predict_data(prediction))


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, _DECIMALS)


def _range(reach: Range) -> list[Any]:
    return [_ms(reach.low), _ms(reach.high)]


def _shares(reach: Range) -> list[Any]:
    return [round(reach.low, _DECIMALS), round(reach.high, _DECIMALS)]


def _figures(made: Forecast) -> dict[str, Any]:
    memory = made.memory
    return {
        "step_ms": _ms(made.step_s),
        "range_ms": _range(made.range_s),
        "peak_bytes": memory.peak_bytes,
        "hbm_bytes": memory.memory_bytes,
        "memory_fraction": memory.fraction,
        "available_bytes": memory.available_bytes,
        "fits": memory.fits,
    }


def _covered(known: Covered | None) -> dict[str, Any] | None:
    if known is None:
        return None
    return {"share": round(known.share, 6), "published_steps": known.steps, "basis": known.basis}


def _settings(settings: Settings) -> dict[str, Any]:
    return {
        "flags": {**settings.flags, **dict(settings.options)},
        "environment": settings.variables,
    }


def _versions(made: Forecast) -> dict[str, Any] | None:
    return None if made.compiled is None else dict(made.compiled.versions)


def _jitter(made: Forecast) -> dict[str, Any] | None:
    found = made.simulation.jittered
    if found is None:
        return None
    return {
        "median_ms": _ms(found.median_s),
        "p10_ms": _ms(found.p10_s),
        "p90_ms": _ms(found.p90_s),
        "steps": len(found.samples),
    }


def _standing(place: int, it: Standing) -> dict[str, Any]:
    made = it.forecast
    figures = dict.fromkeys(_NONE) if made is None else _figures(made)
    return {
        "rank": None if made is None else place,
        "name": it.name,
        "is_base": it.is_base,
        "settings": _settings(it.settings),
        **figures,
        "behind": None if it.behind is None else round(it.behind, 6),
        "behind_range": None if it.reach is None else _shares(it.reach),
        "tied": None if made is None else it.tied,
        "same_as": it.same_as,
        "exposed_ms": it.exposed_ms,
        "notes": [] if made is None else [*made.notes],
        "error": None if it.error is None else str(it.error),
    }


_NONE: Final = (
    *("step_ms", "range_ms", "peak_bytes", "hbm_bytes", "memory_fraction", "available_bytes"),
    "fits",
)


def _gain(gain: Gain | None) -> dict[str, Any] | None:
    if gain is None:
        return None
    return {
        **_figures(gain.forecast),
        "used": gain.used,
        "reason": gain.reason,
        "changed": gain.changed,
        "costs": gain.costs,
        "gains_ms": _ms(max(gain.saves_s, 0.0)) if gain.used else None,
        "wanted_bytes": gain.crowded.wanted_bytes if gain.crowded else None,
        "limit_bytes": gain.crowded.limit_bytes if gain.crowded else None,
        "saves_ms": _ms(gain.saves_s) if gain.used else None,
        "saves_range_ms": _range(gain.saves_range_s) if gain.used else None,
        "path": None if gain.path is None else str(gain.path),
    }


def _against(found: Against | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "path": found.origin,
        "basis": str(found.basis),
        "predicted_ms": round(found.predicted_ms, _DECIMALS),
        "measured_ms": None if found.measured_ms is None else round(found.measured_ms, _DECIMALS),
        "program_ms": None if found.program_ms is None else round(found.program_ms, _DECIMALS),
        "ratio": None if found.ratio is None else round(found.ratio, 6),
        "matched_share": round(found.matched_share, 6),
        "how": found.how,
        "warnings": [*found.warnings],
        "categories": {
            name: {"predicted_ms": round(predicted, 6), "measured_ms": round(measured, 6)}
            for name, (predicted, measured) in found.categories.items()
        },
        "ops": [
            {
                "op": it.name,
                "measured_op": it.measured_name,
                "category": it.category,
                "predicted_ms": it.predicted_ms,
                "measured_ms": it.measured_ms,
                "difference_ms": round(it.difference_ms, _DECIMALS),
                "source": it.source,
            }
            for it in found.ops
        ],
    }
