"""Rosters: which arms run in a row, as decided when the row began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.budget import FEWEST_CONFIRM_ROWS, remaining_budget
from counterpoint.tune.race.estimates import confirmed, overlap, raced, racers
from counterpoint.tune.race.finals import (
    begun,
    falls_short,
    had_fresh_runs,
    late,
    next_finalists,
    rows_due,
    without_each,
)
from counterpoint.tune.race.rows import ABLATE, RaceRow, rows_of
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate
from counterpoint.tune.study.study import Study


def undecided(study: Study, plan: StudyPlan, row: RaceRow | None = None) -> tuple[Arm, ...]:
    """Return the arms whose next rows are worth their time; with `row`, as of when that row began.

    An arm that had its fresh runs takes no more part in the race.
    """
    estimates = raced(study, plan, row and row.number)
    through = had_fresh_runs(study, plan, row and row.number)
    return tuple(
        arm
        for arm in racers(study)
        if (row is None or study.entered[arm.name] <= row.before)
        and arm.name not in through
        and (arm.name not in estimates or not estimates[arm.name].decided)
    )


def race_roster(study: Study, plan: StudyPlan, row: RaceRow | None = None) -> tuple[str, ...]:
    """Return the base and the undecided arms.

    A combined arm runs with the best of the others, so that they can be compared.
    """
    arms = undecided(study, plan, row)
    combinations = [arm.name for arm in arms if arm.origin is ArmOrigin.COMBINED]
    if not combinations:
        return (BASE, *(arm.name for arm in arms)) if arms else ()
    estimates = raced(study, plan, row and row.number)
    others = [
        arm.name
        for arm in racers(study)
        if arm.origin is not ArmOrigin.COMBINED
        and arm.name in estimates
        and estimates[arm.name].verdict is ArmVerdict.FASTER
    ]
    best = max(others, key=lambda name: estimates[name].gain, default=None)
    return (BASE, *([best] if best else []), *combinations)


def confirm_roster(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[str, ...]:
    """Return the base and the arms due for fresh runs; with `before`, as of when that row began.

    That is the best arm, plus the second best if the race can't separate them and the budget covers
    both. Further arms follow if these do not confirm the gain for which the race ended early.
    """
    if not plan.confirm_rows:
        return ()
    due = begun(study, plan, before)
    if not due:
        due = _best_two(study, plan, before)
    names = {arm.name for arm in due}
    return (BASE, *(arm.name for arm in study.arms if arm.name in names)) if names else ()


def _best_two(study: Study, plan: StudyPlan, before: int | None) -> tuple[Arm, ...]:
    best = next_finalists(study, plan, before)
    if had_fresh_runs(study, plan, before) and not falls_short(study, plan, before):
        best = tuple(arm for arm in best if arm.name in late(study, before))
    best = best[:2]
    available = remaining_budget(study, plan).left
    if before is not None:
        available += sum(trial.started.row >= before for trial in study.trials)
    if not best or available < FEWEST_CONFIRM_ROWS * 2:
        return ()
    estimates = raced(study, plan, before)
    alike = len(best) == 2 and overlap(estimates[best[0].name], estimates[best[1].name])
    if alike and available >= 3 * rows_due(study, plan, best[0].name, len(best), before):
        return best
    return best[:1]


def ablate_roster(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[str, ...]:
    """Return the winner and its ablations that still need rows."""
    winner = winner_of(study, plan)
    if winner is None:
        return ()
    parts = {arm.name for arm in without_each(study.arm(BASE).settings, winner)} - set(
        study.dropped
    )
    short = [
        arm.name
        for arm in study.arms
        if arm.name in parts
        and rows_of(study, arm.name, ABLATE, winner.name, before) < ablation_rows(plan)
    ]
    return (winner.name, *short) if short else ()


def ablation_rows(plan: StudyPlan) -> int:
    """Return the rows of an ablation: as many as a confirmation's, at least two."""
    return max(plan.confirm_rows, 2)


def winner_of(study: Study, plan: StudyPlan) -> Arm | None:
    """Return the arm that is certainly faster: by fresh runs, or by the race if none are requested.

    Of several it is the one that saves most, or a simpler one tied with it. There is no winner
    before the confirmation is complete.
    """
    estimates = confirmed(study, plan) if plan.confirm_rows else raced(study, plan)
    faster = [
        arm
        for arm in racers(study)
        if arm.name in estimates and estimates[arm.name].verdict is ArmVerdict.FASTER
    ]
    return simplest_best(faster, estimates, plan.rule.indifferent)


def simplest_best(
    arms: Iterable[Arm], told: Mapping[str, GainEstimate], indifferent: float
) -> Arm | None:
    """Return the arm that saves most, or a simpler one tied with it.

    Arms are tied if their ranges overlap and their gains differ by no more than `indifferent`; of
    these it is the one with the fewest changes.
    """
    several = sorted(arms, key=lambda arm: -told[arm.name].gain)
    if not several:
        return None
    best = told[several[0].name]
    tied = [
        arm
        for arm in several
        if best.gain - told[arm.name].gain <= indifferent and overlap(told[arm.name], best)
    ]
    return min(tied, key=lambda arm: len(arm.changes))
