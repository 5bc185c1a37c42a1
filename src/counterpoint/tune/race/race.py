"""The race: the next move of a study. Pure and total.

    base twice ──► all arms, two rows ──► those that may be faster, until decided
                                              │ if several are: all combined in one arm
                                              ▼
                        the best in a fresh allocation ──► without each of its changes

A row begins only if the budget covers all of it, and the confirmation's share is reserved from the
start. Arms are decided between rows, never within one. If the race ended for a target gain that
the fresh runs do not confirm, it continues.
"""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.budget import ONE_ARM, remaining_budget
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
    RaceRow,
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
from counterpoint.tune.statistics.estimate import ArmVerdict
from counterpoint.tune.statistics.fit import row_order
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import Purpose

DECIDED = "every arm is decided"
SPENT = "the budget is spent"
REACHED = "the target gain is reached"
NOBODY = "no arm is left"
NOTHING = "there is nothing to try"


def next_move(study: Study, plan: StudyPlan) -> Move:
    """Return the next move; it depends on the records alone."""
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
    """Return the shortlist, best first; before a search has ended, all arms that may run."""
    by_name = {seen.arm.name: seen.arm for seen in study.candidates}
    if study.search is not None:
        names = [name for name in study.search.shortlist if name in by_name]
    else:
        bad = {seen.arm.name for seen in study.candidates if seen.failure or seen.same_as}
        names = [name for name in by_name if name not in bad]
    return tuple(by_name[name] for name in names if name != BASE)


def _enter(study: Study) -> Enter | None:
    entered = {arm.name for arm in study.arms}
    if BASE not in entered:
        seen = next(
            (candidate.arm for candidate in study.candidates if candidate.arm.is_base), None
        )
        return Enter(seen or Arm(name=BASE, settings=study.began.base, origin=ArmOrigin.BASE))
    missing = next((arm for arm in to_enter(study) if arm.name not in entered), None)
    return None if missing is None else Enter(missing)


def _go_on_with_row(study: Study, plan: StudyPlan) -> Move | None:
    """Complete a row that has begun, unless its allocation is closed."""
    latest = next(reversed(rows(study)), None)
    if latest is None or latest.allocation not in study.open_allocations:
        return None
    missing = _missing(study, plan, latest)
    if not missing:
        return None
    return _trial(study, plan, missing[0], latest.purpose, latest.number)


def _missing(study: Study, plan: StudyPlan, row: RaceRow) -> tuple[str, ...]:
    """Return the arms that still have to run in a row, in order, without later entrants."""
    if row.purpose is Purpose.NOISE:
        return (BASE,) if row.counted(BASE) < NOISE_TRIALS else ()
    if row.purpose is Purpose.CONFIRM:
        roster = confirm_roster(study, plan, row.number)
    elif row.purpose is Purpose.ABLATE:
        roster = ablate_roster(study, plan, row.number)
    else:
        roster = race_roster(study, plan, row)
    present = [name for name in roster if study.entered[name] <= row.before]
    return tuple(name for name in _ordered(present, row.number) if not row.counted(name))


def _ordered(roster: Sequence[str], row: int) -> tuple[str, ...]:
    return tuple(name for name in row_order(roster, row) if name in roster)


def _noise(study: Study, plan: StudyPlan) -> Move | None:
    """Run the base twice in a row first, to measure how much identical runs differ."""
    if noise_known(study) or not racers(study):
        return None
    return screening_fits(study, plan) or _begin(study, plan, Purpose.NOISE, (BASE,))


def _race(study: Study, plan: StudyPlan) -> Move | None:
    """Look at the results if due; then begin a row if the rows to the next look are affordable."""
    if not racers(study):
        return None
    if _through(study, plan):
        return look(study, plan) if late(study) else None
    if (move := screening_fits(study, plan) or look(study, plan)) is not None:
        return move
    roster = race_roster(study, plan)
    if not roster or target_reached(study, plan):
        return None
    screened = all(rows_of(study, arm.name, RACE) >= SCREEN_ROWS for arm in undecided(study, plan))
    ahead = rows_to_next_look(study, plan) if screened else 1
    if remaining_budget(study, plan).for_the_race < ahead * len(roster):
        return None
    return _begin(study, plan, Purpose.RACE if screened else Purpose.SCREEN, roster)


def _through(study: Study, plan: StudyPlan) -> bool:
    """Return whether the race is over: fresh runs have begun, and no late arm is undecided."""
    purposes = {row.purpose for row in rows(study)}
    if Purpose.ABLATE in purposes:
        return True
    if Purpose.CONFIRM not in purposes or falls_short(study, plan):
        return False
    return not late(study) & {arm.name for arm in undecided(study, plan)}


def _combine(study: Study, plan: StudyPlan) -> Enter | None:
    """Combine, once, arms that are each faster and set different things."""
    if target_reached(study, plan) or any(arm.origin is ArmOrigin.COMBINED for arm in study.arms):
        return None
    estimates = raced(study, plan)
    late_faster = [
        name
        for name in late(study)
        if name in estimates and estimates[name].verdict is ArmVerdict.FASTER
    ]
    if _through(study, plan) and not late_faster:
        return None
    refuted = had_fresh_runs(study, plan) - {estimate.arm for estimate in shown(study, plan)}
    faster = [arm for arm in racers(study) if arm.name in estimates and arm.name not in refuted]
    faster = [arm for arm in faster if estimates[arm.name].verdict is ArmVerdict.FASTER]
    faster.sort(key=lambda arm: -estimates[arm.name].gain)
    others = tuple(arm for arm in study.arms if not arm.is_base)
    combination = combined(study.arm(BASE).settings, tuple(faster), others, study.jaxlib)
    return None if combination is None else Enter(combination)


def _confirm(study: Study, plan: StudyPlan) -> Move | None:
    """Run the best arm and the base where nothing of the race has run."""
    roster = confirm_roster(study, plan)
    if not roster or remaining_budget(study, plan).left < len(roster):
        return None
    return _begin(study, plan, Purpose.CONFIRM, roster, fresh=True)


def _ablate(study: Study, plan: StudyPlan) -> Move | None:
    """Run the winner without each of its changes, if requested and affordable."""
    winner = winner_of(study, plan)
    if not plan.ablate or winner is None:
        return None
    parts = without_each(study.arm(BASE).settings, winner)
    left = remaining_budget(study, plan).left
    missing = next((arm for arm in parts if arm.name not in study.entered), None)
    if missing is not None:
        need = SCREEN_ROWS * (1 + len(parts)) + sum(arm.profile for arm in parts)
        return Enter(missing) if left >= need else None
    roster = ablate_roster(study, plan)
    if not roster or left < len(roster):
        return None
    return _begin(study, plan, Purpose.ABLATE, roster)


def _return(study: Study, plan: StudyPlan) -> Enter | None:
    """Re-enter an arm that the budget had no room for, if a reserve was left unused."""
    if starts(study) or undecided(study, plan) or not noise_known(study):
        return None
    available = remaining_budget(study, plan).for_the_race
    unaffordable = {name for name, drop in study.dropped.items() if drop.kind == NO_BUDGET}
    for arm in to_enter(study):
        profile = arm.profile and arm.name not in study.profiled
        if arm.name in unaffordable and available >= ONE_ARM + profile:
            return Enter(arm)
    return None


def _begin(
    study: Study, plan: StudyPlan, purpose: Purpose, roster: Sequence[str], *, fresh: bool = False
) -> Move:
    """Begin the next row: get nodes, make the profiles its arms need, then run its first trial."""
    if not study.open_allocations:
        return OpenAllocation(len(study.allocations) + 1, fresh)
    allocation = study.open_allocations[-1]
    apart = RACE if fresh else CONFIRM if purpose in RACE else frozenset[Purpose]()
    if any(row.allocation == allocation and row.purpose in apart for row in rows(study)):
        return CloseAllocation(allocation)
    if (move := _profile(study, plan, roster)) is not None:
        return move
    number = max((row.number for row in rows(study)), default=-1) + 1
    return _trial(study, plan, _ordered(roster, number)[0], purpose, number)


def _profile(study: Study, plan: StudyPlan, roster: Sequence[str]) -> Move | None:
    """Profile arms that need a profile before they are timed."""
    for arm in study.arms:
        if arm.name not in roster or not arm.profile or arm.name in study.profiled:
            continue
        for trial in study.trials_of(arm.name):
            if trial.started.purpose is not Purpose.PROFILE or trial.report is None:
                continue
            if trial.failure is None or trial.failure in OF_NO_USE:
                return MakeProfile(arm.name, trial.started.number)
        return _trial(study, plan, arm.name, Purpose.PROFILE, -1)
    return None


def _trial(
    study: Study, plan: StudyPlan, arm: str, purpose: Purpose, row: int
) -> RunTrial | Finish:
    if remaining_budget(study, plan).left < 1:
        return Finish(SPENT)
    return RunTrial(arm, purpose, row, study.open_allocations[-1])


def _why_done(study: Study, plan: StudyPlan) -> str:
    if len(study.arms) < 2:
        return NOTHING
    unaffordable = any(drop.kind == NO_BUDGET for drop in study.dropped.values())
    if not racers(study):
        return SPENT if unaffordable else NOBODY
    if target_reached(study, plan):
        return REACHED if not plan.confirm_rows or shown(study, plan) else SPENT
    waiting = unaffordable or undecided(study, plan) or confirm_roster(study, plan)
    return SPENT if waiting else DECIDED
