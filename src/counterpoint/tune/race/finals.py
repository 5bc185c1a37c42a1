"""Finals: which arms get fresh runs, how many rows of them, and which arms have had all of theirs.

Decisions here rest on the race alone, as it was when the arm's fresh runs began. If fresh runs
influenced their own number, they would no longer be a valid test.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from counterpoint.core import Unknown
from counterpoint.flags import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, merged
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.estimates import confirmed, noise_of, raced, racers
from counterpoint.tune.race.rows import CONFIRM, RACE, SCREEN_ROWS, observations, rows, rows_of
from counterpoint.tune.space.faults import new_fault
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate
from counterpoint.tune.study.study import Study


def finalists(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[Arm, ...]:
    """Return the arms that may be confirmed, best first; with `before`, as of when that row began.

    These are the arms that are faster. If none is for certain, it is the one with the largest
    gain, if that gain would matter. Claims come from fresh runs, so a doubtful arm does no harm.
    """
    estimates = raced(study, plan, before)
    arms = [
        arm
        for arm in racers(study)
        if arm.name in estimates and not math.isnan(estimates[arm.name].gain)
    ]
    arms.sort(key=lambda arm: -estimates[arm.name].gain)
    faster = tuple(arm for arm in arms if estimates[arm.name].verdict is ArmVerdict.FASTER)
    if faster:
        return faster
    return tuple(
        arm
        for arm in arms[:1]
        if estimates[arm.name].verdict is ArmVerdict.OPEN
        and estimates[arm.name].gain > plan.rule.indifferent
    )


def next_finalists(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[Arm, ...]:
    """Return finalists without fresh runs whose gain exceeds every gain confirmed so far."""
    begun = starts(study, before)
    estimates = raced(study, plan, before)
    best = max((estimate.gain for estimate in shown(study, plan, before)), default=-math.inf)
    return tuple(
        arm
        for arm in finalists(study, plan, before)
        if arm.name not in begun and estimates[arm.name].gain > best
    )


def starts(study: Study, before: int | None = None) -> dict[str, int]:
    """Return the row in which each arm's fresh runs began: the first with a step time of it."""
    found: dict[str, int] = {}
    for row in rows(study):
        if row.purpose not in CONFIRM or (before is not None and row.number >= before):
            continue
        for arm in study.arms:
            if not arm.is_base and row.counted(arm.name):
                found.setdefault(arm.name, row.number)
    return found


def late(study: Study, before: int | None = None) -> frozenset[str]:
    """Return the arms that had no race row when the first fresh runs began.

    The budget had no room for them then and now has. Estimates of the other arms stand.
    """
    numbers = starts(study, before).values()
    if not numbers:
        return frozenset()
    first = min(numbers)
    return frozenset(
        arm.name for arm in racers(study) if not rows_of(study, arm.name, RACE, before=first)
    )


def begun(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[Arm, ...]:
    """Return the arms whose fresh runs have begun and are not complete."""
    started = starts(study, before)
    through = had_fresh_runs(study, plan, before)
    return tuple(arm for arm in racers(study) if arm.name in started and arm.name not in through)


def had_fresh_runs(study: Study, plan: StudyPlan, before: int | None = None) -> frozenset[str]:
    """Return the arms with all fresh runs due to them. They get no more, whatever the result."""
    started = starts(study, before)
    return frozenset(
        name
        for name, start in started.items()
        if rows_of(study, name, CONFIRM, before=before)
        >= rows_due(study, plan, name, sum(row == start for row in started.values()), start)
    )


def rows_due(
    study: Study, plan: StudyPlan, name: str | None, arms: int = 1, before: int | None = None
) -> int:
    """Return the number of fresh rows for an arm, one of `arms` confirmed together.

    It is the requested number, or more if the race's noise would hide the arm's apparent gain too
    often: enough to show it in nine of ten studies, up to the cap.
    """
    wanted = plan.confirm_rows
    if not wanted:
        return 0
    estimate = None if name is None else raced(study, plan, before).get(name)
    if estimate is None or estimate.rows < SCREEN_ROWS:
        return wanted
    return max(wanted, _rows_needed(study, plan, estimate, arms, before))


def _rows_needed(
    study: Study, plan: StudyPlan, estimate: GainEstimate, arms: int, before: int | None
) -> int:
    from counterpoint.tune.statistics.estimate import rows_needed

    noise = noise_of(observations(study, RACE, before), plan.rule.indifferent)
    if isinstance(noise.sigma, Unknown) or estimate.gain <= 0:
        return 0
    once = replace(plan.rule, looks=(), arms=arms)
    needed = rows_needed(noise, estimate.gain, once, most=plan.rule.cap)
    return plan.rule.cap if isinstance(needed, Unknown) else needed


def target_reached(study: Study, plan: StudyPlan) -> bool:
    """Return whether the best arm reaches the target gain, by its fresh runs or else by the race.

    Arms whose fresh runs fell short no longer count, so the race continues.
    """
    target = plan.target_gain
    if target is None:
        return False
    if any(estimate.gain >= target for estimate in shown(study, plan)):
        return True
    estimates = raced(study, plan)
    through = had_fresh_runs(study, plan)
    best = next((arm for arm in finalists(study, plan) if arm.name not in through), None)
    if best is None:
        return False
    return estimates[best.name].verdict is ArmVerdict.FASTER and estimates[best.name].gain >= target


def falls_short(study: Study, plan: StudyPlan, before: int | None = None) -> bool:
    """Return whether the race ended for the target gain but fresh runs did not confirm it."""
    target = plan.target_gain
    if target is None or begun(study, plan, before) or not had_fresh_runs(study, plan, before):
        return False
    return all(estimate.gain < target for estimate in shown(study, plan, before))


def shown(study: Study, plan: StudyPlan, before: int | None = None) -> tuple[GainEstimate, ...]:
    """Return the estimates of arms that are faster by their completed fresh runs."""
    through = had_fresh_runs(study, plan, before)
    if not through:
        return ()
    return tuple(
        estimate
        for estimate in confirmed(study, plan, before).values()
        if estimate.arm in through and estimate.verdict is ArmVerdict.FASTER
    )


COMBINED = "combined"


def combined(
    base: Settings, faster: tuple[Arm, ...], known: tuple[Arm, ...], version: str | None = None
) -> Arm | None:
    """Combine the arms that change different things, best first; None if that is no new arm.

    If two arms set the same thing, exclude each other, or are known to crash together, only the
    better one is included.
    """
    taken: list[ArmChange] = []
    for arm in faster:
        own = changes_of(arm, base)
        if not own or any(_clash(change, earlier) for change in own for earlier in taken):
            continue
        both = merged(base, (*taken, *own))
        if taken and new_fault(base, both, version, None) and not _faulty(arm, base, version):
            continue
        taken.extend(own)
    changes = tuple(taken)
    existing = {_key(changes_of(arm, base)) for arm in known}
    if len(faster) < 2 or _key(changes) in existing:
        return None
    names = {arm.name for arm in known}
    name = next(candidate for candidate in _names(COMBINED) if candidate not in names)
    return Arm(
        name=name, settings=merged(base, changes), changes=changes, origin=ArmOrigin.COMBINED
    )


def without_each(base: Settings, winner: Arm) -> tuple[Arm, ...]:
    """Return the winner without each of its changes; nothing if it has only one."""
    changes = changes_of(winner, base)
    if len(changes) < 2:
        return ()
    ablations: list[Arm] = []
    for index, change in enumerate(changes):
        left = (*changes[:index], *changes[index + 1 :])
        name = f"{winner.name}-without-{_plain(change.dimension)}"
        if any(name == ablation.name for ablation in ablations):
            name = f"{name}-{index + 1}"
        ablations.append(
            Arm(name=name, settings=merged(base, left), changes=left, origin=ArmOrigin.ABLATION)
        )
    return tuple(ablations)


def changes_of(arm: Arm, base: Settings) -> tuple[ArmChange, ...]:
    """Return an arm's changes; for settings by hand, all differences from the base as one."""
    if arm.changes:
        return arm.changes
    own = Settings(
        xla=tuple(pair for pair in arm.settings.xla if pair not in base.xla),
        env=tuple(pair for pair in arm.settings.env if pair not in base.env),
        options=tuple(pair for pair in arm.settings.options if pair not in base.options),
        layout=arm.settings.layout if arm.settings.layout != base.layout else None,
    )
    if own == Settings():
        return ()
    return (ArmChange(dimension=arm.name, choice="on", settings=own, acts=Acts.RUNTIME),)


def left_out(winner: Arm, ablated: Arm, base: Settings) -> ArmChange | None:
    """Return the winner's change that the ablated arm omits."""
    left = _key(changes_of(ablated, base))
    gone = [change for change in changes_of(winner, base) if _one(change) not in left]
    return gone[0] if len(gone) == 1 else None


def _faulty(arm: Arm, base: Settings, version: str | None) -> bool:
    """Return whether the arm has a known fault; if it runs anyway, the fault does not apply."""
    return bool(new_fault(base, arm.settings, version, None))


def _clash(one: ArmChange, other: ArmChange) -> bool:
    if one.dimension in other.excludes or other.dimension in one.excludes:
        return True
    return one.dimension == other.dimension or bool(_sets(one) & _sets(other))


def _sets(change: ArmChange) -> frozenset[str]:
    settings = change.settings
    placed = {"per"} if change.per is not None else set[str]()
    profiled = {"profile"} if change.profile else set[str]()
    return frozenset(
        {name for name, _ in (*settings.xla, *settings.env, *settings.options)} | placed | profiled
    )


def _key(changes: tuple[ArmChange, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(_one(change) for change in changes)


def _one(change: ArmChange) -> tuple[str, str]:
    return change.dimension, change.choice


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") or "it"


def _names(name: str) -> tuple[str, ...]:
    return (name, *(f"{name}-{number}" for number in range(2, 100)))
