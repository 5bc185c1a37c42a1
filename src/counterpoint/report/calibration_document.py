"""`calibrate` as a Document: each scalar before and after, and errors on what was not seen."""

from __future__ import annotations

import json
from typing import Any, Final

from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.workflow.calibration.calibration import Calibration, Fit, StepFit

SCHEMA: Final = "counterpoint.calibration/1"


def calibration_document(found: Calibration, next: str, target: str) -> Document:
    """The report on a calibration."""
    sections = [_scalars(found, target)]
    if found.steps:
        sections.append(_steps(found))
    return Document(
        sections=tuple(sections),
        legend="errors are of predictions, against measured time",
        next=printable(next),
    )


def _scalars(found: Calibration, target: str) -> Section:
    table = Table(
        columns=(
            Column("scalar", Kind.WORD),
            Column("before", Kind.NUMBER),
            Column("fitted", Kind.NUMBER),
            Column("measured ms", Kind.NUMBER, rank=1),
            Column("error before", Kind.NUMBER),
            Column("after", Kind.NUMBER),
            Column("not seen", Kind.NUMBER),
            Column("rests on", Kind.NAME, rank=2),
        ),
        rows=tuple(_fit(fit) for fit in found.fits),
    )
    notes = tuple(Fact("note", printable(note), Tone.QUIET) for note in found.notes)
    known = sum(fit.fitted for fit in found.fits)
    summary = f"{known} of {len(found.fits)} fitted on {found.chip} ({target})"
    blocks = (table, Facts(notes)) if notes else (table,)
    return Section("Calibration", printable(summary), blocks)


def _fit(fit: Fit) -> tuple[str, ...]:
    if not fit.fitted:
        kept = f"{fit.before.value:.3g}"
        return (fit.name, kept, "kept", *[units.UNKNOWN] * 4, printable(fit.how))
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
    table = Table(
        columns=(
            Column("step", Kind.NAME),
            Column("measured ms", Kind.NUMBER),
            Column("before", Kind.NUMBER),
            Column("after", Kind.NUMBER),
            Column("not seen", Kind.NUMBER),
        ),
        rows=tuple(
            (
                printable(it.name),
                units.column([it.measured_s * 1e3])[0],
                _off(it, it.before_s),
                _off(it, it.after_s),
                _off(it, it.unseen_s),
            )
            for it in found.steps
        ),
    )
    how = "Not seen: predicted by scalars that were fitted to the other steps alone."
    return Section("Steps", "measured, and how far predictions are off", (table, Prose(how)))


def _off(step: StepFit, predicted_s: float | None) -> str:
    if predicted_s is None or not step.measured_s:
        return units.UNKNOWN
    return f"{predicted_s / step.measured_s - 1:+.1%}"


def calibration_json(found: Calibration, out: str | None) -> str:
    """The same as data."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "chip": found.chip,
        "file": out,
        "scalars": {
            fit.name: {
                "before": fit.before.value,
                "value": fit.after.value,
                "reach": fit.after.reach,
                "source": fit.after.source,
                "fitted": fit.fitted,
                "samples": fit.samples,
                "measured_ms": fit.measured_s * 1e3,
                "error_before": fit.error_before if fit.fitted else None,
                "error_after": fit.error_after if fit.fitted else None,
                "error_not_seen": fit.unseen,
            }
            for fit in found.fits
        },
        "steps": [
            {
                "name": it.name,
                "measured_ms": it.measured_s * 1e3,
                "before_ms": it.before_s * 1e3,
                "after_ms": it.after_s * 1e3,
                "not_seen_ms": None if it.unseen_s is None else it.unseen_s * 1e3,
            }
            for it in found.steps
        ],
        "notes": [*found.notes],
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"
