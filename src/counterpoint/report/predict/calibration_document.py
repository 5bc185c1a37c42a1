"""The report of `calibrate`, as a Document and as JSON: scalars, and errors on held-out steps."""

from __future__ import annotations

from typing import Annotated

from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Tone,
    names,
    numbers,
    table,
    words,
)
from counterpoint.report.json import At, Exact, Result, fill, json_text
from counterpoint.workflow.calibration import Calibration, ScalarFit, StepFit


def calibration_document(found: Calibration, next: str, target: str) -> Document:
    """Return the report on a calibration."""
    sections = [_scalars(found, target)]
    if found.steps:
        sections.append(_steps(found))
    return Document(
        sections=tuple(sections),
        legend="errors of predictions, relative to measured time",
        next=next,
    )


def _scalars(found: Calibration, target: str) -> Section:
    fits = found.fits
    known = [fit if fit.fitted else None for fit in fits]
    measured = [units.column([it and it.measured_s * 1e3], 2)[0] for it in known]
    scalars = table(
        words("scalar", [fit.name for fit in fits]),
        numbers("before", [f"{fit.before.value:.3g}" for fit in fits]),
        numbers("fitted", [f"{it.after.value:.3g}" if it else "kept" for it in known]),
        numbers("measured ms", measured, rank=1),
        numbers("error before", [units.percent(it and it.error_before) for it in known]),
        numbers("after", [units.percent(it and it.error_after) for it in known]),
        numbers("held out", [units.percent(it and it.unseen) for it in known]),
        names("based on", [fit.how for fit in fits], rank=2),
    )
    notes = tuple(Fact("note", note, Tone.QUIET) for note in found.notes)
    fitted = sum(fit.fitted for fit in fits)
    summary = f"{fitted} of {len(fits)} fitted on {found.chip} ({target})"
    blocks = (scalars, FactList(notes)) if notes else (scalars,)
    return Section("Calibration", summary, blocks)


def _steps(found: Calibration) -> Section:
    measured = [units.column([step.measured_s * 1e3])[0] for step in found.steps]
    steps = table(
        names("step", [step.name for step in found.steps]),
        numbers("measured ms", measured),
        numbers("before", [_off(step, step.before_s) for step in found.steps]),
        numbers("after", [_off(step, step.after_s) for step in found.steps]),
        numbers("held out", [_off(step, step.unseen_s) for step in found.steps]),
    )
    note = "Held out: predicted by scalars fitted to the other steps only."
    return Section("Steps", "measured time, and errors of predictions", (steps, Prose(note)))


def _off(step: StepFit, predicted_s: float | None) -> str:
    if predicted_s is None or not step.measured_s:
        return units.UNKNOWN
    return f"{predicted_s / step.measured_s - 1:+.1%}"


class FittedScalar(Result):
    """A scalar of the cost model, before and after; its errors are null if it was not fitted."""

    before: Annotated[Exact, At("before.value")]
    value: Annotated[Exact, At("after.value")]
    reach: Annotated[Exact, At("after.reach")]
    source: Annotated[str | None, At("after.source")]
    fitted: bool
    samples: int
    measured_ms: Exact
    error_before: Exact | None
    error_after: Exact | None
    error_not_seen: Annotated[Exact | None, At("unseen")]


class FittedStep(Result):
    """A measured step, and its predictions before and after."""

    name: str
    measured_ms: Exact
    before_ms: Exact
    after_ms: Exact
    not_seen_ms: Annotated[Exact | None, At("unseen_ms")]


class Calibrated(Result, tag_field="schema", tag="counterpoint.calibration/1"):
    """The cost model fitted to measurements: `counterpoint calibrate --json`."""

    chip: str
    file: str | None
    scalars: dict[str, FittedScalar]
    steps: tuple[FittedStep, ...]
    notes: tuple[str, ...]


def calibration_json(found: Calibration, out: str | None) -> str:
    """Return `calibrate` as text."""
    scalars = {fit.name: _scalar(fit) for fit in found.fits}
    return json_text(fill(Calibrated, found, file=out, scalars=scalars))


def _scalar(fit: ScalarFit) -> FittedScalar:
    unfitted = {} if fit.fitted else {"error_before": None, "error_after": None}
    return fill(FittedScalar, fit, **unfitted)
