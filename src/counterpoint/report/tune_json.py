"""`tune` as JSON: `counterpoint.tune/1`, docs/reference/tune-json.md.

Nothing is cut; what is not known is null. Times are milliseconds where a key ends in
`_ms`, gains shares of the base's step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeVar

from counterpoint.core.basis import Range, Unknown
from counterpoint.flags import Settings
from counterpoint.report import units
from counterpoint.report.json import Json, json_lines
from counterpoint.tune.arm import Arm, Predicted
from counterpoint.tune.conclusion.caveats import beside
from counterpoint.tune.conclusion.conclusion import ArmRow, Conclusion, Spent
from counterpoint.tune.statistics.estimate import Estimate, Noise

SCHEMA: Final = "counterpoint.tune/1"
_DECIMALS: Final = 6
T = TypeVar("T")


def tune_data(conclusion: Conclusion, study: Path) -> dict[str, Json]:
    """The conclusion as plain data that JSON can hold."""
    return {
        "schema": SCHEMA,
        "study": str(study),
        "sentence": conclusion.sentence,
        "state": conclusion.state,
        "basis": conclusion.basis,
        "verdict": None if conclusion.verdict is None else str(conclusion.verdict),
        "confirmed": conclusion.confirmed,
        "gain": _share(conclusion.gain),
        "range": _shares(conclusion.range),
        "winner": None if conclusion.winner is None else conclusion.winner.name,
        "settings": None
        if conclusion.winner is None
        else settings_data(conclusion.winner.settings),
        "beside_settings": [*beside(conclusion.winner)] if conclusion.winner else [],
        "arms": [_row(it) for it in conclusion.rows],
        "left_out": [{"name": it.name, "why": it.why} for it in conclusion.left_out],
        "ablation": [
            {
                "arm": it.arm,
                "dimension": it.dimension,
                "choice": it.choice,
                "loses": _share(it.loses),
                "range": None
                if it.low is None or it.high is None
                else [_share(it.low), _share(it.high)],
                "basis": it.basis,
            }
            for it in conclusion.ablation
        ],
        "noise": _noise(conclusion.noise),
        "spent": _spent(conclusion.spent),
        "notes": [*conclusion.notes],
    }


def tune_json(conclusion: Conclusion, study: Path) -> str:
    """The same as text, with each arm on a line of its own."""
    return json_lines(tune_data(conclusion, study))


def settings_data(settings: Settings) -> dict[str, Json]:
    """Settings by what takes them."""
    return {
        "xla_flags": [list(pair) for pair in settings.xla],
        "environment": settings.variables,
        "compiler_options": dict(settings.options),
    }


def arm_data(arm: Arm) -> dict[str, Json]:
    """An arm: what it changes, and its settings in full."""
    return {
        "name": arm.name,
        "origin": str(arm.origin),
        "changes": [
            {
                "dimension": it.dimension,
                "choice": it.choice,
                "acts": str(it.acts),
                "per": it.per,
                "profile": it.profile,
                "settings": settings_data(it.settings),
            }
            for it in arm.changes
        ],
        "settings": settings_data(arm.settings),
        "per": arm.per,
        "predicted": _predicted(arm.predicted),
    }


def _row(row: ArmRow) -> dict[str, Json]:
    return {
        **arm_data(row.arm),
        "status": row.status,
        "why": row.why or None,
        "trials": row.trials,
        "failures": row.failures,
        "median_ms": _ms(row.median_s),
        "raced": _estimate(row.raced),
        "confirmed": _estimate(row.confirmed),
        "prediction_off": _share(row.prediction_off),
        "program": row.program or (row.arm.predicted.program if row.arm.predicted else None),
        "peak_bytes": row.peak_bytes,
    }


def _predicted(said: Predicted | None) -> dict[str, Json] | None:
    if said is None:
        return None
    return {
        "step_ms": _ms(said.step_s),
        "range_ms": [_ms(said.range_s.low), _ms(said.range_s.high)],
        "gain": _share(said.gain),
        "gain_range": _shares(said.gain_range),
        "program": said.program,
        "exposed_ms": _ms(said.exposed_s),
        "peak_bytes": said.peak_bytes,
        "limit_bytes": said.limit_bytes,
        "fits": said.fits,
        "tied": said.tied,
    }


def _estimate(told: Estimate | None) -> dict[str, Json] | None:
    if told is None:
        return None
    reach, why = _known(told.range)
    return {
        "gain": _share(told.gain),
        "range": _shares(reach),
        "why_no_range": why,
        "p": _share(told.p),
        "rows": told.rows,
        "verdict": str(told.verdict),
        "decided": told.decided,
        "why": told.why or None,
        "step_ms": _ms(told.step_s),
        "base_ms": _ms(told.base_s),
        "pairs": [
            {"row": it.row + 1, "step_ms": _ms(it.seconds), "base_ms": _ms(it.base_seconds)}
            for it in told.pairs
        ],
    }


def _noise(noise: Noise | None) -> dict[str, Json] | None:
    if noise is None:
        return None
    sigma, why = _known(noise.sigma)
    return {
        "sigma": _share(sigma),
        "why_no_sigma": why,
        "freedom": noise.freedom,
        "floor": _share(noise.floor),
    }


def _spent(spent: Spent | None) -> dict[str, Json] | None:
    if spent is None:
        return None
    return {
        "trials": spent.trials,
        "seconds": _share(spent.seconds),
        "node_seconds": _share(spent.node_seconds),
        "trials_left": spent.trials_left,
        "seconds_left": _share(spent.seconds_left),
        "why_left": spent.why_left,
    }


def _known(value: T | Unknown) -> tuple[T | None, str | None]:
    """The figure, or why there is none."""
    return (None, value.reason) if isinstance(value, Unknown) else (value, None)


def _ms(seconds: float | None) -> float | None:
    figure = units.known(seconds)
    return None if figure is None else round(figure * 1e3, _DECIMALS)


def _share(value: float | None) -> float | None:
    figure = units.known(value)
    return None if figure is None else round(figure, _DECIMALS)


def _shares(reach: Range | None) -> list[Any] | None:
    return None if reach is None else [_share(reach.low), _share(reach.high)]
