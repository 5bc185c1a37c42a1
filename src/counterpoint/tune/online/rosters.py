"""Rosters: who runs in which rows, as it was decided when a row began."""

from __future__ import annotations

import math

from counterpoint.tune.arm import BASE, Arm, Origin
from counterpoint.tune.online.combine import without_each
from counterpoint.tune.online.purse import FEWEST_CONFIRM_ROWS, purse
from counterpoint.tune.online.rows import ABLATE, CONFIRM, Row, rows_of
from counterpoint.tune.online.standing import confirmed, overlap, raced, racers
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.estimate import Verdict
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose


def undecided(study: Study, plan: Plan, row: Row | None = None) -> tuple[Arm, ...]:
    """Those whose next rows are worth their time; with `row`, as it was when that one began."""
    told = raced(study, plan, row and row.number)
    return tuple(
        it
        for it in racers(study)
        if (row is None or study.entered[it.name] <= row.before)
        and (it.name not in told or not told[it.name].decided)
    )


def race_roster(study: Study, plan: Plan, row: Row | None = None) -> tuple[str, ...]:
    """The base and those that are not decided.

    An arm that was combined of others runs beside the best of these, so that they can be compared.
    """
    arms = undecided(study, plan, row)
    made = [it.name for it in arms if it.origin is Origin.COMBINED]
    if not made:
        return (BASE, *(it.name for it in arms)) if arms else ()
    told = raced(study, plan, row and row.number)
    others = [
        it.name
        for it in racers(study)
        if it.origin is not Origin.COMBINED
        and it.name in told
        and told[it.name].verdict is Verdict.FASTER
    ]
    best = max(others, key=lambda it: told[it].gain, default=None)
    return (BASE, *([best] if best else []), *made)


def finalists(study: Study, plan: Plan) -> tuple[Arm, ...]:
    """Who may be confirmed, the best first.

    Those that are faster; where nobody is for certain, the one that looks best, if what it seems
    to save would count. The claim comes from fresh runs, so a doubtful one does no harm.
    """
    told = raced(study, plan)
    arms = [it for it in racers(study) if it.name in told and not math.isnan(told[it.name].gain)]
    arms.sort(key=lambda it: -told[it.name].gain)
    faster = tuple(it for it in arms if told[it.name].verdict is Verdict.FASTER)
    if faster:
        return faster
    return tuple(
        it
        for it in arms[:1]
        if told[it.name].verdict is Verdict.OPEN and told[it.name].gain > plan.rule.indifferent
    )


def confirm_roster(study: Study, plan: Plan, before: int | None = None) -> tuple[str, ...]:
    """The base and the best one, as long as it has too few rows.

    The second takes part, too, if the race can't tell them apart and both can be paid for.
    """
    best = finalists(study, plan)[:2]
    spent = sum(it.started.purpose is Purpose.CONFIRM for it in study.trials)
    there = purse(study, plan).left + spent
    if not plan.confirm_rows or not best or there < FEWEST_CONFIRM_ROWS * 2:
        return ()
    told = raced(study, plan)
    alike = len(best) == 2 and overlap(told[best[0].name], told[best[1].name])
    if not alike or there < plan.confirm_rows * 3:
        best = best[:1]
    names = {it.name for it in best}
    short = [
        it.name
        for it in study.arms
        if it.name in names and rows_of(study, it.name, CONFIRM, before=before) < plan.confirm_rows
    ]
    return (BASE, *short) if short else ()


def ablate_roster(study: Study, plan: Plan, before: int | None = None) -> tuple[str, ...]:
    """The winner, and itself without each of its changes."""
    winner = winner_of(study, plan)
    if winner is None:
        return ()
    parts = {it.name for it in without_each(study.arm(BASE).settings, winner)} - set(study.dropped)
    short = [
        it.name
        for it in study.arms
        if it.name in parts
        and rows_of(study, it.name, ABLATE, winner.name, before) < ablation_rows(plan)
    ]
    return (winner.name, *short) if short else ()


def ablation_rows(plan: Plan) -> int:
    """As many as a confirmation, but never one alone."""
    return max(plan.confirm_rows, 2)


def winner_of(study: Study, plan: Plan) -> Arm | None:
    """The arm that is faster for certain: by its fresh runs, or by the race where none were asked.

    Of several the one that saves most. It says nothing before the confirmation is through.
    """
    told = confirmed(study, plan) if plan.confirm_rows else raced(study, plan)
    faster = [
        it for it in racers(study) if it.name in told and told[it.name].verdict is Verdict.FASTER
    ]
    return max(faster, key=lambda it: told[it.name].gain, default=None)


def target_reached(study: Study, plan: Plan) -> bool:
    """Whether the best one is good enough, so that time is better spent on confirming it."""
    if plan.target_gain is None:
        return False
    told = raced(study, plan)
    return any(
        told[it.name].verdict is Verdict.FASTER and told[it.name].gain >= plan.target_gain
        for it in finalists(study, plan)[:1]
    )
