"""Conclusion: the result of a study, done or not, and the only input of its report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from counterpoint.core import Range, Unknown, as_html
from counterpoint.core.field import Field
from counterpoint.core.printable import counted_noun
from counterpoint.tune.arm import Acts, Arm, ArmOrigin, Predicted
from counterpoint.tune.conclusion.caveats import foreign_devices
from counterpoint.tune.conclusion.results import NOISY, StudyResults
from counterpoint.tune.race.drop_rules import rows_to_next_look
from counterpoint.tune.race.race import DECIDED, SPENT
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.space.space import LeftOut
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate, RunNoise
from counterpoint.tune.study.records import Ablated, CandidateSeen
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose, TrialFailure

WINNER = "winner"
NOT_CONFIRMED = "not confirmed"
NOT_PREDICTABLE = "not predictable"
NOT_LOOKED_AT = "not looked at"
NOT_TRIED = "not tried"
WORTH_A_TRIAL = "worth a trial"
_ORDER = (WINNER, "base", str(ArmVerdict.FASTER), NOT_CONFIRMED, str(ArmVerdict.OPEN))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm of the table.

    `status` is a word or two: winner, faster, slower, no effect, not decided, same program, out of
    memory, other numbers, hang, ... `median_s` is over all its runs, as are what a run took
    (`trial_s`), its part beside its steps (`start_s`), and XLA's part. `raced` is from the race,
    `confirmed` from the fresh runs; `prediction_off` is measured over predicted step, less one.
    """

    arm: Arm
    status: str
    why: str = ""
    trials: int = 0
    failures: int = 0  # trials without a step time, also those that were interrupted
    interrupted: int = 0
    median_s: float | None = None
    raced: GainEstimate | None = None
    confirmed: GainEstimate | None = None
    prediction_off: float | None = None
    program: str | None = None
    peak_bytes: int | None = None
    trial_s: float | None = None
    start_s: float | None = None
    compile_s: float | None = None

    @property
    def estimate(self) -> GainEstimate | None:
        """The estimate from fresh runs if there were any, else from the race."""
        return self.confirmed or self.raced

    @property
    def step_s(self) -> float | None:
        """The step that the gain is computed from; for the base or without a gain, `median_s`."""
        step_s = self.estimate.step_s if self.estimate is not None else None
        return self.median_s if step_s is None else step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost so far, and what is left of the budget; None without a limit.

    `why_left` says why a finished study did not use all of it.
    """

    trials: Annotated[int, Field("runs that were started")]
    seconds: Annotated[float, Field("time that the study took")]
    node_seconds: Annotated[float, Field("the same, times the nodes of each run")]
    trials_left: Annotated[
        int | None, Field("runs that the budget has left; null: no limit of that kind")
    ] = None
    seconds_left: Annotated[
        float | None, Field("time that the budget has left; null: no limit of that kind")
    ] = None
    why_left: Annotated[
        str | None,
        Field(
            "why a finished study did not use the rest; null while it runs, and if nothing is left"
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The result of a study.

    `sentence` is the verdict; `basis` is measured or predicted. `winner` is the recommended arm,
    None for the base. `gain` and `range` are the winner's: from fresh runs alone if it was
    confirmed. `left_out` are arms that the user named and that take no part.
    """

    sentence: str
    basis: str
    state: str  # running, paused, interrupted, done
    winner: Arm | None = None
    verdict: ArmVerdict | None = None
    confirmed: bool = False
    gain: float | None = None
    range: Range | None = None
    rows: tuple[ArmRow, ...] = ()
    noise: RunNoise | None = None
    spent: Spent | None = None
    ablation: tuple[Ablated, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __repr__(self) -> str:
        return f"<Conclusion ({self.basis}, {self.state}): {self.sentence}>"

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def knows_base(self) -> bool:
        """Whether there is a figure for the base: measured, or predicted if nothing was run."""
        base = [row for row in self.rows if row.arm.is_base]
        if self.basis == "predicted":
            return any(row.arm.predicted is not None for row in base)
        return any(row.median_s is not None for row in base)


def arm_rows(state: RaceState, found: StudyResults) -> tuple[ArmRow, ...]:
    """Return the winner, the base, faster, unconfirmed and undecided arms, then the others."""
    study = state.study
    rows = [_row(state, arm, found) for arm in study.arms]
    known = {arm.name for arm in study.arms}
    rows += [_untried(state, seen) for seen in study.candidates if seen.arm.name not in known]
    return tuple(sorted(rows, key=_place))


def _place(row: ArmRow) -> tuple[int, int, float]:
    at = _ORDER.index(row.status) if row.status in _ORDER else len(_ORDER)
    estimate = row.confirmed or row.raced
    if estimate is not None and estimate.gain == estimate.gain:
        return at, 0, -estimate.gain
    prediction = row.arm.predicted
    return at, 1, -prediction.gain if prediction is not None else 1.0


def _row(state: RaceState, arm: Arm, found: StudyResults) -> ArmRow:
    study = state.study
    trials = study.trials_of(arm.name)
    timed = [
        trial for trial in trials if trial.counts and trial.started.purpose is not Purpose.PROFILE
    ]
    seen = [trial.report for trial in timed if trial.report is not None]
    steps = [report.steady.median_s for report in seen if report.steady is not None]
    step = median(steps) if steps else None
    peaks = [report.peak_bytes for report in seen if report.peak_bytes is not None]
    status, why = _status(state, arm, found)
    estimate = found.fresh.get(arm.name) or found.raced.get(arm.name)
    return ArmRow(
        arm=arm,
        status=status,
        why=why,
        trials=len(trials),
        failures=sum(trial.failure is not None for trial in trials),
        interrupted=sum(trial.failure is TrialFailure.INTERRUPTED for trial in trials),
        median_s=step,
        raced=found.raced.get(arm.name),
        confirmed=found.fresh.get(arm.name),
        prediction_off=_off(study, arm, (estimate.step_s if estimate else None) or step),
        program=next((report.program for report in seen if report.program), None),
        peak_bytes=max(peaks, default=None),
        trial_s=_median(trial.wall_s for trial in timed),
        start_s=_median(report.start_s for report in seen),
        compile_s=_median(report.compile_s for report in seen),
    )


def _median(figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


def _off(study: Study, arm: Arm, step: float | None) -> float | None:
    """Return measured over predicted step, less one; None if the two can't be compared."""
    if step is None or arm.predicted is None or foreign_devices(study) is not None:
        return None
    return step / arm.predicted.step_s - 1


def _status(state: RaceState, arm: Arm, found: StudyResults) -> tuple[str, str]:
    study = state.study
    if arm.is_base:
        return "base", ""
    drop = study.dropped.get(arm.name)
    estimate = found.fresh.get(arm.name) or found.raced.get(arm.name)
    if drop is not None and not (estimate is not None and estimate.why.startswith(NOISY)):
        return drop.kind, drop.why
    if found.winner is not None and arm.name == found.winner.name:
        return WINNER, ""
    if arm.origin is ArmOrigin.ABLATION or estimate is None:
        return str(ArmOrigin.ABLATION) if arm.origin is ArmOrigin.ABLATION else NOT_TRIED, ""
    unknown = estimate.range.reason if isinstance(estimate.range, Unknown) else ""
    why = estimate.why or unknown
    if arm.name in found.fresh and estimate.verdict is not ArmVerdict.FASTER:
        return NOT_CONFIRMED, why
    return str(estimate.verdict), "; ".join(filter(None, (why, *_no_more_runs(state, estimate))))


def _no_more_runs(state: RaceState, estimate: GainEstimate) -> Iterator[str]:
    """Yield why an undecided arm was not run again."""
    study = state.study
    drop = study.dropped.get(estimate.arm)
    if drop is not None:
        yield f"it was dropped ({drop.kind}, {drop.why}), but such noise allows no proof"
    elif study.ended is not None and estimate.verdict is ArmVerdict.OPEN:
        if estimate.rows >= state.plan.rule.cap:
            yield f"its {estimate.rows} rows are the maximum that --cap allows"
        elif study.ended.why == SPENT:
            yield "the budget had no room for more runs of it"


def _untried(state: RaceState, seen: CandidateSeen) -> ArmRow:
    """Return the row of a candidate that was only predicted."""
    if seen.failure is not None:
        return ArmRow(arm=seen.arm, status="failed", why=seen.failure)
    if seen.same_as is not None:
        return ArmRow(arm=seen.arm, status="same program", why=_same(seen))
    prediction = seen.arm.predicted
    if prediction is not None and prediction.fits is False:
        status = "base" if seen.arm.is_base else "out of memory"
        return ArmRow(arm=seen.arm, status=status, why=_too_large(prediction))
    if seen.arm.is_base:
        return ArmRow(arm=seen.arm, status="base")
    return _predicted_only(state, seen)


def _same(seen: CandidateSeen) -> str:
    """Explain an equal program, which is equally fast only if nothing differs at run time."""
    at_run = [str(change) for change in seen.arm.changes if change.acts is Acts.RUNTIME]
    also = f"; the run-time effect of {', '.join(at_run)} can't be predicted" if at_run else ""
    return f"the same as {seen.same_as}{also}"


def _predicted_only(state: RaceState, seen: CandidateSeen) -> ArmRow:
    if seen.arm.name in {arm.name for arm in state.to_enter}:
        return ArmRow(arm=seen.arm, status=WORTH_A_TRIAL)
    if seen.arm.predicted is not None:
        return ArmRow(arm=seen.arm, status="predicted")
    if seen.arm.is_worth_compiling:
        return ArmRow(arm=seen.arm, status=NOT_LOOKED_AT, why="the search ended before its turn")
    why = "it acts at run time, and the shortlist had no room for it"
    return ArmRow(arm=seen.arm, status=NOT_PREDICTABLE, why=why)


def _too_large(predicted: Predicted) -> str:
    if predicted.peak_bytes is None or predicted.limit_bytes is None:
        return "it is predicted not to fit"
    peak, limit = (
        f"{size / 2**30:.1f} GiB" for size in (predicted.peak_bytes, predicted.limit_bytes)
    )
    if peak == limit:
        peak, limit = f"{predicted.peak_bytes:,} bytes", f"{predicted.limit_bytes:,}"
    return f"its predicted peak of {peak} exceeds the {limit} of JAX's allocator"


def spent(state: RaceState) -> Spent:
    """Return the cost so far, from the wall times of the trials."""
    study = state.study
    nodes = {allocation.number: max(len(allocation.nodes), 1) for allocation in study.allocations}
    walls = [
        (trial.wall_s, nodes.get(trial.started.allocation, state.plan.shape.nodes))
        for trial in study.trials
        if trial.wall_s is not None
    ]
    seconds = sum(wall_s for wall_s, _ in walls)
    budget = state.plan.budget
    trials_left = None if budget.trials is None else max(budget.trials - state.charged, 0)
    seconds_left = None if budget.seconds is None else max(budget.seconds - seconds, 0.0)
    left = bool(trials_left or seconds_left)
    return Spent(
        trials=len(study.trials),
        seconds=seconds,
        node_seconds=sum(wall_s * count for wall_s, count in walls),
        trials_left=trials_left,
        seconds_left=seconds_left,
        why_left=_why_left(state) if left else None,
    )


def _why_left(state: RaceState) -> str | None:
    """Return why a finished study did not use all of its budget."""
    study = state.study
    if study.ended is None:
        return None
    if study.ended.why != SPENT:
        return "no arm is due for more runs" if study.ended.why == DECIDED else study.ended.why
    going = state.race_roster
    if going:
        need = max(rows_to_next_look(state), 1) * len(going)
        arms, trials = counted_noun(len(going) - 1, "arm"), counted_noun(need, "trial")
        return f"the next look at {arms} would take {trials}"
    return "too little for another arm and its fresh runs"
