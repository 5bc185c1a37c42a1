"""Facts about the machines as JSON: `doctor` (docs/reference/doctor-json.md) and `calibrate`."""

from __future__ import annotations

from typing import Annotated

from counterpoint.doctor import Checkup
from counterpoint.report.json import At, Exact, Result, TextOrNull, TextsOrNull, fill, json_text
from counterpoint.workflow.calibration import Calibration, ScalarFit


class HostVerdict(Result):
    """What a check says; `hosts` is null where it is about all of them together."""

    code: Annotated[str, At("verdict.code")]
    name: Annotated[str, At("verdict.name")]
    status: Annotated[str, At("verdict.status")]
    found: Annotated[str, At("verdict.found")]
    wanted: Annotated[TextOrNull, At("verdict.wanted")]
    why: Annotated[TextOrNull, At("verdict.why")]
    remedy: Annotated[TextOrNull, At("verdict.remedy")]
    source: Annotated[TextOrNull, At("verdict.source")]
    hosts: TextsOrNull


class Doctor(Result, tag_field="schema", tag="counterpoint.doctor/1"):
    """What of the hosts is wrong: `counterpoint doctor --json`."""

    failed: bool
    ranks: int
    hosts: tuple[str, ...]
    verdicts: tuple[HostVerdict, ...]
    next: str


def doctor_json(checkup: Checkup, next: str) -> str:
    """Return `doctor` as text; inapplicable and unknown checks have statuses of their own."""
    return json_text(fill(Doctor, checkup, next=next))


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
