"""`pgle manual`, `nsys` and `auto` as JSON: docs/reference/pgle-json.md.

Every key is always present; if a part is unknown, its keys are null, and `why_not` is the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from counterpoint.core import Unknown
from counterpoint.core.field import Field
from counterpoint.report.json import At, CountOf, Pair, ReasonUnknown, Result, fill, json_text
from counterpoint.report.pgle.pgle_json import Moved, moved
from counterpoint.runs.run import Run
from counterpoint.runs.scores import Score

if TYPE_CHECKING:
    from counterpoint.pgle.checking.check import Coverage
    from counterpoint.workflow.feedback import AutoResult, ComparedRuns, Feedback


class StepMs(Result):
    """The median step of a run."""

    median: Annotated[float, Field("the median step")]
    steps: Annotated[int, Field("number of steps")]
    source: Annotated[str, Field("how steps were counted")]
    basis: Annotated[Literal["measured"], Field("`measured`")]


class TimedRun(Result):
    """A run, and its step or why it has none."""

    path: Annotated[str, Field("the Run's directory")]
    outcome: Annotated[str, Field("how it ended")]
    step_ms: Annotated[StepMs | None, Field("its step; null: `why_not`")]
    why_not: Annotated[str | None, Field("why it has none")]


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

    change: Annotated[float | None, Field("of the step time; -0.03: 3% shorter")]
    why_not: Annotated[str | None, ReasonUnknown(), Field("why there is no comparison")]
    range: Annotated[Pair | None, Field("95%, from pairs of runs")]
    why_no_range: Annotated[str | None, ReasonUnknown("range"), Field("why there is no range")]
    verdict: Annotated[str | None, Field("faster, slower, no difference, not decided")]
    pairs: Annotated[int | None, CountOf("without_s"), Field("pairs of runs")]
    basis: Annotated[Literal["measured"], Field("`measured`")]


class CoverageJson(Result):
    """Shares of the program that the profile has a cost for."""

    why_not: Annotated[str | None, ReasonUnknown(), Field("why it is not known; null: it is")]
    instructions: Annotated[
        float | None, At("instructions.share"), Field("share of the instructions with a cost")
    ]
    collectives: Annotated[
        float | None, At("collectives.share"), Field("share of the collectives with a cost")
    ]
    time: Annotated[float | None, At("time.share"), Field("share of the measured time with a cost")]
    fit: Annotated[str | None, At("staleness.fit"), Field("`fits`, `stale`, `foreign`, `untold`")]


def _covered(coverage: Coverage | Unknown | None) -> CoverageJson | None:
    return None if coverage is None else fill(CoverageJson, coverage)


class LogComplaintJson(Result):
    """A problem in the compiler's log, and its remedy."""

    text: Annotated[str, Field("the line of the log")]
    next: Annotated[str | None, Field("what to do")]


class ProfileProofJson(Result):
    """The compiler's use of the profile, by its own log."""

    used: Annotated[bool, Field("whether the compiler used the profile, by its own log")]
    reasons: Annotated[tuple[str, ...], Field("how it is known")]
    source: Annotated[
        str | None, At("module.source"), Field("the file whose costs the compiler used")
    ]
    found: Annotated[
        int | None, At("module.found"), Field("costs found, by the compiler's own count")
    ]
    missing: Annotated[
        int | None, At("module.missing"), Field("costs missing, by the compiler's own count")
    ]
    fingerprint: Annotated[str | None, At("coverage.fingerprint"), Field("of the compiled program")]
    coverage: Annotated[CoverageJson | None, Field("of the compiled program")]
    complaints: Annotated[tuple[LogComplaintJson, ...], Field("problems in the compiler's log")]


class MeasuredProfile(Result):
    """The profile that was measured."""

    path: Annotated[str, Field("its file")]
    costs: Annotated[int, CountOf("profile.costs"), Field("number of costs")]
    module: Annotated[str | None, Field("the module that was measured")]
    coverage: Annotated[CoverageJson | None, Field("of the program it was measured on")]
    notes: Annotated[tuple[str, ...], Field("what to know of it")]


class PgleFeedback(Result, tag_field="schema", tag="counterpoint.pgle-feedback/1"):
    """Profile, compile and compare: `counterpoint pgle manual --json` and `pgle nsys --json`."""

    way: Annotated[str, Field("`manual` or `nsys`")]
    directory: Annotated[str, Field("the directory of all files")]
    used: Annotated[
        bool, Field("true if every run with the profile is proved to have been compiled with it")
    ]
    proof: Annotated[
        ProfileProofJson,
        Field("the compiler's use of the profile"),
    ]
    profile: Annotated[
        MeasuredProfile,
        Field("the profile that was measured"),
    ]
    movement: Annotated[
        Moved,
        Field("what the profile moved in the schedule, by the profile's costs"),
    ]
    without: Annotated[
        tuple[TimedRun, ...],
        Field("the runs without the profile, in order"),
    ]
    with_profile: Annotated[tuple[TimedRun, ...], Field("the runs with the profile, in order")] = (
        msgspec.field(name="with")
    )
    comparison: Annotated[
        Compared,
        Field("the change of the step time"),
    ]


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

    module: Annotated[str, Field("the module")]
    use: Annotated[str, Field("how it was compiled")]
    source: Annotated[str, Field("the file of its costs")]
    found: Annotated[int | None, Field("costs found")]
    missing: Annotated[int | None, Field("costs missing")]


class AheadOfTime(Result):
    """A function that was compiled ahead of time, which JAX never compiles again."""

    name: Annotated[str | None, Field("the function")]
    where: Annotated[str | None, Field("file:line")]


class ProfilerConflictJson(Result):
    """Another profiler in the process."""

    who: Annotated[str, Field("the profiler")]
    shown_by: Annotated[str, Field("how it is known")]


class PgleAuto(Result, tag_field="schema", tag="counterpoint.pgle-auto/1"):
    """JAX's own loop: `counterpoint pgle auto --json`."""

    directory: Annotated[str, Field("the directory of all files")]
    used: Annotated[bool, Field("whether a program was compiled with costs that JAX measured")]
    reasons: Annotated[
        tuple[str, ...],
        Field("how it is known"),
    ]
    modules: Annotated[
        tuple[ModuleUseJson, ...],
        Field("the modules compiled with a profile"),
    ]
    complaints: Annotated[
        tuple[LogComplaintJson, ...],
        At("evidence.complaints"),
        Field("complaints in the log; other users of the profiling interface"),
    ]
    ahead_of_time: Annotated[
        tuple[AheadOfTime, ...],
        Field("functions compiled by `.lower().compile()`"),
    ]
    conflicts: Annotated[
        tuple[ProfilerConflictJson, ...],
        Field("complaints in the log; other users of the profiling interface"),
    ]
    before: Annotated[TimedRun | None, Field("the run before; null if there was none")]
    optimise: Annotated[
        TimedRun | None,
        Field("the run in which JAX measured and compiled again; null if there was none"),
    ]
    after: Annotated[TimedRun | None, Field("the run with the result; null if there was none")]
    comparison: Annotated[Compared, Field("the change of the step time")]


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
