"""The PGLE workflows as JSON: `counterpoint.pgle-feedback/1` and `counterpoint.pgle-auto/1`.

What is not known is null; `why_not` beside it says why.
"""

from __future__ import annotations

import json
from typing import Any, Final

from counterpoint.core.basis import Unknown
from counterpoint.pgle.check import Coverage
from counterpoint.report.feedback_document import movement_data
from counterpoint.runs import Run
from counterpoint.runs.score import Score
from counterpoint.workflow.feedback.auto import Auto
from counterpoint.workflow.feedback.feedback import Arm, Comparison, Feedback, Proof

FEEDBACK: Final = "counterpoint.pgle-feedback/1"
AUTO: Final = "counterpoint.pgle-auto/1"


def feedback_json(feedback: Feedback) -> str:
    """`pgle manual` and `pgle nsys`."""
    measured = feedback.measurement
    return _text(
        {
            "schema": FEEDBACK,
            "way": feedback.way,
            "directory": str(feedback.directory),
            "used": feedback.used,
            "proof": _proof(feedback.proof),
            "profile": {
                "path": str(measured.path),
                "costs": len(measured.profile.costs),
                "module": measured.module,
                "coverage": _coverage(measured.coverage),
                "notes": [*measured.notes],
            },
            "movement": movement_data(feedback.movement),
            "without": _arm(feedback.without),
            "with": _arm(feedback.with_profile),
            "comparison": _comparison(feedback.comparison),
        }
    )


def auto_json(auto: Auto) -> str:
    """`pgle auto`."""
    before, after = auto.scores or (None, None)
    return _text(
        {
            "schema": AUTO,
            "directory": str(auto.directory),
            "used": auto.used,
            "reasons": [*auto.reasons],
            "modules": [
                {
                    "module": it.module,
                    "use": it.use,
                    "source": it.source,
                    "found": it.found,
                    "missing": it.missing,
                }
                for it in auto.evidence.modules
                if it.source
            ],
            "complaints": [{"text": it.text, "next": it.next} for it in auto.evidence.complaints],
            "ahead_of_time": [{"name": it.name, "where": it.where} for it in auto.ahead_of_time],
            "conflicts": [{"who": it.who, "shown_by": it.shown_by} for it in auto.conflicts],
            "before": _run(auto.before, before),
            "optimise": _run(auto.optimise, None),
            "after": _run(auto.after, after),
            "comparison": _comparison(auto.comparison),
        }
    )


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def _proof(proof: Proof) -> dict[str, Any]:
    module = proof.module
    return {
        "used": proof.used,
        "reasons": [*proof.reasons],
        "source": module.source if module else None,
        "found": module.found if module else None,
        "missing": module.missing if module else None,
        "fingerprint": proof.coverage.fingerprint if proof.coverage else None,
        "coverage": _coverage(proof.coverage),
        "complaints": [{"text": it.text, "next": it.next} for it in proof.complaints],
    }


def _coverage(coverage: Coverage | Unknown | None) -> dict[str, Any] | None:
    if coverage is None:
        return None
    if isinstance(coverage, Unknown):
        return {"why_not": coverage.reason}
    time = coverage.time
    return {
        "instructions": coverage.instructions.share,
        "collectives": coverage.collectives.share,
        "time": None if isinstance(time, Unknown) else time.share,
        "fit": coverage.staleness.fit,
    }


def _arm(arm: Arm) -> list[dict[str, Any] | None]:
    return [_run(run, score) for run, score in zip(arm.runs, arm.scores, strict=True)]


def _run(run: Run | None, score: Score | Unknown | None) -> dict[str, Any] | None:
    if run is None:
        return None
    data: dict[str, Any] = {"path": str(run.path), "outcome": run.outcome.kind}
    if isinstance(score, Score):
        data["step_ms"] = {
            "median": score.seconds * 1e3,
            "steps": score.steps,
            "source": score.source,
            "basis": "measured",
        }
    elif isinstance(score, Unknown):
        data |= {"step_ms": None, "why_not": score.reason}
    return data


def _comparison(comparison: Comparison | Unknown) -> dict[str, Any]:
    if isinstance(comparison, Unknown):
        return {"change": None, "why_not": comparison.reason}
    reach = comparison.range
    return {
        "change": comparison.change,
        "range": None if isinstance(reach, Unknown) else [reach.low, reach.high],
        "why_no_range": reach.reason if isinstance(reach, Unknown) else None,
        "verdict": comparison.verdict,
        "pairs": len(comparison.without_s),
        "basis": "measured",
    }
