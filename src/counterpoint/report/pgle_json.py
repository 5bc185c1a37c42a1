"""The commands of `pgle` as JSON: docs/reference/pgle-json.md. Nothing is cut.

Every key is always there; where a part is not known its keys are null, and `why_not` says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from counterpoint.core.basis import Unknown
from counterpoint.pgle.samples import same_costs, settled
from counterpoint.report.json import At, Pair, Result, Why, fill, json_text
from counterpoint.runs import Run
from counterpoint.runs.score import Score

if TYPE_CHECKING:
    from counterpoint.pgle import check
    from counterpoint.pgle.apply import Applied
    from counterpoint.pgle.check import Judgement
    from counterpoint.pgle.difference import Diff
    from counterpoint.pgle.modules import Made
    from counterpoint.pgle.movement import Movement
    from counterpoint.pgle.profile import Profile
    from counterpoint.workflow.feedback.auto import Auto
    from counterpoint.workflow.feedback.feedback import Arm, Comparison, Feedback


class ModuleCosts(Result):
    """A module that costs were made of; `covered` is the share of its device time with a cost."""

    name: str
    fingerprint: str | None
    instructions: int
    collectives: int
    executions: int
    devices: int
    hosts: int
    device_ms: float
    covered_ms: float
    covered: float | None


class PgleMake(Result, tag_field="schema", tag="counterpoint.pgle-make/1"):
    """What a profile was made of: `counterpoint pgle make --json`."""

    profile: str
    costs: int
    origin: dict[str, str]
    modules: tuple[ModuleCosts, ...]
    notes: tuple[str, ...]
    next: str


def made_json(made: Made, out: str, next: str) -> str:
    """`pgle make` as text."""
    profile = made.profile
    own = {"profile": out, "costs": len(profile.costs), "origin": profile.origin, "next": next}
    return json_text(fill(PgleMake, made, **own))


class ModuleSum(Result):
    """Modules of the same costs, and the sum of these."""

    fingerprints: tuple[str, ...]
    us: float


class CostOf(Result):
    """A cost as the file has it."""

    name: str
    fingerprint: str | None
    us: float


class PgleProfile(Result, tag_field="schema", tag="counterpoint.pgle-profile/1"):
    """What a file holds: `counterpoint pgle show --json`."""

    profile: str
    origin: dict[str, str]
    fingerprints: tuple[str, ...]
    bare: int
    taken: int
    total_us: float
    modules: tuple[ModuleSum, ...]
    costs: tuple[CostOf, ...]
    duplicates: dict[str, tuple[float, ...]]
    latencies: int


def profile_json(profile: Profile, name: str) -> str:
    """`pgle show` as text; `total_us` is of what XLA takes, each module once."""
    taken = settled(profile)
    same = same_costs(profile, taken)
    sums: defaultdict[str | None, float] = defaultdict(float)
    for cost in taken.values():
        sums[cost.fingerprint] += cost.us
    return json_text(
        fill(
            PgleProfile,
            profile,
            profile=name,
            bare=sum(cost.fingerprint is None for cost in profile.costs),
            taken=len(taken),
            total_us=sum(sums[first] for first in same),
            modules=[
                {"fingerprints": [it for it in group if it is not None], "us": sums[first]}
                for first, group in same.items()
            ],
            duplicates={key: tuple(it.us for it in of) for key, of in profile.duplicates.items()},
            latencies=len(profile.latencies),
        )
    )


class CostChange(Result):
    """A cost that both profiles have."""

    key: str
    a_us: float
    b_us: float
    difference_us: float
    ratio: float | None


class KeyCost(Result):
    """A cost that one profile has."""

    key: str
    us: float


class PgleDiff(Result, tag_field="schema", tag="counterpoint.pgle-diff/1"):
    """Two profiles side by side: `counterpoint pgle diff --json`."""

    a: str
    b: str
    by_name: bool
    a_us: float
    b_us: float
    equal: int
    changes: tuple[CostChange, ...]
    only_a: tuple[KeyCost, ...]
    only_b: tuple[KeyCost, ...]


def diff_json(diff: Diff, a: str, b: str) -> str:
    """`pgle diff` as text."""
    return json_text(fill(PgleDiff, diff, a=a, b=b))


class Part(Result):
    """Found, of the whole: instructions, or microseconds of device time."""

    found: float
    whole: float
    share: float


class Answer(Result):
    """What the profile says to one lookup."""

    name: str
    us: float | None
    category: str
    collective: Annotated[bool, At("lookup.collective")]
    sync: Annotated[bool, At("lookup.sync")]
    executions: int | None
    measured_us: float | None
    what: str
    source: str | None


class Unused(Result):
    """A cost that XLA does not look up."""

    name: str
    us: float
    why: str
    meant: str | None


class Doubt(Result):
    """A cost that can't be right."""

    name: str
    us: float
    why: str


class PgleCheck(Result, tag_field="schema", tag="counterpoint.pgle-check/1"):
    """How much of a program a profile covers: `counterpoint pgle check --json`."""

    profile: str
    program: str
    module: str
    other_modules: tuple[str, ...]
    fingerprint: str | None
    passed: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    fit: Annotated[str, At("staleness.fit")]
    fit_reason: Annotated[str, At("staleness.reason")]
    differences: Annotated[tuple[str, ...], At("staleness.differences")]
    instructions: Part
    collectives: Part
    time_us: Annotated[Part | None, At("time")]
    time_unknown: Annotated[str | None, Why("time")]
    measured: str | None
    answers: tuple[Answer, ...]
    unused: tuple[Unused, ...]
    duplicates: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    latencies_left_out: Annotated[int, At("latencies")]
    next: str


def pgle_check_json(
    coverage: check.Coverage,
    judgement: Judgement,
    profile: str,
    program: str,
    next: str,
    others: Sequence[str] = (),
) -> str:
    """`pgle check` as text."""
    unused = [fill(Unused, it, why=it.why.name.lower().replace("_", "-")) for it in coverage.extra]
    return json_text(
        fill(
            PgleCheck,
            coverage,
            profile=profile,
            program=program,
            other_modules=others,
            passed=judgement.passed,
            reasons=judgement.reasons,
            remarks=judgement.remarks,
            unused=unused,
            next=next,
        )
    )


class HiddenAtMost(Result):
    """Transfers that can be hidden, of all."""

    before: Annotated[float, At("hidden_before_us")]
    after: Annotated[float, At("hidden_after_us")]
    all: Annotated[float, At("transfers_us")] = msgspec.field(name="of")


class Move(Result):
    """A collective in both schedules."""

    name: str
    name_before: str
    kind: str
    bytes: int
    source: str | None
    executions: int | None
    start_shift_us: float
    within_us: Annotated[Pair, At("before.within_us", "after.within_us")]
    hidden_us: Annotated[Pair, At("before.hidden_us", "after.hidden_us")]
    transfer_us: Annotated[float | None, At("after.cost_us")]


class Moved(Result):
    """What the profile moved in the schedule."""

    why_not: str | None
    reordered: bool | None
    basis: Literal["predicted"]
    hidden_at_most_us: HiddenAtMost | None
    newly_overlapped: tuple[str, ...]
    no_longer_overlapped: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]
    moves: tuple[Move, ...]


def _moved(found: Movement | Unknown) -> Moved:
    if isinstance(found, Unknown):
        return fill(Moved, None, why_not=found.reason)
    return fill(
        Moved,
        found,
        why_not=None,
        hidden_at_most_us=found,
        newly_overlapped=[it.name for it in found.newly_overlapped],
        no_longer_overlapped=[it.name for it in found.no_longer_overlapped],
    )


class Memory(Result):
    """The compiler's plan, in bytes of one device."""

    peak: int | None
    temp: int | None
    argument: int | None
    output: int | None


class BothMemories(Result):
    """Memory without and with the profile."""

    without: Annotated[Memory, At("without.memory")]
    within: Annotated[Memory, At("compiled.memory")] = msgspec.field(name="with")


class BothSeconds(Result):
    """How long the compiler took."""

    without: Annotated[float, At("without.seconds")]
    within: Annotated[float, At("compiled.seconds")] = msgspec.field(name="with")


class PgleApply(Result, tag_field="schema", tag="counterpoint.pgle-apply/1"):
    """Whether the compiler used a profile, and what it moved: `counterpoint pgle apply --json`."""

    profile: Annotated[str, At("path")]
    used: bool
    stale: bool
    own_fingerprint: Annotated[str | None, At("own.fingerprint")]
    reason: str
    warnings: tuple[str, ...]
    fit: Annotated[str, At("coverage.staleness.fit")]
    program: Annotated[str, At("compiled.program.name")]
    fingerprint: Annotated[str | None, At("compiled.fingerprint")]
    target: str
    flags: Annotated[dict[str, str], At("options")]
    versions: Annotated[dict[str, str], At("compiled.versions")]
    notes: Annotated[tuple[str, ...], At("compiled.notes")]
    proof: tuple[str, ...]
    found: int
    missing: int
    missing_names: Annotated[tuple[str, ...], At("module.missing_names")]
    fallback: Annotated[str | None, At("module.fallback")]
    changed: bool
    movement: Moved
    memory: BothMemories
    compile_s: BothSeconds
    next: str


def pgle_apply_json(applied: Applied, next: str) -> str:
    """`pgle apply` as text."""
    moved = applied.movement if applied.used else Unknown("none of them was used")
    own = {"movement": _moved(moved), "memory": applied, "compile_s": applied, "next": next}
    return json_text(fill(PgleApply, applied, **own))


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
    """The step with the profile against that without: -0.03 is 3 % faster."""

    change: float | None
    why_not: str | None
    range: Pair | None
    why_no_range: Annotated[str | None, Why("range")]
    verdict: str | None
    pairs: int | None
    basis: Literal["measured"]


def _compared(found: Comparison | Unknown) -> Compared:
    if isinstance(found, Unknown):
        return fill(Compared, None, why_not=found.reason)
    return fill(Compared, found, why_not=None, pairs=len(found.without_s))


class Covered(Result):
    """Shares of the program that the profile has a cost for."""

    why_not: str | None
    instructions: Annotated[float | None, At("instructions.share")]
    collectives: Annotated[float | None, At("collectives.share")]
    time: Annotated[float | None, At("time.share")]
    fit: Annotated[str | None, At("staleness.fit")]


def _covered(found: check.Coverage | Unknown | None) -> Covered | None:
    if found is None:
        return None
    return fill(Covered, found, why_not=found.reason if isinstance(found, Unknown) else None)


class Complaint(Result):
    """What the compiler's log says against it, and what to do."""

    text: str
    next: str | None


class Proof(Result):
    """Whether the compiler used the profile, by its own log."""

    used: bool
    reasons: tuple[str, ...]
    source: Annotated[str | None, At("module.source")]
    found: Annotated[int | None, At("module.found")]
    missing: Annotated[int | None, At("module.missing")]
    fingerprint: Annotated[str | None, At("coverage.fingerprint")]
    coverage: Covered | None
    complaints: tuple[Complaint, ...]


class MeasuredProfile(Result):
    """The profile that was measured."""

    path: str
    costs: int
    module: str | None
    coverage: Covered | None
    notes: tuple[str, ...]


class PgleFeedback(Result, tag_field="schema", tag="counterpoint.pgle-feedback/1"):
    """Profile, compile and compare: `counterpoint pgle manual --json` and `pgle nsys --json`."""

    way: str
    directory: str
    used: bool
    proof: Proof
    profile: MeasuredProfile
    movement: Moved
    without: tuple[TimedRun, ...]
    with_profile: tuple[TimedRun, ...] = msgspec.field(name="with")
    comparison: Compared


def feedback_json(feedback: Feedback) -> str:
    """`pgle manual` and `pgle nsys` as text."""
    measured, proof = feedback.measurement, feedback.proof
    return json_text(
        fill(
            PgleFeedback,
            feedback,
            proof=fill(Proof, proof, coverage=_covered(proof.coverage)),
            profile=fill(
                MeasuredProfile,
                measured,
                costs=len(measured.profile.costs),
                coverage=_covered(measured.coverage),
            ),
            movement=_moved(feedback.movement),
            without=_runs(feedback.without),
            with_profile=_runs(feedback.with_profile),
            comparison=_compared(feedback.comparison),
        )
    )


def _runs(arm: Arm) -> list[TimedRun | None]:
    return [_run(run, score) for run, score in zip(arm.runs, arm.scores, strict=True)]


class ModuleUse(Result):
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


class Conflict(Result):
    """Another profiler in the process."""

    who: str
    shown_by: str


class PgleAuto(Result, tag_field="schema", tag="counterpoint.pgle-auto/1"):
    """JAX's own loop: `counterpoint pgle auto --json`."""

    directory: str
    used: bool
    reasons: tuple[str, ...]
    modules: tuple[ModuleUse, ...]
    complaints: Annotated[tuple[Complaint, ...], At("evidence.complaints")]
    ahead_of_time: tuple[AheadOfTime, ...]
    conflicts: tuple[Conflict, ...]
    before: TimedRun | None
    optimise: TimedRun | None
    after: TimedRun | None
    comparison: Compared


def auto_json(auto: Auto) -> str:
    """`pgle auto` as text."""
    before, after = auto.scores or (None, None)
    return json_text(
        fill(
            PgleAuto,
            auto,
            modules=[it for it in auto.evidence.modules if it.source],
            before=_run(auto.before, before),
            optimise=_run(auto.optimise, None),
            after=_run(auto.after, after),
            comparison=_compared(auto.comparison),
        )
    )
