"""The digest of `explain`: the step and its parts, losses with remedies, collectives and ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from counterpoint.core import Basis, Unknown
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.explanation import VIRTUAL_DEVICES, Explanation
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.selection import WindowKind
from counterpoint.report import units
from counterpoint.report.digest import LOSS, Digest, DigestLine, notes, short_name, short_place
from counterpoint.report.explain.explain_document import NEARLY_ALL, next_after_explain
from counterpoint.report.explain.step_time import (
    count_beside_chosen,
    counted_outside,
    own_step,
    subject,
)

if TYPE_CHECKING:
    from counterpoint.runs.run import Run

_TOP: Final = 5
_LOSSES: Final = 3
"""Losses that come before the lines about ops and collectives."""
_OF: Final = {
    WindowKind.STEP: "the step",
    WindowKind.RUN: "the run",
    WindowKind.PROFILE: "the profile",
}
_RARELY: Final = 90
"""The rank of lines that are kept only if there is much room."""


def explain_digest(
    explanation: Explanation, run: Run | None = None, paths: Sequence[str] = ()
) -> Digest:
    """Return the digest of an Explanation; the arguments are those of `explain_document`."""
    named = tuple(paths) or explanation.inputs
    kind = explanation.utilization.chip or explanation.device_kind
    lines = [
        DigestLine(
            f"explain {short_name(some(named, 2))}: {explanation.device_count} x"
            f" {short_name(kind)}",
            0,
        ),
        *_ending(run),
        *([DigestLine(VIRTUAL_DEVICES, 2)] if VIRTUAL_DEVICES in explanation.notes else []),
        *step_lines(explanation, run),
        *finding_lines(explanation),
    ]
    return Digest(
        (*lines, *notes(other_notes(explanation), _RARELY)),
        next_after_explain(explanation, named, run),
    )


def _ending(run: Run | None) -> Iterator[DigestLine]:
    if run is not None and not run.outcome.ok:
        yield DigestLine(f"run: {short_name(str(run.outcome))}", 0)


def step_lines(explanation: Explanation, run: Run | None = None) -> Iterator[DigestLine]:
    """Yield the step time and where it goes."""
    own, steps, basis = own_step(explanation, run), explanation.steps, explanation.basis
    predicted = basis == Basis.PREDICTED
    what = "the predicted step" if predicted else short_name(subject(explanation, run))
    if own is not None:
        step = units.milliseconds(own.seconds * 1e3)
        counted = f"median of {counted_noun(own.steps, 'step')} by the run's own count"
        yield DigestLine(f"step [measured]: {step}, {counted}", 0)
    elif steps.median_ms is None:
        yield DigestLine("step: unknown, no whole step in this profile", 0)
    else:
        yield DigestLine(f"step [{basis}]: {_step(explanation)}", 0)
    if explanation.hidden:
        yield DigestLine(explanation.hidden, 0)
    beside = count_beside_chosen(explanation, run)
    if beside is not None:
        text = f"by the run's own count [measured]: {counted_outside(beside)}"
        yield DigestLine(text, 4)  # after the largest loss
    if explanation.truncated:
        yield DigestLine("CUT OFF: events are missing from this profile; totals are too low", 0)
    if steps.window_ms is not None and (own is not None or steps.median_ms is None):
        lasts = units.milliseconds(steps.window_ms)
        yield DigestLine(f"figures below: of {what}, which takes {lasts} [{basis}]", 0)
    if explanation.breakdown is not None:
        yield DigestLine(f"parts of {what} [{basis}]: {_parts(explanation)}", 1)
    if explanation.phases is not None:
        phases = {
            name: getattr(explanation.phases, f"{name}_ms")
            for name in ("forward", "backward", "remat", "optimizer", "other")
        }
        words = ", ".join(f"{name} {units.milliseconds(ms)}" for name, ms in phases.items() if ms)
        if words:
            yield DigestLine(f"phases [{basis}]: {words}", 12, "breakdown")
    yield from _utilization(explanation)


def _step(explanation: Explanation) -> str:
    steps = explanation.steps
    text = units.milliseconds(steps.median_ms)
    if steps.count > 1 and steps.min_ms is not None and steps.max_ms is not None:
        reach = units.span(steps.min_ms, steps.max_ms)
        text += f", median of {counted_noun(steps.count, 'step')} that take {reach}"
    elif steps.count == 1:
        text += ", one step"
    return text


def _parts(explanation: Explanation) -> str:
    parts = explanation.breakdown
    if parts is None:
        return units.UNKNOWN
    whole = {
        "compute": parts.compute_ms,
        "exposed collectives": parts.collective_exposed_ms,
        "exposed copies": parts.copy_exposed_ms,
        "idle": parts.idle_ms,
    }
    shares = units.percentages([*whole.values()])
    shown = [
        f"{name} {units.milliseconds(ms)} ({share})"
        for (name, ms), share in zip(whole.items(), shares, strict=True)
        if ms or name == "compute"
    ]
    hidden = parts.collective_hidden_ms
    beside = f"; collectives hidden behind compute {units.milliseconds(hidden)}" if hidden else ""
    devices = len(explanation.device_breakdowns)
    mean = f"; mean over {devices} devices" if devices > 1 else ""
    return ", ".join(shown) + beside + mean


def _utilization(explanation: Explanation) -> Iterator[DigestLine]:
    use = explanation.utilization
    if use.mfu is None or use.flops_known_share is None:
        return
    known = units.percent(use.flops_known_share, 0)
    least = "" if use.flops_known_share >= NEARLY_ALL else "at least "
    hardware = (
        "recomputation included, since phases are not known"
        if use.recomputed_flops_per_s is None
        else f"HFU, which counts recomputation: {least}{units.percent(use.hfu)}"
    )
    yield DigestLine(
        f"MFU [{explanation.basis} time, compiled operations]: {least}{units.percent(use.mfu)} of"
        f" peak, {hardware}; operations known for {known} of compute time",
        10,
    )


def finding_lines(explanation: Explanation) -> Iterator[DigestLine]:
    """Yield losses with their remedies, other findings, and the costliest collectives and ops."""
    losses = [*explanation.losses, *(it for it in explanation.findings if it.is_small)]
    others = [it for it in explanation.findings if isinstance(it.saves_ms, Unknown)]
    yield from (DigestLine(f"warning: {text}", 1, "warning") for text in explanation.failures)
    if explanation.verdict is not None:
        yield DigestLine(f"losses: {explanation.verdict}", 2)
    if len(losses) > 1:
        yield DigestLine(f"losses: {len(losses)}; they overlap: do not add their savings", 2)
    for at, finding in enumerate(losses):
        rank = 3 + at if at < _LOSSES else 16 + at
        yield DigestLine(_loss(finding, explanation), rank, LOSS)
        yield DigestLine(f"  remedy: {_remedy(finding)}", 30 + at if at else 13, "remedy text")
    for finding in others:
        yield DigestLine(f"{finding.code} [{finding.basis}]: {finding.title}", 28, "other finding")
    yield from _costliest(explanation)


def other_notes(explanation: Explanation) -> Iterator[str]:
    """Yield the notes that are not among the warnings."""
    apart = (*explanation.failures, VIRTUAL_DEVICES)
    return (note for note in explanation.notes if note not in apart)


def _loss(finding: Finding, explanation: Explanation) -> str:
    saves, whole_ms = finding.saves_ms, finding.mean_step_ms or explanation.steps.window_ms
    if isinstance(saves, Unknown):
        return f"{finding.code}: {finding.title}"
    whole = "the mean step" if finding.mean_step_ms else _OF[explanation.steps.window]
    share = f" (at most {units.percent(saves.high / whole_ms)} of {whole})" if whole_ms else ""
    return (
        f"{finding.code} [{finding.basis}]: could save {units.span(saves.low, saves.high)}{share};"
        f" {finding.title}"
    )


def _remedy(finding: Finding) -> str:
    flags = " ".join(f"--{name}={value}" for name, value in finding.remedy.flags)
    variables = " ".join(f"{name}={value}" for name, value in finding.remedy.environment)
    settings = " ".join(filter(None, (flags, variables)))
    return f"{finding.remedy.text}; settings: {settings}" if settings else finding.remedy.text


def _costliest(explanation: Explanation) -> Iterator[DigestLine]:
    basis = explanation.basis
    collectives: list[dict[str, Any]] = explanation.collectives.head(_TOP).to_dicts()
    for row in collectives:
        if row["exposed_ms"]:
            exposed, total = map(units.milliseconds, (row["exposed_ms"], row["total_ms"]))
            text = f"collective {short_name(row['op'])} [{basis}]: {exposed} exposed of {total}"
            yield DigestLine(f"{text}{_place(row)}", 25, "collective")
    ops: list[dict[str, Any]] = explanation.ops.head(_TOP).to_dicts()
    for row in ops:
        text = f"op {short_name(row['op'])} [{basis}]: {units.milliseconds(row['self_ms'])}"
        yield DigestLine(f"{text} of self time{_place(row)}", 50, "op")


def _place(row: dict[str, Any]) -> str:
    place = row["source"] or row["scope"]
    return f", {short_place(place)}" if place else ""
