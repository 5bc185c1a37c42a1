"""Spent: what a study took so far, and what is left of its budget."""

from __future__ import annotations

from counterpoint.tune.conclusion.conclusion import Spent
from counterpoint.tune.figures import several
from counterpoint.tune.online.looks import rows_to_next_look
from counterpoint.tune.online.purse import charged
from counterpoint.tune.online.race import DECIDED, SPENT
from counterpoint.tune.online.rosters import race_roster
from counterpoint.tune.plan import Plan
from counterpoint.tune.study.study import Study


def spent(study: Study, plan: Plan) -> Spent:
    """By the wall times of its trials."""
    nodes = {it.number: max(len(it.nodes), 1) for it in study.allocations}
    walls = [
        (it.wall_s, nodes.get(it.started.allocation, plan.shape.nodes))
        for it in study.trials
        if it.wall_s is not None
    ]
    seconds = sum(wall_s for wall_s, _ in walls)
    budget = plan.budget
    trials_left = None if budget.trials is None else max(budget.trials - charged(study, budget), 0)
    seconds_left = None if budget.seconds is None else max(budget.seconds - seconds, 0.0)
    left = bool(trials_left or seconds_left)
    return Spent(
        trials=len(study.trials),
        seconds=seconds,
        node_seconds=sum(wall_s * count for wall_s, count in walls),
        trials_left=trials_left,
        seconds_left=seconds_left,
        why_left=_why_left(study, plan) if left else None,
    )


def _why_left(study: Study, plan: Plan) -> str | None:
    """Why a study that is done did not use all of its budget."""
    if study.ended is None:
        return None
    if study.ended.why != SPENT:
        return "no arm is worth more runs" if study.ended.why == DECIDED else study.ended.why
    going = race_roster(study, plan)
    if going:
        need = max(rows_to_next_look(study, plan), 1) * len(going)
        arms, trials = several(len(going) - 1, "arm"), several(need, "trial")
        return f"the next look at {arms} would take {trials}"
    return "too little for one more arm and the fresh runs that would confirm it"
