"""The race: what a study does next, by all that it knows. Pure, and total.

    base twice ──► all arms, two rows ──► those that may be faster, until it is decided
                                              │ several are: all of them in one arm, too
                                              ▼
                        the best in a fresh allocation ──► without each of its changes

A row is begun only if it can be paid for to its end, and the confirmation's share is kept from the
start. Arms are decided between rows, never within one. Where the race was ended for a target gain
that the fresh runs do not show, it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.tune.arm import BASE, Arm, Origin
from counterpoint.tune.plan import Plan
from counterpoint.tune.race.budget import ONE_ARM, purse
from counterpoint.tune.race.drop_rules import look, rows_to_next_look, screening_fits
from counterpoint.tune.race.estimates import OF_NO_USE, fault, raced, racers
from counterpoint.tune.race.finals import (
    combined,
    falls_short,
    had_fresh_runs,
    late,
    shown,
    starts,
    target_reached,
    without_each,
)
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Enter,
    Finish,
    MakeProfile,
    Move,
    OpenAllocation,
    RunTrial,
)
from counterpoint.tune.race.rows import (
    CONFIRM,
    NOISE_TRIALS,
    RACE,
    SCREEN_ROWS,
    Row,
    noise_known,
    rows,
    rows_of,
)
from counterpoint.tune.race.schedule import (
    ablate_roster,
    confirm_roster,
    race_roster,
    undecided,
    winner_of,
)
from counterpoint.tune.statistics.estimate import Verdict
from counterpoint.tune.statistics.fit import row_order
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import Purpose

DECIDED = "every arm is decided"
SPENT = "the budget is spent"
REACHED = "the target gain is reached"
NOBODY = "no arm is left"
NOTHING = "there is nothing to try"


def next_move(study: Study, plan: Plan) -> Move:
    """What comes next; the same for the same records, whoever asks."""
    if study.ended is not None:
        return Finish(study.ended.why)
    return (
        _enter(study)
        or fault(study, plan)
        or _go_on_with_row(study, plan)
        or _noise(study, plan)
        or _race(study, plan)
        or _combine(study, plan)
        or _confirm(study, plan)
        or _ablate(study, plan)
        or _return(study, plan)
        or Finish(_why_done(study, plan))
    )


def to_enter(study: Study) -> tuple[Arm, ...]:
    """The arms that are worth real time, the best first; all that may run where nobody chose."""
    by_name = {it.arm.name: it.arm for it in study.candidates}
    if study.search is not None:
        names = [it for it in study.search.shortlist if it in by_name]
    else:
        bad = {it.arm.name for it in study.candidates if it.failure or it.same_as}
        names = [it for it in by_name if it not in bad]
    return tuple(by_name[it] for it in names if it != BASE)


def _enter(study: Study) -> Enter | None:
    entered = {it.name for it in study.arms}
    if BASE not in entered:
        seen = next((it.arm for it in study.candidates if it.arm.is_base), None)
        return Enter(seen or Arm(name=BASE, settings=study.began.base, origin=Origin.BASE))
    missing = next((it for it in to_enter(study) if it.name not in entered), None)
    return None if missing is None else Enter(missing)


def _go_on_with_row(study: Study, plan: Plan) -> Move | None:
    """A row that was begun is made to its end, unless its allocation is gone."""
    latest = next(reversed(rows(study)), None)
    if latest is None or latest.allocation not in study.open_allocations:
        return None
    missing = _missing(study, plan, latest)
    if not missing:
        return None
    return _trial(study, plan, missing[0], latest.purpose, latest.number)


def _missing(study: Study, plan: Plan, row: Row) -> tuple[str, ...]:
    """Who still has to run in it, in order. Arms that came in later have no part in it."""
    if row.purpose is Purpose.NOISE:
        return (BASE,) if row.counted(BASE) < NOISE_TRIALS else ()
    if row.purpose is Purpose.CONFIRM:
        roster = confirm_roster(study, plan, row.number)
    elif row.purpose is Purpose.ABLATE:
        roster = ablate_roster(study, plan, row.number)
    else:
        roster = race_roster(study, plan, row)
    there = [it for it in roster if study.entered[it] <= row.before]
    return tuple(it for it in _ordered(there, row.number) if not row.counted(it))


def _ordered(roster: Sequence[str], row: int) -> tuple[str, ...]:
    return tuple(it for it in row_order(roster, row) if it in roster)


def _noise(study: Study, plan: Plan) -> Move | None:
    """The base twice in a row, before anything else: how much do identical runs differ?"""
    if noise_known(study) or not racers(study):
        return None
    return screening_fits(study, plan) or _begin(study, plan, Purpose.NOISE, (BASE,))


def _race(study: Study, plan: Plan) -> Move | None:
    """Looks, where it is time to; then the next row, if those to the next look can be paid for."""
    if not racers(study):
        return None
    if _through(study, plan):
        return look(study, plan) if late(study) else None
    if (move := screening_fits(study, plan) or look(study, plan)) is not None:
        return move
    roster = race_roster(study, plan)
    if not roster or target_reached(study, plan):
        return None
    screened = all(rows_of(study, it.name, RACE) >= SCREEN_ROWS for it in undecided(study, plan))
    ahead = rows_to_next_look(study, plan) if screened else 1
    if purse(study, plan).for_the_race < ahead * len(roster):
        return None
    return _begin(study, plan, Purpose.RACE if screened else Purpose.SCREEN, roster)


def _through(study: Study, plan: Plan) -> bool:
    """Whether the race is over: fresh runs have begun, not too early, and all had their turn."""
    made = {it.purpose for it in rows(study)}
    if Purpose.ABLATE in made:
        return True
    if Purpose.CONFIRM not in made or falls_short(study, plan):
        return False
    return not late(study) & {it.name for it in undecided(study, plan)}


def _combine(study: Study, plan: Plan) -> Enter | None:
    """Arms that are faster each, and set different things, together: once."""
    if target_reached(study, plan) or any(it.origin is Origin.COMBINED for it in study.arms):
        return None
    told = raced(study, plan)
    news = [it for it in late(study) if it in told and told[it].verdict is Verdict.FASTER]
    if _through(study, plan) and not news:
        return None
    refuted = had_fresh_runs(study, plan) - {it.arm for it in shown(study, plan)}
    faster = [it for it in racers(study) if it.name in told and it.name not in refuted]
    faster = [it for it in faster if told[it.name].verdict is Verdict.FASTER]
    faster.sort(key=lambda it: -told[it.name].gain)
    others = tuple(it for it in study.arms if not it.is_base)
    made = combined(study.arm(BASE).settings, tuple(faster), others, study.jaxlib)
    return None if made is None else Enter(made)


def _confirm(study: Study, plan: Plan) -> Move | None:
    """The best against the base, where nothing of the race has run."""
    roster = confirm_roster(study, plan)
    if not roster or purse(study, plan).left < len(roster):
        return None
    return _begin(study, plan, Purpose.CONFIRM, roster, fresh=True)


def _ablate(study: Study, plan: Plan) -> Move | None:
    """The winner without each of its changes, if that was asked for and can be paid for."""
    winner = winner_of(study, plan)
    if not plan.ablate or winner is None:
        return None
    parts = without_each(study.arm(BASE).settings, winner)
    left = purse(study, plan).left
    missing = next((it for it in parts if it.name not in study.entered), None)
    if missing is not None:
        need = SCREEN_ROWS * (1 + len(parts)) + sum(it.profile for it in parts)
        return Enter(missing) if left >= need else None
    roster = ablate_roster(study, plan)
    if not roster or left < len(roster):
        return None
    return _begin(study, plan, Purpose.ABLATE, roster)


def _return(study: Study, plan: Plan) -> Enter | None:
    """An arm that the budget had no room for, where what was kept for others is left now."""
    if starts(study) or undecided(study, plan) or not noise_known(study):
        return None
    there = purse(study, plan).for_the_race
    poor = {name for name, it in study.dropped.items() if it.kind == NO_BUDGET}
    for it in to_enter(study):
        profile = it.profile and it.name not in study.profiled
        if it.name in poor and there >= ONE_ARM + profile:
            return Enter(it)
    return None


def _begin(
    study: Study, plan: Plan, purpose: Purpose, roster: Sequence[str], *, fresh: bool = False
) -> Move:
    """The next row: nodes first, then profiles that its arms need, then its first trial."""
    if not study.open_allocations:
        return OpenAllocation(len(study.allocations) + 1, fresh)
    here = study.open_allocations[-1]
    apart = RACE if fresh else CONFIRM if purpose in RACE else frozenset[Purpose]()
    if any(it.allocation == here and it.purpose in apart for it in rows(study)):
        return CloseAllocation(here)
    if (move := _profile(study, plan, roster)) is not None:
        return move
    number = max((it.number for it in rows(study)), default=-1) + 1
    return _trial(study, plan, _ordered(roster, number)[0], purpose, number)


def _profile(study: Study, plan: Plan, roster: Sequence[str]) -> Move | None:
    """An arm with a profile is profiled before it is timed."""
    for it in study.arms:
        if it.name not in roster or not it.profile or it.name in study.profiled:
            continue
        for trial in study.trials_of(it.name):
            if trial.started.purpose is not Purpose.PROFILE or trial.report is None:
                continue
            if trial.failure is None or trial.failure in OF_NO_USE:
                return MakeProfile(it.name, trial.started.number)
        return _trial(study, plan, it.name, Purpose.PROFILE, -1)
    return None


def _trial(study: Study, plan: Plan, arm: str, purpose: Purpose, row: int) -> RunTrial | Finish:
    if purse(study, plan).left < 1:
        return Finish(SPENT)
    return RunTrial(arm, purpose, row, study.open_allocations[-1])


def _why_done(study: Study, plan: Plan) -> str:
    if len(study.arms) < 2:
        return NOTHING
    poor = any(it.kind == NO_BUDGET for it in study.dropped.values())
    if not racers(study):
        return SPENT if poor else NOBODY
    if target_reached(study, plan):
        return REACHED if not plan.confirm_rows or shown(study, plan) else SPENT
    waiting = poor or undecided(study, plan) or confirm_roster(study, plan)
    return SPENT if waiting else DECIDED
