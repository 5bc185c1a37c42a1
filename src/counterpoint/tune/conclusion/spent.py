"""Spent: what a study took so far, and what is left of its budget."""

from __future__ import annotations

from counterpoint.tune.conclusion.conclusion import Spent
from counterpoint.tune.online.purse import charged
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
    paid = charged(study, budget)
    return Spent(
        trials=len(study.trials),
        seconds=seconds,
        node_seconds=sum(wall_s * count for wall_s, count in walls),
        trials_left=None if budget.trials is None else max(budget.trials - paid, 0),
        seconds_left=None if budget.seconds is None else max(budget.seconds - seconds, 0.0),
    )
