"""The report of `calibrate`, as a Document and as JSON: scalars, and errors on held-out steps."""

from __future__ import annotations

from typing import Annotated

from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
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
        next=printable(next),
    )


def _scalars(found: Calibration, target: str) -> Section:
    table = TextTable(
        columns=(
            Column("scalar", ColumnKind.WORD),
            Column("before", ColumnKind.NUMBER),
            Column("fitted", ColumnKind.NUMBER),
            Column("measured ms", ColumnKind.NUMBER, rank=1),
            Column("error before", ColumnKind.NUMBER),
            Column("after", ColumnKind.NUMBER),
            Column("held out", ColumnKind.NUMBER),
            Column("based on", ColumnKind.NAME, rank=2),
        ),
        rows=tuple(_fit(fit) for fit in found.fits),
    )
    notes = tuple(Fact("note", printable(note), Tone.QUIET) for note in found.notes)
    known = sum(fit.fitted for fit in found.fits)
    summary = f"{known} of {len(found.fits)} fitted on {found.chip} ({target})"
    blocks = (table, FactList(notes)) if notes else (table,)
    return Section("Calibration", printable(summary), blocks)


def _fit(fit: ScalarFit) -> tuple[str, ...]:
    if not fit.fitted:
        value = f"{fit.before.value:.3g}"
        return (fit.name, value, "kept", *[units.UNKNOWN] * 4, printable(fit.how))
    return (
        fit.name,
        f"{fit.before.value:.3g}",
        f"{fit.after.value:.3g}",
        units.column([fit.measured_s * 1e3], 2)[0],
        units.percent(fit.error_before),
        units.percent(fit.error_after),
        units.percent(fit.unseen),
        printable(fit.how),
    )


def _steps(found: Calibration) -> Section:
    table = TextTable(
        columns=(
            Column("step", ColumnKind.NAME),
            Column("measured ms", ColumnKind.NUMBER),
            Column("before", ColumnKind.NUMBER),
            Column("after", ColumnKind.NUMBER),
            Column("held out", ColumnKind.NUMBER),
        ),
        rows=tuple(
            (
                printable(step.name),
                units.column([step.measured_s * 1e3])[0],
                _off(step, step.before_s),
                _off(step, step.after_s),
                _off(step, step.unseen_s),
            )
            for step in found.steps
        ),
    )
    note = "Held out: predicted by scalars fitted to the other steps only."
    return Section("Steps", "measured time, and errors of predictions", (table, Prose(note)))


def _off(step: StepFit, predicted_s: float | None) -> str:
    if predicted_s is None or not step.measured_s:
        return units.UNKNOWN
    return f"{predicted_s / step.measured_s - 1:+.1%}"


class FittedScalar(Result):
    """A scalar of the cost model, before and after; null errors: it was not fitted."""

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
    """A measured step, and what is predicted of it."""

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
