"""How often `tune` would call noise a win, and a win noise: whole studies on simulated runs.

    python benchmarks/statistics.py [--studies N] [--seed N] [--confirm-rows N] [--quick]

The first arm has the gain of the line, all others none. `claimed` is how often a win is claimed:
wrongly where the gain is 0, else of that arm. `race` is the same without a confirmation. The
statistics see medians of runs only. Beside them stand the tests that people use, on the race's
runs, over four full rows, one-sided at 2.5%, corrected for the number of arms (Bonferroni).
`off` is the mean error of the gain of the first arm where it came out best, by the race and by the
fresh runs. Shares are per cent of studies, with Wilson's 95% range.

The file is not called statistics.py: Python would take it for its own module of this name (the one
that is, in this folder, runs this one, and hands Python's to everybody else).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoint.tune.statistics.estimate import ArmVerdict, DecisionRule
from simulated_runs import MACHINES, Machine
from simulated_studies import TESTS, Outcome, full_rows, naive, study

ARMS: Final = (1, 8, 20)
GAINS: Final = (0.02, 0.01, 0.005)
RATE: Final = 0.05
NAIVE: Final = 0.4  # naive tests are made for this share of the studies


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
        return f"{self.hits / self.of * 100:.1f} [{low * 100:.1f}, {high * 100:.1f}]"


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
                    said.verdict is ArmVerdict.FASTER and (not self.gain or arm == "1")
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
                it.raced["1"].verdict is ArmVerdict.SAME
                or (
                    it.final is not None
                    and it.final.arm == "1"
                    and it.final.verdict is ArmVerdict.SAME
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


@dataclass(frozen=True, slots=True)
class Options:
    """Of the whole benchmark."""

    studies: int
    seed: int
    confirm_rows: int


def case(machine: Machine, arms: int, gain: float, options: Options) -> Case:
    """Simulate; the same seed gives the same studies."""
    gains = [gain, *[0.0] * (arms - 1)]
    rule = DecisionRule(arms=arms)

    def rng(number: int) -> np.random.Generator:
        salt = (options.seed, MACHINES.index(machine), arms, round(gain * 1e4))
        return np.random.default_rng((*salt, number))

    outcomes = tuple(
        study(machine, gains, rule, rng(number), options.confirm_rows)
        for number in range(options.studies)
    )
    several = max(int(options.studies * NAIVE), 1)
    found = naive([full_rows(machine, gains, rule, rng(number)) for number in range(several)])
    concerned = slice(0, 1 if gain else arms)
    wins = {
        test: Share(int((ps[:, concerned] < RATE / 2 / arms).any(axis=1).sum()), several)
        for test, ps in found.items()
    }
    return Case(machine=machine, arms=arms, gain=gain, outcomes=outcomes, naive=wins)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--confirm-rows", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="two machines, 150 studies")
    given = parser.parse_args()
    options = Options(150 if given.quick else given.studies, given.seed, given.confirm_rows)
    began = time.monotonic()
    titles = ("claimed", "'no effect'", "runs", "off", "race", *TESTS)
    print(_line("machine", "arms", "gain", *titles))
    for machine in MACHINES[:2] if given.quick else MACHINES:
        for arms in ARMS:
            for gain in (0.0, *GAINS):
                print(_cells(case(machine, arms, gain, options)), flush=True)
    print(f"\n{options.studies} studies of each kind, {time.monotonic() - began:.0f} s")


def _cells(it: Case) -> str:
    off = " ".join(f"{share * 100:+.2f}" for share in it.bias) if it.gain else ""
    return _line(
        it.machine.name,
        str(it.arms),
        f"{it.gain * 100:g}",
        str(it.claims),
        str(it.called_same),
        f"{it.runs:.1f}",
        off,
        str(it.race_claims),
        *(str(share) for share in it.naive.values()),
    )


def _line(*cells: str) -> str:
    widths = (23, 4, 4, 19, 19, 5, 11, 19, 19, 19, 19)
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


if __name__ == "__main__":
    main()
