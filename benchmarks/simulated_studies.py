"""Whole studies on simulated runs, through the real statistics; and naive tests on the same runs.

A study: the base twice and all arms once, a second row, then half of what is not decided goes on to
each further look until the cap; the best one is confirmed in a fresh allocation, in as many rows
as its gain takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy import stats

from counterpoint.tune.arm import BASE
from counterpoint.tune.race.rows import row_order
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    DecisionRule,
    GainEstimate,
    Observation,
    looks,
    rows_needed,
)
from counterpoint.tune.statistics.fit import confirmed, estimates, noise
from simulated_runs import Allocation, Floats, Machine, allocation

FEWEST: Final = 2  # arms that halving leaves
TESTS: Final = ("step Welch", "step Mann-Whitney", "run Welch")
ROWS: Final = 4
"""Of the confirmation, and of the naive tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a study said: of each arm when it left the race, and of the finalist in the end."""

    claimed: str | None
    raced: dict[str, GainEstimate]
    final: GainEstimate | None
    race_runs: int
    runs: int


@dataclass(slots=True)
class _Bench:
    """Runs one after the other in one allocation."""

    noise: Allocation
    gains: Sequence[float]
    seed: int
    taken: int = 0
    seen: list[Observation] = field(default_factory=list[Observation])

    def row(self, arms: Sequence[str], row: int) -> None:
        """Run the base and these arms, in the order of `tune`."""
        for name in row_order(arms, row, self.seed):
            steps = self.steps(name)
            self.seen.append(Observation(name, row, float(np.median(steps))))

    def steps(self, name: str) -> Floats:
        arm = 0 if name == BASE else int(name)
        self.taken += 1
        return self.noise.run(self.taken - 1, arm, 0.0 if arm == 0 else self.gains[arm - 1])


def study(
    machine: Machine,
    gains: Sequence[float],
    rule: DecisionRule,
    rng: np.random.Generator,
    confirm_rows: int = ROWS,
) -> Outcome:
    """One study of as many arms as there are gains; arms are called 1, 2, ..."""
    first = _first(machine, gains, rule, rng)
    raced = _race(first, rule)
    finalist = _finalist(raced, rule)
    rows = _rows_due(first, raced, finalist, rule, confirm_rows)
    second = _Bench(allocation(machine, rows * 2, rng), gains, int(rng.integers(2**32)))
    final = None
    if finalist is not None:
        for row in range(rows):
            second.row([finalist], rule.cap + 1 + row)  # no row of the race
        final = confirmed(second.seen, rule, noise_of=first.seen)[0]
    won = final is not None and final.verdict is ArmVerdict.FASTER
    return Outcome(
        claimed=finalist if won else None,
        raced=raced,
        final=final,
        race_runs=first.taken,
        runs=first.taken + second.taken,
    )


def _first(
    machine: Machine, gains: Sequence[float], rule: DecisionRule, rng: np.random.Generator
) -> _Bench:
    runs = 1 + rule.cap * (len(gains) + 1)
    bench = _Bench(allocation(machine, runs, rng), gains, int(rng.integers(2**32)))
    bench.row([], 0)  # with the row's own base: the pair that tells of noise
    return bench


def _race(bench: _Bench, rule: DecisionRule) -> dict[str, GainEstimate]:
    """What was said of each arm when it left."""
    left = [str(number + 1) for number in range(len(bench.gains))]
    said: dict[str, GainEstimate] = {}
    done = 0
    for look in looks(rule):
        for row in range(done, look):
            bench.row(left, row)
        done = look
        found = {it.arm: it for it in estimates(bench.seen, rule)}
        said.update({it: found[it] for it in left})
        left = [it for it in left if not found[it].decided]
        best = sorted(left, key=lambda it: -found[it].gain)[: max(FEWEST, (len(left) + 1) // 2)]
        left = [it for it in left if it in best]
        if not left:
            break
    return said


def _finalist(raced: dict[str, GainEstimate], rule: DecisionRule) -> str | None:
    """The best one that may be faster: it needs no proof here, the fresh runs bring that."""
    able = [
        it
        for it in raced.values()
        if it.verdict is ArmVerdict.FASTER
        or (it.verdict is ArmVerdict.OPEN and it.gain > rule.indifferent)
    ]
    return max(able, key=lambda it: it.gain).arm if able else None


def _rows_due(
    bench: _Bench,
    raced: dict[str, GainEstimate],
    finalist: str | None,
    rule: DecisionRule,
    asked: int,
) -> int:
    """As asked, or as many as show what the race saw, up to the cap."""
    if finalist is None:
        return asked
    once = replace(rule, looks=(), arms=1)
    told = noise(bench.seen, indifferent=rule.indifferent)
    needed = rows_needed(told, raced[finalist].gain, once, most=rule.cap)
    return max(asked, needed if isinstance(needed, int) else rule.cap)


def full_rows(
    machine: Machine, gains: Sequence[float], rule: DecisionRule, rng: np.random.Generator
) -> Floats:
    """Logarithms of steps by arm (the base first), row and step: four full rows of a race."""
    bench = _first(machine, gains, rule, rng)
    names = [str(number + 1) for number in range(len(gains))]
    steps: dict[str, list[Floats]] = {BASE: [], **{it: [] for it in names}}
    for row in range(ROWS):
        for name in row_order(names, row, bench.seed):
            steps[name].append(np.log(bench.steps(name)))
    return np.stack([np.stack(it) for it in steps.values()])


def naive(rows: Sequence[Floats]) -> dict[str, Floats]:
    """One-sided p of `faster` by test: a line per study, a column per arm."""
    whole = np.stack(rows)
    medians = np.median(whole, axis=-1)
    steps = whole.reshape(*whole.shape[:2], -1)
    (arms, base), (runs, of_base) = ((it[:, 1:], it[:, :1]) for it in (steps, medians))
    less = {"alternative": "less", "axis": -1}
    return {
        TESTS[0]: stats.ttest_ind(arms, base, equal_var=False, **less).pvalue,
        TESTS[1]: stats.mannwhitneyu(arms, base, method="asymptotic", **less).pvalue,
        TESTS[2]: stats.ttest_ind(runs, of_base, equal_var=False, **less).pvalue,
    }
