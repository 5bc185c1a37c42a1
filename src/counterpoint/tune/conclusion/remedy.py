"""Remedy: what it would take to tell of an arm that was left undecided."""

from __future__ import annotations

import math
from dataclasses import replace

from counterpoint.tune.online.purse import trial_seconds
from counterpoint.tune.online.race import SPENT
from counterpoint.tune.online.rosters import undecided
from counterpoint.tune.online.rows import RACE, rows_of
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.estimate import Estimate, Noise
from counterpoint.tune.study.study import Study


def remedy(study: Study, plan: Plan, noise: Noise | None, estimate: Estimate) -> str:
    """So many rows, and where the budget was too small for them, one that is not."""
    needed = _rows_needed(plan, noise, estimate.gain)
    if needed is None:
        return ""
    fresh = "fresh " if plan.confirm_rows else ""
    told = f"; about {needed} {fresh}rows would be needed to tell"
    if study.ended is None or study.ended.why != SPENT:
        return told
    most = max(plan.confirm_rows, plan.rule.cap)
    option = "--confirm-rows" if plan.confirm_rows else "--cap"
    rows = f"{option} {needed} " if needed > most else ""
    return f"{told}: {rows}--budget {_budget(study, plan, max(needed, most))} goes on from here"


def _rows_needed(plan: Plan, noise: Noise | None, gain: float) -> int | None:
    """Of fresh runs, which are looked at once; where none were asked for, of the race."""
    from counterpoint.tune.statistics.power import rows_needed

    if noise is None:
        return None
    rule = replace(plan.rule, looks=(), arms=1) if plan.confirm_rows else plan.rule
    needed = rows_needed(noise, gain, rule)
    return needed if isinstance(needed, int) else None


def _budget(study: Study, plan: Plan, rows: int) -> str:
    """In which the race comes to its cap for all that are undecided, and to fresh rows then."""
    going = undecided(study, plan)
    cap = plan.rule.cap if plan.confirm_rows else rows
    to_go = max((cap - rows_of(study, it.name, RACE) for it in going), default=0)
    trials = len(study.trials) + max(to_go, 0) * (1 + len(going))
    trials += 2 * rows if plan.confirm_rows else 0
    took = trial_seconds(study)
    parts = [f"{trials} trials"] if plan.budget.trials is not None else []
    if plan.budget.seconds is not None and took is not None:
        minutes = math.ceil(trials * took / 60)
        parts.append(f"{minutes}m")
    return f"'{', '.join(parts)}'"
