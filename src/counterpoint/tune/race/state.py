"""RaceState: what follows from the records of a study for its race.

All of it follows from the records alone, so that a study that is continued comes to the same
results. Decisions about fresh runs rest on the race as it was when they began: if fresh runs
influenced their own number, they would no longer be a valid test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Final

from counterpoint.core import Range, Unknown
from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.budget import (
    FEWEST_CONFIRM_ROWS,
    ONE_ARM,
    SCREEN_ROWS,
    RemainingBudget,
    reserve,
    whole_pairs,
)
from counterpoint.tune.race.combinations import without_each
from counterpoint.tune.race.rows import ABLATE, CONFIRM, RACE, Rows
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    DecisionRule,
    GainEstimate,
    Observation,
    RunNoise,
    rows_needed,
)
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose

SAME_PROGRAM: Final = "same program"


@dataclass(frozen=True)
class RaceState:
    """The race of a study; with `before`, as it was when the row of that number began."""

    study: Study
    plan: StudyPlan
    before: int | None = None

    def at(self, row: int) -> RaceState:
        """Return the state in which a row began."""
        return self._earlier.setdefault(row, RaceState(self.study, self.plan, row))

    @cached_property
    def _earlier(self) -> dict[int, RaceState]:
        return {}

    @cached_property
    def rows(self) -> Rows:
        """The rows up to this state."""
        return Rows(self.study, self.before)

    # Arms and their estimates.

    @cached_property
    def racers(self) -> tuple[Arm, ...]:
        """The arms still in the race, in order of entry, without the base."""
        return tuple(
            arm
            for arm in self.study.arms
            if not arm.is_base
            and arm.origin is not ArmOrigin.ABLATION
            and arm.name not in self.study.dropped
        )

    @cached_property
    def to_enter(self) -> tuple[Arm, ...]:
        """The shortlist, best first; before a search has ended, all arms that may run."""
        study = self.study
        by_name = {seen.arm.name: seen.arm for seen in study.candidates}
        if study.search is not None:
            names = [name for name in study.search.shortlist if name in by_name]
        else:
            bad = {seen.arm.name for seen in study.candidates if seen.failure or seen.same_as}
            names = [name for name in by_name if name not in bad]
        return tuple(by_name[name] for name in names if name != BASE)

    @cached_property
    def raced(self) -> Mapping[str, GainEstimate]:
        """The race's estimate of each arm.

        Arms with the base's program are excluded: they test nothing, so they take no share of the
        confidence. All others that were measured share it, including those dropped since.
        """
        from counterpoint.tune.statistics.fit import estimates

        dropped = self.study.dropped.items()
        same = {name for name, drop in dropped if drop.kind == SAME_PROGRAM}
        found = tuple(run for run in self.rows.observations(RACE) if run.arm not in same)
        arms = max(len({run.arm for run in found} - {BASE}), 1)
        rule = replace(self.plan.rule, arms=arms)
        return _by_arm(estimates(found, rule)) if _are_compared(found, BASE) else {}

    def raced_until_dropped(self, name: str) -> GainEstimate | None:
        """Return the race's estimate of an arm at the time it was dropped.

        Later runs of other arms change the noise, and so the estimate on which the decision rested.
        """
        study = self.study
        names = tuple(study.dropped)
        earlier = {arm: study.dropped[arm] for arm in names[: names.index(name)]}
        then = replace(study, trials=study.trials[: study.dropped_after[name]], dropped=earlier)
        return RaceState(then, self.plan).raced.get(name)

    @cached_property
    def confirmed(self) -> Mapping[str, GainEstimate]:
        """Estimates from the fresh runs alone; of the race, only the noise of its runs is used.

        A user who asks for more of them after a verdict looks twice, so the looks share the rate.
        """
        rate = (1 - self.plan.rule.confidence) / max(map(self.looks, self.fresh_starts), default=1)
        rule = replace(self.plan.rule, confidence=1 - rate)
        first = min(self.fresh_starts.values(), default=None)
        raced = () if first is None else self.at(first).rows.observations(RACE)
        return _estimated_once(self.rows.observations(CONFIRM), rule, BASE, raced)

    def looks(self, name: str) -> int:
        """Return how often an arm's fresh runs were judged: now, and before each continuation."""
        at = [
            at
            for at, trial in enumerate(self.study.trials)
            if trial.started.arm == name and trial.started.purpose in CONFIRM
        ]
        return 1 + sum(at[0] < end <= at[-1] for end in self.study.ends)

    def ablated(self, winner: str) -> Mapping[str, GainEstimate]:
        """Compare the winner without each of its changes with the winner."""
        return _estimated_once(self.rows.observations(ABLATE), self.plan.rule, winner)

    @cached_property
    def _noise(self) -> RunNoise:
        from counterpoint.tune.statistics.fit import noise

        return noise(self.rows.observations(RACE), indifferent=self.plan.rule.indifferent)

    # Finalists and their fresh runs.

    @cached_property
    def finalists(self) -> tuple[Arm, ...]:
        """The arms that may be confirmed, best first.

        These are the arms that are faster. If none is for certain, it is the one with the largest
        gain, if that gain would matter. Claims come from fresh runs, so a doubtful arm does no
        harm.
        """
        estimates = self.raced
        arms = [
            arm
            for arm in self.racers
            if arm.name in estimates and not math.isnan(estimates[arm.name].gain)
        ]
        arms.sort(key=lambda arm: -estimates[arm.name].gain)
        faster = tuple(arm for arm in arms if estimates[arm.name].verdict is ArmVerdict.FASTER)
        return faster or tuple(
            arm
            for arm in arms[:1]
            if estimates[arm.name].verdict is ArmVerdict.OPEN
            and estimates[arm.name].gain > self.plan.rule.indifferent
        )

    @cached_property
    def next_finalists(self) -> tuple[Arm, ...]:
        """Finalists without fresh runs whose gain exceeds every gain confirmed so far."""
        best = max((estimate.gain for estimate in self.confirmed_faster), default=-math.inf)
        return tuple(
            arm
            for arm in self.finalists
            if arm.name not in self.fresh_starts and self.raced[arm.name].gain > best
        )

    @cached_property
    def fresh_starts(self) -> Mapping[str, int]:
        """The row in which each arm's fresh runs began: the first with a step time of it."""
        found: dict[str, int] = {}
        for row in self.rows:
            for arm in self.study.arms:
                if row.purpose in CONFIRM and not arm.is_base and row.counted(arm.name):
                    found.setdefault(arm.name, row.number)
        return found

    @cached_property
    def late_arms(self) -> frozenset[str]:
        """The arms that had no race row when the first fresh runs began.

        The budget had no room for them then, but has now. Estimates of the other arms stand.
        """
        if not self.fresh_starts:
            return frozenset()
        first = self.at(min(self.fresh_starts.values()))
        return frozenset(arm.name for arm in self.racers if not first.rows.count(arm.name, RACE))

    @cached_property
    def being_confirmed(self) -> tuple[Arm, ...]:
        """The arms whose fresh runs have begun and are not complete."""
        return tuple(
            arm
            for arm in self.racers
            if arm.name in self.fresh_starts and arm.name not in self.had_fresh_runs
        )

    @cached_property
    def had_fresh_runs(self) -> frozenset[str]:
        """The arms with all fresh runs due to them. They get no more, whatever the result."""
        starts = self.fresh_starts
        together = list(starts.values())
        return frozenset(
            name
            for name, start in starts.items()
            if self.rows.count(name, CONFIRM)
            >= self.at(start).rows_due(name, together.count(start))
        )

    def rows_due(self, name: str | None, arms: int = 1) -> int:
        """Return the number of fresh rows for an arm, one of `arms` confirmed together.

        It is the requested number, or more if the race's noise would hide the arm's apparent gain
        too often: enough to show it in nine of ten studies, up to the cap.
        """
        wanted, rule = self.plan.confirm_rows, self.plan.rule
        estimate = None if name is None or not wanted else self.raced.get(name)
        if estimate is None or estimate.rows < SCREEN_ROWS:
            return wanted
        if isinstance(self._noise.sigma, Unknown) or estimate.gain <= 0:
            return wanted
        once = replace(rule, looks=(), arms=arms)
        needed = rows_needed(self._noise, estimate.gain, once, most=rule.cap)
        return max(wanted, rule.cap if isinstance(needed, Unknown) else needed)

    @cached_property
    def confirmed_faster(self) -> tuple[GainEstimate, ...]:
        """The estimates of arms that are faster by their completed fresh runs."""
        through = self.had_fresh_runs
        if not through:
            return ()
        return tuple(
            estimate
            for estimate in self.confirmed.values()
            if estimate.arm in through and estimate.verdict is ArmVerdict.FASTER
        )

    @cached_property
    def target_reached(self) -> bool:
        """True if the best arm reaches the target gain, by its fresh runs or else by the race.

        Arms whose fresh runs fell short no longer count, so the race continues.
        """
        target = self.plan.target_gain
        if target is None:
            return False
        if any(estimate.gain >= target for estimate in self.confirmed_faster):
            return True
        best = next((arm for arm in self.finalists if arm.name not in self.had_fresh_runs), None)
        if best is None:
            return False
        estimate = self.raced[best.name]
        return estimate.verdict is ArmVerdict.FASTER and estimate.gain >= target

    @cached_property
    def falls_short(self) -> bool:
        """True if the race ended for the target gain but fresh runs did not confirm it."""
        target = self.plan.target_gain
        if target is None or self.being_confirmed or not self.had_fresh_runs:
            return False
        return all(estimate.gain < target for estimate in self.confirmed_faster)

    # The arms of the next row.

    @cached_property
    def undecided(self) -> tuple[Arm, ...]:
        """The arms whose next rows are worth their time.

        An arm that had its fresh runs no longer takes part in the race.
        """
        began = next((row.before for row in Rows(self.study) if row.number == self.before), None)
        return tuple(
            arm
            for arm in self.racers
            if (began is None or self.study.entered[arm.name] <= began)
            and arm.name not in self.had_fresh_runs
            and (arm.name not in self.raced or not self.raced[arm.name].decided)
        )

    @cached_property
    def race_roster(self) -> tuple[str, ...]:
        """The base and the undecided arms.

        A combined arm runs with the best of the others, so that they can be compared.
        """
        arms = self.undecided
        combinations = [arm.name for arm in arms if arm.origin is ArmOrigin.COMBINED]
        if not combinations:
            return (BASE, *(arm.name for arm in arms)) if arms else ()
        others = [
            arm.name for arm in self.faster(self.raced) if arm.origin is not ArmOrigin.COMBINED
        ]
        best = max(others, key=lambda name: self.raced[name].gain, default=None)
        return (BASE, *([best] if best else []), *combinations)

    @cached_property
    def confirm_roster(self) -> tuple[str, ...]:
        """The base and the arms due for fresh runs.

        That is the best arm, plus the second best if the race can't separate them and the budget
        covers both. Further arms follow if these do not confirm the gain for which the race ended
        early.
        """
        if not self.plan.confirm_rows:
            return ()
        names = {arm.name for arm in self.being_confirmed or self._best_two}
        return (BASE, *(arm.name for arm in self.study.arms if arm.name in names)) if names else ()

    @property
    def _best_two(self) -> tuple[Arm, ...]:
        best = self.next_finalists
        if self.had_fresh_runs and not self.falls_short:
            best = tuple(arm for arm in best if arm.name in self.late_arms)
        best = best[:2]
        available = RaceState(self.study, self.plan).remaining.left
        if self.before is not None:
            available += sum(trial.started.row >= self.before for trial in self.study.trials)
        if not best or available < FEWEST_CONFIRM_ROWS * 2:
            return ()
        alike = len(best) == 2 and overlap(self.raced[best[0].name], self.raced[best[1].name])
        if alike and available >= 3 * self.rows_due(best[0].name, len(best)):
            return best
        return best[:1]

    @cached_property
    def ablate_roster(self) -> tuple[str, ...]:
        """The winner and its ablations that still need rows: as many as a confirmation's."""
        winner = RaceState(self.study, self.plan).winner
        if winner is None:
            return ()
        base, due = self.study.arm(BASE).settings, max(self.plan.confirm_rows, 2)
        parts = {arm.name for arm in without_each(base, winner)} - set(self.study.dropped)
        short = [
            arm.name
            for arm in self.study.arms
            if arm.name in parts and self.rows.count(arm.name, ABLATE, winner.name) < due
        ]
        return (winner.name, *short) if short else ()

    @cached_property
    def winner(self) -> Arm | None:
        """The arm that is certainly faster: by fresh runs, or by the race if none are requested.

        Of several it is the one that saves most, or a simpler one tied with it. There is no winner
        before the confirmation is complete.
        """
        estimates = self.confirmed if self.plan.confirm_rows else self.raced
        return simplest_best(self.faster(estimates), estimates, self.plan.rule.indifferent)

    def faster(self, estimates: Mapping[str, GainEstimate]) -> list[Arm]:
        """Return the racers that are faster by these estimates."""
        return [
            arm
            for arm in self.racers
            if arm.name in estimates and estimates[arm.name].verdict is ArmVerdict.FASTER
        ]

    # The budget.

    @cached_property
    def charged(self) -> int:
        """The number of trials charged to the budget.

        Trials that failed through no fault of the arm are repeated free of charge, up to as many as
        the budget has trials.
        """
        paid = self.study.charged
        most = self.plan.budget.trials
        return paid if most is None else max(paid, len(self.study.trials) - most)

    @cached_property
    def trial_s(self) -> float | None:
        """The median wall time of trials with a step time or, without any, of all trials."""
        ended = [
            (trial.counts, trial.wall_s) for trial in self.study.trials if trial.wall_s is not None
        ]
        good = [wall_s for counts, wall_s in ended if counts]
        return median(good or [wall_s for _, wall_s in ended]) if ended else None

    @cached_property
    def remaining(self) -> RemainingBudget:
        """The rest of the budget."""
        budget, trials = self.plan.budget, self.study.trials
        left = math.inf if budget.trials is None else float(budget.trials - self.charged)
        if budget.seconds is not None:
            seconds = budget.seconds - sum(trial.wall_s or 0.0 for trial in trials)
            if seconds <= 0:
                left = min(left, 0.0)
            elif self.trial_s:
                left = min(left, float(math.floor(seconds / self.trial_s)))
        best = next(iter(self.next_finalists), None)
        reserved = reserve(self.charged + left, self.rows_due(best and best.name))
        # Once the race began, others may use the reserve until an arm is due for it.
        raced = any(trial.started.purpose in (Purpose.SCREEN, Purpose.RACE) for trial in trials)
        others = best is None and raced and not self.fresh_starts
        reserved = whole_pairs(reserved, left - ONE_ARM if others else left)
        return RemainingBudget(max(left, 0.0), reserved)


def _by_arm(estimates: Iterable[GainEstimate]) -> dict[str, GainEstimate]:
    return {estimate.arm: estimate for estimate in estimates}


def _estimated_once(
    found: tuple[Observation, ...],
    rule: DecisionRule,
    base: str,
    noise_of: tuple[Observation, ...] = (),
) -> dict[str, GainEstimate]:
    from counterpoint.tune.statistics.fit import confirmed

    return _by_arm(confirmed(found, rule, base, noise_of)) if _are_compared(found, base) else {}


def _are_compared(found: tuple[Observation, ...], base: str) -> bool:
    names = {run.arm for run in found}
    return base in names and len(names) > 1


def overlap(one: GainEstimate, other: GainEstimate) -> bool:
    """Return whether two ranges overlap; True if one is unknown."""
    if not isinstance(one.range, Range) or not isinstance(other.range, Range):
        return True
    return one.range.low <= other.range.high and other.range.low <= one.range.high


def simplest_best(
    arms: Iterable[Arm], estimates: Mapping[str, GainEstimate], indifferent: float
) -> Arm | None:
    """Return the arm that saves most, or a simpler one tied with it.

    Arms are tied if their ranges overlap and their gains differ by no more than `indifferent`; of
    these it is the one with the fewest changes.
    """
    several = sorted(arms, key=lambda arm: -estimates[arm.name].gain)
    if not several:
        return None
    best = estimates[several[0].name]
    tied = [
        arm
        for arm in several
        if best.gain - estimates[arm.name].gain <= indifferent
        and overlap(estimates[arm.name], best)
    ]
    return min(tied, key=lambda arm: len(arm.changes))
