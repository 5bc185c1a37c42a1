"""How often `tune` would call noise a win, and a win noise: whole studies on simulated runs.

    python benchmarks/tune_statistics.py [--studies N] [--seed N] [--quick]

Nothing is fitted to the noise that is drawn: the statistics see medians of runs only. Beside them
stand the tests that people use, on steps and on runs, over four full rows, with their p corrected
for the number of arms (Bonferroni). Shares are of studies, with Wilson's 95 % range. The file is
not called statistics.py: Python would take that for its own module of this name.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoint.tune.statistics.estimate import Rule, Verdict
from simulated_runs import MACHINES, Machine
from simulated_studies import TESTS, Outcome, naive, study

ARMS: Final = (1, 8, 20)
GAINS: Final = (0.02, 0.01, 0.005)
RATE: Final = 0.05
NAIVE: Final = 0.4  # naive tests are made for this share of the studies: Mann-Whitney is slow


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many, with its range."""

    hits: int
    of: int

    @property
    def wilson(self) -> tuple[float, float]:
        z, n, p = 1.96, self.of, self.hits / self.of
        middle = (p + z * z / 2 / n) / (1 + z * z / n)
        half = z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n) / (1 + z * z / n)
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def __str__(self) -> str:
        low, high = self.wilson
        return f"{self.hits / self.of:5.1%} [{low:.1%}, {high:.1%}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Studies of one kind: the first arm has this gain, the rest has none."""

    machine: Machine
    arms: int
    gain: float
    outcomes: tuple[Outcome, ...]
    naive: dict[str, Share]

    def share(self, hits: Sequence[bool]) -> Share:
        return Share(sum(hits), len(self.outcomes))

    @property
    def claims(self) -> Share:
        """Of a win: where there is none, or of the arm that has one."""
        return self.share(
            [it.claimed in (("1",) if self.gain else _any(it)) for it in self.outcomes]
        )

    @property
    def race_claims(self) -> Share:
        """The same by the race alone, as if nothing was confirmed."""
        return self.share(
            [
                any(
                    said.verdict is Verdict.FASTER and (not self.gain or arm == "1")
                    for arm, said in it.raced.items()
                )
                for it in self.outcomes
            ]
        )

    @property
    def called_same(self) -> Share:
        """How often the first arm was said to have no effect."""
        return self.share(
            [
                it.raced["1"].verdict is Verdict.SAME
                or (
                    it.final is not None
                    and it.final.arm == "1"
                    and it.final.verdict is Verdict.SAME
                )
                for it in self.outcomes
            ]
        )

    @property
    def runs(self) -> float:
        return float(np.mean([it.runs for it in self.outcomes]))

    @property
    def bias(self) -> tuple[float, float]:
        """Mean error of the gain where the first arm came out best: of the race, of fresh runs."""
        best = [
            (it.raced["1"].gain - self.gain, it.final.gain - self.gain)
            for it in self.outcomes
            if it.final is not None and it.final.arm == "1"
        ]
        raced, fresh = np.mean(best, axis=0) if best else (math.nan, math.nan)
        return float(raced), float(fresh)


def _any(outcome: Outcome) -> tuple[str, ...]:
    return () if outcome.claimed is None else (outcome.claimed,)


def case(machine: Machine, arms: int, gain: float, studies: int, seed: int) -> Case:
    """Simulate; the same seed gives the same studies."""
    gains = [gain, *[0.0] * (arms - 1)]
    rule = Rule(arms=arms)
    salt = (seed, MACHINES.index(machine), arms, round(gain * 1e4))
    outcomes = tuple(
        study(machine, gains, rule, np.random.default_rng((*salt, number)))
        for number in range(studies)
    )
    several = max(int(studies * NAIVE), 1)
    found = [
        naive(machine, gains, rule, np.random.default_rng((*salt, it))) for it in range(several)
    ]
    level = RATE / 2 / arms
    wins = {
        test: Share(
            sum(bool((it[test][: 1 if gain else arms] < level).any()) for it in found), several
        )
        for test in TESTS
    }
    return Case(machine=machine, arms=arms, gain=gain, outcomes=outcomes, naive=wins)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="the first two machines, 150 studies")
    options = parser.parse_args()
    studies = 150 if options.quick else options.studies
    began = time.monotonic()
    for machine in MACHINES[:2] if options.quick else MACHINES:
        _print(machine, studies, options.seed)
    print(f"\n{studies} studies of each kind, {time.monotonic() - began:.0f} s")


def _print(machine: Machine, studies: int, seed: int) -> None:
    print(f"\n{machine.name}")
    for arms in ARMS:
        none = case(machine, arms, 0.0, studies, seed)
        print(f"  {arms} arm{'s' if arms > 1 else ''}, no effect: a win is claimed")
        print(f"    tune, whole study     {none.claims}   {none.runs:.1f} runs")
        print(f"    tune, race alone      {none.race_claims}")
        for test, share in none.naive.items():
            print(f"    {test:<21} {share}")
        for gain in GAINS:
            some = case(machine, arms, gain, studies, seed)
            raced, fresh = some.bias
            print(
                f"  {arms} arm{'s' if arms > 1 else ''}, one of them {gain:.1%} faster: "
                f"found {some.claims}, 'no effect' {some.called_same}, {some.runs:.1f} runs; "
                f"as the best, its gain is off by {raced:+.2%} in the race, {fresh:+.2%} in fresh runs"
            )
            others = "; ".join(f"{test} {share}" for test, share in some.naive.items())
            print(f"    {others}", flush=True)


if __name__ == "__main__":
    main()
