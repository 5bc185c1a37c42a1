"""Findings: the results of a study's measurements, before they are put into words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.core import Range
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.journal.records import Ablated
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.estimates import (
    SAME_PROGRAM,
    ablated,
    confirmed,
    raced,
    raced_until_out,
    racers,
)
from counterpoint.tune.race.finals import finalists, had_fresh_runs, left_out, without_each
from counterpoint.tune.race.rows import ABLATE
from counterpoint.tune.race.schedule import simplest_best
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate
from counterpoint.tune.study.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResults:
    """Estimates by arm; `fresh` are those of the confirmation, once it is complete.

    `refuted` is an arm that was or seemed faster in the race but not in its fresh runs.
    """

    raced: Mapping[str, GainEstimate]
    fresh: Mapping[str, GainEstimate]
    winner: Arm | None = None
    refuted: Arm | None = None

    @property
    def confirmed(self) -> bool:
        return self.winner is not None and self.winner.name in self.fresh

    @property
    def claimed(self) -> GainEstimate | None:
        """The claim about the winner: from fresh runs alone, if there are any."""
        if self.winner is None:
            return None
        return self.fresh.get(self.winner.name) or self.raced.get(self.winner.name)


def study_results(study: Study, plan: StudyPlan) -> StudyResults:
    """Return the findings so far; nothing is claimed between two looks.

    A dropped arm keeps the estimate that it was dropped for.
    """
    estimates = raced(study, plan)
    for name in study.dropped:
        then = raced_until_out(study, plan, name)
        if then is not None:
            estimates = {**estimates, name: then}
    through = had_fresh_runs(study, plan)
    fresh = {
        name: estimate
        for name, estimate in confirmed(study, plan).items()
        if (study.ended is not None or name in through) and not math.isnan(estimate.gain)
    }
    arms = {arm.name: arm for arm in racers(study)}
    best = _best(arms, fresh, plan)
    if best is not None:
        return StudyResults(raced=estimates, fresh=fresh, winner=best)
    failed = [name for name in fresh if name in arms]
    if failed:
        best_raced = max(
            failed, key=lambda name: estimates[name].gain if name in estimates else -math.inf
        )
        return StudyResults(raced=estimates, fresh=fresh, refuted=arms[best_raced])
    decided = {name: estimate for name, estimate in estimates.items() if estimate.decided}
    return StudyResults(raced=estimates, fresh=fresh, winner=_best(arms, decided, plan))


def _best(arms: Mapping[str, Arm], told: Mapping[str, GainEstimate], plan: StudyPlan) -> Arm | None:
    faster = [
        arms[name]
        for name, estimate in told.items()
        if name in arms and estimate.verdict is ArmVerdict.FASTER
    ]
    return simplest_best(faster, told, plan.rule.indifferent)


def doubtful(study: Study, plan: StudyPlan) -> Arm | None:
    """Return the most promising arm if none is certainly faster."""
    return next(iter(finalists(study, plan)), None)


def measured_ablation(study: Study, plan: StudyPlan, found: StudyResults) -> tuple[Ablated, ...]:
    """Return the measured loss of the winner without each of its changes."""
    claim = found.claimed
    if found.winner is None or claim is None:
        return ()
    base = next(arm for arm in study.arms if arm.is_base).settings
    parts = {arm.name for arm in without_each(base, found.winner)}
    estimates = ablated(study, plan, found.winner.name)
    times = [trial.started.at for trial in study.trials if trial.started.purpose in ABLATE]
    measured: list[Ablated] = []
    for arm in study.arms:
        change = left_out(found.winner, arm, base)
        if arm.origin is not ArmOrigin.ABLATION or arm.name not in parts or change is None:
            continue
        loses = _loses(study, arm, estimates.get(arm.name), 1 - claim.gain)
        if loses is not None:
            measured.append(
                Ablated(
                    arm=found.winner.name,
                    dimension=change.dimension,
                    choice=change.choice,
                    loses=loses[0],
                    low=loses[1],
                    high=loses[2],
                    basis="measured",
                    at=times[-1],
                )
            )
    return tuple(measured)


def _loses(
    study: Study, arm: Arm, estimate: GainEstimate | None, share: float
) -> tuple[float, float | None, float | None] | None:
    """Return losses as shares of the base's step; `share` is the winner's step in the same unit."""
    drop = study.dropped.get(arm.name)
    if drop is not None:
        return (0.0, 0.0, 0.0) if drop.kind == SAME_PROGRAM else None
    if estimate is None or math.isnan(estimate.gain):
        return None
    reach = estimate.range
    if not isinstance(reach, Range):
        return -estimate.gain * share, None, None
    return -estimate.gain * share, -reach.high * share, -reach.low * share
