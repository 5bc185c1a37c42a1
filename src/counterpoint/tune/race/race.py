"""The race: the next move of a study, which depends on its records alone.

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
from counterpoint.tune.executors.choose import executor_kind
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.budget import NOISE_TRIALS, ONE_ARM, SCREEN_ROWS
from counterpoint.tune.race.combinations import combined, without_each
from counterpoint.tune.race.drop_rules import (
    drop_unaffordable,
    look,
    rows_to_next_look,
    too_small,
)
from counterpoint.tune.race.faults import fault
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Enter,
    Finish,
    MakeProfile,
    Move,
    OpenAllocation,
    RunTrial,
)
from counterpoint.tune.race.rows import CONFIRM, RACE, RaceRow, row_order
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import NO_MATTER_WHEN_PROFILING, Purpose

DECIDED = "every arm is decided"
SPENT = "the budget is spent"
TARGET_REACHED = "the target gain is reached"
NO_ARM_LEFT = "no arm is left"
NOTHING_TO_TRY = "nothing to try"


def next_move(study: Study, plan: StudyPlan) -> Move:
    """Return the next move; there always is one, until the study has ended."""
    if study.ended is not None:
        return Finish(study.ended.why)
    state = RaceState(study, plan)
    return (
        _enter(state)
        or fault(state)
        or too_small(state)
        or _go_on_with_row(state)
        or _noise(state)
        or _race(state)
        or _combine(state)
        or _confirm(state)
        or _ablate(state)
        or _reenter(state)
        or Finish(_why_done(state))
    )


def _enter(state: RaceState) -> Enter | None:
    entered = {arm.name for arm in state.study.arms}
    if BASE not in entered:
        seen = next(
            (candidate.arm for candidate in state.study.candidates if candidate.arm.is_base), None
        )
        return Enter(seen or Arm(name=BASE, settings=state.study.began.base, origin=ArmOrigin.BASE))
    missing = next((arm for arm in state.to_enter if arm.name not in entered), None)
    return None if missing is None else Enter(missing)


def _go_on_with_row(state: RaceState) -> Move | None:
    """Complete a row that has begun, unless its nodes are gone.

    This machine is there again after a tuner ended, so only the trial that it cut off is repeated.
    """
    latest = state.rows.last
    missing = () if latest is None else _missing(state, latest)
    if latest is None or not missing:
        return None
    open_now, here = state.study.open_allocations, _was_here(state.study, latest)
    if here and not open_now:
        return OpenAllocation(len(state.study.allocations) + 1, latest.purpose in CONFIRM)
    if here or (open_now and open_now[-1] in latest.allocations):
        return _trial(state, missing[0], latest.purpose, latest.number)
    return None


def _was_here(study: Study, row: RaceRow) -> bool:
    """Return whether a row's trials ran on this machine."""
    return all(
        executor_kind(allocation.executor).is_here
        for allocation in study.allocations
        if allocation.number in row.allocations
    )


def _missing(state: RaceState, row: RaceRow) -> tuple[str, ...]:
    """Return the arms that still have to run in a row, in order, without later entrants.

    An arm that could not be timed comes last: by then the machine may be free, and if the base
    can't be timed either, the arm is not to blame.
    """
    if row.purpose is Purpose.NOISE:
        return (BASE,) if row.counted(BASE) < NOISE_TRIALS else ()
    if row.purpose is Purpose.CONFIRM:
        roster = state.at(row.number).confirm_roster
    elif row.purpose is Purpose.ABLATE:
        roster = state.at(row.number).ablate_roster
    else:
        roster = state.at(row.number).race_roster
    present = [name for name in roster if state.study.entered[name] <= row.before]
    missing = [name for name in _ordered(state, present, row.number) if not row.counted(name)]
    excused = state.study.excused
    late = {it.started.arm for it in row.trials if it.started.number in excused} - {BASE}
    return tuple(sorted(missing, key=lambda name: name in late))


def _ordered(state: RaceState, roster: Sequence[str], row: int) -> tuple[str, ...]:
    return tuple(name for name in row_order(roster, row, state.plan.seed) if name in roster)


def _noise(state: RaceState) -> Move | None:
    """Run the base twice in a row first, to measure how much identical runs differ."""
    if state.rows.noise_known or not state.racers:
        return None
    return drop_unaffordable(state) or _begin(state, Purpose.NOISE, (BASE,))


def _race(state: RaceState) -> Move | None:
    """Look at the results if due; then begin a row if the rows to the next look are affordable."""
    if not state.racers:
        return None
    if _is_over(state):
        return look(state) if state.late_arms else None
    if (move := drop_unaffordable(state) or look(state)) is not None:
        return move
    roster = state.race_roster
    if not roster or state.target_reached:
        return None
    screened = all(state.rows.count(arm.name, RACE) >= SCREEN_ROWS for arm in state.undecided)
    ahead = rows_to_next_look(state) if screened else 1
    if state.remaining.for_the_race < ahead * len(roster):
        return None
    return _begin(state, Purpose.RACE if screened else Purpose.SCREEN, roster)


def _is_over(state: RaceState) -> bool:
    """Return whether the race is over: fresh runs have begun, and no late arm is undecided."""
    purposes = {row.purpose for row in state.rows}
    if Purpose.ABLATE in purposes:
        return True
    if Purpose.CONFIRM not in purposes or state.falls_short:
        return False
    return not state.late_arms & {arm.name for arm in state.undecided}


def _combine(state: RaceState) -> Enter | None:
    """Combine, once, arms that are each faster and set different things."""
    if state.target_reached or any(arm.origin is ArmOrigin.COMBINED for arm in state.study.arms):
        return None
    faster = state.faster(state.raced)
    if _is_over(state) and not state.late_arms & {arm.name for arm in faster}:
        return None
    refuted = state.had_fresh_runs - {estimate.arm for estimate in state.confirmed_faster}
    faster = [arm for arm in faster if arm.name not in refuted]
    faster.sort(key=lambda arm: -state.raced[arm.name].gain)
    others = tuple(arm for arm in state.study.arms if not arm.is_base)
    combination = combined(
        state.study.arm(BASE).settings, tuple(faster), others, state.study.jaxlib
    )
    return None if combination is None else Enter(combination)


def _confirm(state: RaceState) -> Move | None:
    """Run the best arm and the base where nothing of the race has run."""
    roster = state.confirm_roster
    if not roster or state.remaining.left < len(roster):
        return None
    return _begin(state, Purpose.CONFIRM, roster, fresh=True)


def _ablate(state: RaceState) -> Move | None:
    """Run the winner without each of its changes, if requested and affordable."""
    winner = state.winner
    if not state.plan.ablate or winner is None:
        return None
    parts = without_each(state.study.arm(BASE).settings, winner)
    left = state.remaining.left
    missing = next((arm for arm in parts if arm.name not in state.study.entered), None)
    if missing is not None:
        need = SCREEN_ROWS * (1 + len(parts)) + sum(arm.profile for arm in parts)
        return Enter(missing) if left >= need else None
    roster = state.ablate_roster
    if not roster or left < len(roster):
        return None
    return _begin(state, Purpose.ABLATE, roster)


def _reenter(state: RaceState) -> Enter | None:
    """Re-enter an arm that the budget had no room for, if a reserve was left unused."""
    if state.fresh_starts or state.undecided or not state.rows.noise_known:
        return None
    available = state.remaining.for_the_race
    unaffordable = {name for name, drop in state.study.dropped.items() if drop.kind == NO_BUDGET}
    for arm in state.to_enter:
        profile = arm.profile and arm.name not in state.study.profiled
        if arm.name in unaffordable and available >= ONE_ARM + profile:
            return Enter(arm)
    return None


def _begin(
    state: RaceState, purpose: Purpose, roster: Sequence[str], *, fresh: bool = False
) -> Move:
    """Begin the next row: get nodes, make the profiles its arms need, then run its first trial."""
    if not state.study.open_allocations:
        return OpenAllocation(len(state.study.allocations) + 1, fresh)
    allocation = state.study.open_allocations[-1]
    apart = RACE if fresh else CONFIRM if purpose in RACE else frozenset[Purpose]()
    if any(allocation in row.allocations and row.purpose in apart for row in state.rows):
        return CloseAllocation(allocation)
    if (move := _profile(state, roster)) is not None:
        return move
    number = max((row.number for row in state.rows), default=-1) + 1
    return _trial(state, _ordered(state, roster, number)[0], purpose, number)


def _profile(state: RaceState, roster: Sequence[str]) -> Move | None:
    """Profile arms that need a profile before they are timed."""
    for arm in state.study.arms:
        if arm.name not in roster or not arm.profile or arm.name in state.study.profiled:
            continue
        for trial in state.study.trials_of(arm.name):
            if trial.started.purpose is not Purpose.PROFILE or trial.report is None:
                continue
            if trial.failure is None or trial.failure in NO_MATTER_WHEN_PROFILING:
                return MakeProfile(arm.name, trial.started.number)
        return _trial(state, arm.name, Purpose.PROFILE, -1)
    return None


def _trial(state: RaceState, arm: str, purpose: Purpose, row: int) -> RunTrial | Finish:
    if state.remaining.left < 1:
        return Finish(SPENT)
    return RunTrial(arm, purpose, row, state.study.open_allocations[-1])


def _why_done(state: RaceState) -> str:
    if len(state.study.arms) < 2:
        return NOTHING_TO_TRY
    unaffordable = any(drop.kind == NO_BUDGET for drop in state.study.dropped.values())
    if not state.racers:
        return SPENT if unaffordable else NO_ARM_LEFT
    if state.target_reached:
        return TARGET_REACHED if not state.plan.confirm_rows or state.confirmed_faster else SPENT
    waiting = unaffordable or state.undecided or state.confirm_roster
    return SPENT if waiting else DECIDED
