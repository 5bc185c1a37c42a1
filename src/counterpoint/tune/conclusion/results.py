"""The results of a study's measurements, before they are put into words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.core import Range
from counterpoint.tune.arm import (
    BASE,
    Arm,
    ArmOrigin,
    possible_effects_text,
)
from counterpoint.tune.race.combinations import left_out, without_each
from counterpoint.tune.race.rows import ABLATE
from counterpoint.tune.race.state import SAME_PROGRAM, RaceState, simplest_best
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    GainEstimate,
    shows_no_effect,
)
from counterpoint.tune.study.records import Ablated
from counterpoint.tune.study.study import Study

NOISY: Final = "too noisy to tell"


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


def study_results(state: RaceState) -> StudyResults:
    """Return the results so far; nothing is claimed between two looks.

    A dropped arm keeps the estimate that it was dropped for.
    """
    study, indifferent = state.study, state.plan.rule.indifferent
    then = {name: state.raced_until_dropped(name) for name in study.dropped}
    raced = {**state.raced, **{name: found for name, found in then.items() if found is not None}}
    fresh = {
        name: estimate
        for name, estimate in state.confirmed.items()
        if (study.ended is not None or name in state.had_fresh_runs)
        and not math.isnan(estimate.gain)
    }
    best = simplest_best(state.faster(fresh), fresh, indifferent)
    if best is not None:
        return StudyResults(raced=raced, fresh=fresh, winner=best)
    refuted = [arm for arm in state.racers if arm.name in fresh]
    if refuted:
        gains = {name: estimate.gain for name, estimate in raced.items()}
        best_raced = max(refuted, key=lambda arm: gains.get(arm.name, -math.inf))
        return StudyResults(raced=raced, fresh=fresh, refuted=best_raced)
    decided = {name: estimate for name, estimate in raced.items() if estimate.decided}
    best = simplest_best(state.faster(decided), decided, indifferent)
    return StudyResults(raced=raced, fresh=fresh, winner=best)


def measured_ablation(state: RaceState, found: StudyResults) -> tuple[Ablated, ...]:
    """Return the measured loss of the winner without each of its changes."""
    study, claim = state.study, found.claimed
    if found.winner is None or claim is None:
        return ()
    base = study.arm(BASE).settings
    parts = {arm.name for arm in without_each(base, found.winner)}
    estimates = state.ablated(found.winner.name)
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


def without_unproven_no_effect(found: StudyResults) -> StudyResults:
    """Return the findings, with "no effect" changed to open where the range is too wide."""
    return replace(
        found,
        raced={
            name: _without_unproven_no_effect(estimate) for name, estimate in found.raced.items()
        },
        fresh={
            name: _without_unproven_no_effect(estimate) for name, estimate in found.fresh.items()
        },
    )


def _without_unproven_no_effect(estimate: GainEstimate) -> GainEstimate:
    if estimate.verdict is not ArmVerdict.SAME or not isinstance(estimate.range, Range):
        return estimate
    if shows_no_effect(estimate):
        return estimate
    why = f"{NOISY}: {possible_effects_text([estimate.range])} can't be seen here"
    return replace(estimate, verdict=ArmVerdict.OPEN, why=why)
