"""The report of `calibrate`, as a Document and as JSON: scalars, and errors on held-out steps."""

from __future__ import annotations

from typing import Annotated

from counterpoint.core.field import Field, Form
from counterpoint.report import units
from counterpoint.report.columns import field_columns
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


def calibration_document(calibration: Calibration, next: str, target: str) -> Document:
    """Return the report on a calibration."""
    sections = [_scalars(calibration, target)]
    if calibration.steps:
        sections.append(_steps(calibration))
    return Document(
        sections=tuple(sections),
        legend="errors of predictions, relative to measured time",
        next=next,
    )


def _scalars(calibration: Calibration, target: str) -> Section:
    fits = calibration.fits
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
    notes = tuple(Fact("note", note, Tone.QUIET) for note in calibration.notes)
    fitted = sum(fit.fitted for fit in fits)
    summary = f"{fitted} of {len(fits)} fitted on {calibration.chip} ({target})"
    blocks = (scalars, FactList(notes)) if notes else (scalars,)
    return Section("Calibration", summary, blocks)


def _steps(calibration: Calibration) -> Section:
    steps = table(
        *field_columns(FittedStep, calibration.steps, ["name", "measured_ms"]),
        numbers("before", [_off(step, step.before_s) for step in calibration.steps]),
        numbers("after", [_off(step, step.after_s) for step in calibration.steps]),
        numbers("held out", [_off(step, step.unseen_s) for step in calibration.steps]),
    )
    note = "Held out: predicted by scalars fitted to the other steps only."
    return Section("Steps", "measured time, and errors of predictions", (steps, Prose(note)))


def _off(step: StepFit, predicted_s: float | None) -> str:
    if predicted_s is None or not step.measured_s:
        return units.UNKNOWN
    return f"{predicted_s / step.measured_s - 1:+.1%}"


class FittedScalar(Result):
    """A scalar of the cost model, before and after. Errors are those of single instructions."""

    before: Annotated[Exact, At("before.value"), Field("its value before")]
    value: Annotated[
        Exact, At("after.value"), Field("its value now; the same if it was not fitted")
    ]
    reach: Annotated[Exact, At("after.reach"), Field("the likely relative error of that value")]
    source: Annotated[
        str | None, At("after.source"), Field("where the value is from; null: unknown")
    ]
    fitted: Annotated[bool, Field("whether measurements changed it")]
    samples: Annotated[int, Field("the measurements that it rests on")]
    measured_ms: Annotated[Exact, Field("their time, in one run of each program")]
    error_before: Annotated[
        Exact | None,
        Field(
            "the sum of all deviations over the measured time, with the value before; null: not "
            "fitted"
        ),
    ]
    error_after: Annotated[Exact | None, Field("the same with the value now; null: not fitted")]
    error_not_seen: Annotated[
        Exact | None,
        At("unseen"),
        Field(
            "the same of measurements left out of the fit in turn; null: too few to leave any out"
        ),
    ]


class FittedStep(Result):
    """A measured step, and its predictions before and after."""

    name: Annotated[str, Field("the recording", "step", Form.NAME)]
    measured_ms: Annotated[Exact, Field("its step", "measured ms", Form.MS)]
    before_ms: Annotated[Exact, Field("as predicted with the scalars before")]
    after_ms: Annotated[Exact, Field("as predicted with the scalars now")]
    not_seen_ms: Annotated[
        Exact | None,
        At("unseen_ms"),
        Field("as predicted with scalars fitted without it; null: it is the only one"),
    ]


class Calibrated(Result, tag_field="schema", tag="counterpoint.calibration/1"):
    """The cost model fitted to measurements: `counterpoint calibrate --json`."""

    chip: Annotated[str, Field("the chip")]
    file: Annotated[str | None, Field("the file that was written; null: none")]
    scalars: Annotated[dict[str, FittedScalar], Field("the scalars by name")]
    steps: Annotated[tuple[FittedStep, ...], Field("the measured steps")]
    notes: Annotated[
        tuple[str, ...], Field("what each scalar that was not fitted needs, and other notes")
    ]


def calibration_json(calibration: Calibration, out: str | None) -> str:
    """Return `calibrate` as text."""
    scalars = {fit.name: _scalar(fit) for fit in calibration.fits}
    return json_text(fill(Calibrated, calibration, file=out, scalars=scalars))


def _scalar(fit: ScalarFit) -> FittedScalar:
    unfitted = {} if fit.fitted else {"error_before": None, "error_after": None}
    return fill(FittedScalar, fit, **unfitted)
