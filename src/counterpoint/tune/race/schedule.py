"""Rosters: who runs in which rows, as it was decided when a row began."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from counterpoint.tune.arm import BASE, Arm, Origin
from counterpoint.tune.plan import Plan
from counterpoint.tune.race.budget import FEWEST_CONFIRM_ROWS, purse
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
from counterpoint.tune.race.rows import ABLATE, Row, rows_of
from counterpoint.tune.statistics.estimate import Estimate, Verdict
from counterpoint.tune.study.study import Study


def undecided(study: Study, plan: Plan, row: Row | None = None) -> tuple[Arm, ...]:
    """Those whose next rows are worth their time; with `row`, as it was when that one began.

    Of an arm that had its fresh runs the race has nothing more to say.
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


def race_roster(study: Study, plan: Plan, row: Row | None = None) -> tuple[str, ...]:
    """The base and those that are not decided.

    An arm that was combined of others runs beside the best of these, so that they can be compared.
    """
    arms = undecided(study, plan, row)
    combinations = [arm.name for arm in arms if arm.origin is Origin.COMBINED]
    if not combinations:
        return (BASE, *(arm.name for arm in arms)) if arms else ()
    estimates = raced(study, plan, row and row.number)
    others = [
        arm.name
        for arm in racers(study)
        if arm.origin is not Origin.COMBINED
        and arm.name in estimates
        and estimates[arm.name].verdict is Verdict.FASTER
    ]
    best = max(others, key=lambda name: estimates[name].gain, default=None)
    return (BASE, *([best] if best else []), *combinations)


def confirm_roster(study: Study, plan: Plan, before: int | None = None) -> tuple[str, ...]:
    """The base and those whose fresh runs are due; with `before`, as it was when that row began.

    The best one alone, or beside the second if the race can't tell them apart and both can be paid
    for. The next ones follow where these do not show the gain for which the race was ended early.
    """
    if not plan.confirm_rows:
        return ()
    due = begun(study, plan, before)
    if not due:
        due = _best_two(study, plan, before)
    names = {arm.name for arm in due}
    return (BASE, *(arm.name for arm in study.arms if arm.name in names)) if names else ()


def _best_two(study: Study, plan: Plan, before: int | None) -> tuple[Arm, ...]:
    best = next_finalists(study, plan, before)
    if had_fresh_runs(study, plan, before) and not falls_short(study, plan, before):
        best = tuple(arm for arm in best if arm.name in late(study, before))
    best = best[:2]
    available = purse(study, plan).left
    if before is not None:
        available += sum(trial.started.row >= before for trial in study.trials)
    if not best or available < FEWEST_CONFIRM_ROWS * 2:
        return ()
    estimates = raced(study, plan, before)
    alike = len(best) == 2 and overlap(estimates[best[0].name], estimates[best[1].name])
    if alike and available >= 3 * rows_due(study, plan, best[0].name, len(best), before):
        return best
    return best[:1]


def ablate_roster(study: Study, plan: Plan, before: int | None = None) -> tuple[str, ...]:
    """The winner, and itself without each of its changes."""
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


def ablation_rows(plan: Plan) -> int:
    """As many as a confirmation, but never one alone."""
    return max(plan.confirm_rows, 2)


def winner_of(study: Study, plan: Plan) -> Arm | None:
    """The arm that is faster for certain: by its fresh runs, or by the race where none were asked.

    Of several the one that saves most, or a simpler one that is tied with it. It says nothing
    before the confirmation is through.
    """
    estimates = confirmed(study, plan) if plan.confirm_rows else raced(study, plan)
    faster = [
        arm
        for arm in racers(study)
        if arm.name in estimates and estimates[arm.name].verdict is Verdict.FASTER
    ]
    return simplest_best(faster, estimates, plan.rule.indifferent)


def simplest_best(
    arms: Iterable[Arm], told: Mapping[str, Estimate], indifferent: float
) -> Arm | None:
    """The arm that saves most.

    Of those that can't be told from it, and save as much but for what counts for nothing, the one
    of the fewest changes.
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
