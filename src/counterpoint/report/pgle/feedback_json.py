"""`pgle manual`, `nsys` and `auto` as JSON: docs/reference/pgle-json.md.

Every key is always present; if a part is unknown, its keys are null, and `why_not` is the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from counterpoint.core import Unknown
from counterpoint.report.json import At, CountOf, Pair, ReasonUnknown, Result, fill, json_text
from counterpoint.report.pgle.pgle_json import Moved, moved
from counterpoint.runs.run import Run
from counterpoint.runs.scores import Score

if TYPE_CHECKING:
    from counterpoint.pgle.checking.check import Coverage
    from counterpoint.workflow.feedback import AutoResult, ComparedRuns, Feedback


class StepMs(Result):
    """The median step of a run."""

    median: float
    steps: int
    source: str
    basis: Literal["measured"]


class TimedRun(Result):
    """A run, and its step or why it has none."""

    path: str
    outcome: str
    step_ms: StepMs | None
    why_not: str | None


def _run(run: Run | None, score: Score | Unknown | None) -> TimedRun | None:
    if run is None:
        return None
    known = isinstance(score, Score)
    return TimedRun(
        path=str(run.path),
        outcome=str(run.outcome.kind),
        step_ms=fill(StepMs, score, median=score.seconds * 1e3) if known else None,
        why_not=score.reason if isinstance(score, Unknown) else None,
    )


class Compared(Result):
    """The change of the step time by the profile: -0.03 is 3% faster."""

    change: float | None
    why_not: Annotated[str | None, ReasonUnknown()]
    range: Pair | None
    why_no_range: Annotated[str | None, ReasonUnknown("range")]
    verdict: str | None
    pairs: Annotated[int | None, CountOf("without_s")]
    basis: Literal["measured"]


class CoverageJson(Result):
    """Shares of the program that the profile has a cost for."""

    why_not: Annotated[str | None, ReasonUnknown()]
    instructions: Annotated[float | None, At("instructions.share")]
    collectives: Annotated[float | None, At("collectives.share")]
    time: Annotated[float | None, At("time.share")]
    fit: Annotated[str | None, At("staleness.fit")]


def _covered(found: Coverage | Unknown | None) -> CoverageJson | None:
    return None if found is None else fill(CoverageJson, found)


class LogComplaintJson(Result):
    """A problem in the compiler's log, and its remedy."""

    text: str
    next: str | None


class ProfileProofJson(Result):
    """The compiler's use of the profile, by its own log."""

    used: bool
    reasons: tuple[str, ...]
    source: Annotated[str | None, At("module.source")]
    found: Annotated[int | None, At("module.found")]
    missing: Annotated[int | None, At("module.missing")]
    fingerprint: Annotated[str | None, At("coverage.fingerprint")]
    coverage: CoverageJson | None
    complaints: tuple[LogComplaintJson, ...]


class MeasuredProfile(Result):
    """The profile that was measured."""

    path: str
    costs: Annotated[int, CountOf("profile.costs")]
    module: str | None
    coverage: CoverageJson | None
    notes: tuple[str, ...]


class PgleFeedback(Result, tag_field="schema", tag="counterpoint.pgle-feedback/1"):
    """Profile, compile and compare: `counterpoint pgle manual --json` and `pgle nsys --json`."""

    way: str
    directory: str
    used: bool
    proof: ProfileProofJson
    profile: MeasuredProfile
    movement: Moved
    without: tuple[TimedRun, ...]
    with_profile: tuple[TimedRun, ...] = msgspec.field(name="with")
    comparison: Compared


def feedback_json(feedback: Feedback) -> str:
    """Return `pgle manual` and `pgle nsys` as text."""
    measured, proof = feedback.measurement, feedback.proof
    return json_text(
        fill(
            PgleFeedback,
            feedback,
            proof=fill(ProfileProofJson, proof, coverage=_covered(proof.coverage)),
            profile=fill(MeasuredProfile, measured, coverage=_covered(measured.coverage)),
            movement=moved(feedback.movement),
            without=_runs(feedback.without),
            with_profile=_runs(feedback.with_profile),
        )
    )


def _runs(arm: ComparedRuns) -> list[TimedRun | None]:
    return [_run(run, score) for run, score in zip(arm.runs, arm.scores, strict=True)]


class ModuleUseJson(Result):
    """A module for which the compiler read a profile."""

    module: str
    use: str
    source: str
    found: int | None
    missing: int | None


class AheadOfTime(Result):
    """A function that was compiled ahead of time, which JAX never compiles again."""

    name: str | None
    where: str | None


class ProfilerConflictJson(Result):
    """Another profiler in the process."""

    who: str
    shown_by: str


class PgleAuto(Result, tag_field="schema", tag="counterpoint.pgle-auto/1"):
    """JAX's own loop: `counterpoint pgle auto --json`."""

    directory: str
    used: bool
    reasons: tuple[str, ...]
    modules: tuple[ModuleUseJson, ...]
    complaints: Annotated[tuple[LogComplaintJson, ...], At("evidence.complaints")]
    ahead_of_time: tuple[AheadOfTime, ...]
    conflicts: tuple[ProfilerConflictJson, ...]
    before: TimedRun | None
    optimise: TimedRun | None
    after: TimedRun | None
    comparison: Compared


def auto_json(auto: AutoResult) -> str:
    """Return `pgle auto` as text."""
    before, after = auto.scores or (None, None)
    return json_text(
        fill(
            PgleAuto,
            auto,
            modules=[use for use in auto.evidence.modules if use.source],
            before=_run(auto.before, before),
            optimise=_run(auto.optimise, None),
            after=_run(auto.after, after),
        )
    )
