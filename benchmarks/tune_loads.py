"""False wins, gains found and ranges that hold, by kind of noise, in studies by tune's own moves.

    python benchmarks/tune_loads.py [--studies N] [--seed N] [--only WORD]

`false` counts confirmed wins among equal arms, and `found` those of an arm that gains 5%. `fresh
ranges hold` is how many ranges of fresh runs contain the true gain, over both kinds of studies;
`confirmed` is the same of confirmed gains alone. `trials` is the mean of a study.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Final

import numpy as np

from counterpoint.core import Range
from counterpoint.tune.plan import StudyPlan
from simulated_loads import LOADS, Load
from simulated_races import FIRST, Raced, raced

GAIN: Final = 0.05
ARMS: Final = (1, 3)
MOST_FALSE: Final = 0.03
"""Share of the studies of one kind that may claim a gain where there is none."""
LEAST_HOLD: Final = 0.94
"""Share of all ranges of confirmed gains that must hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Studies of one load and number of arms: with equal arms, and with one that gains.

    `fresh` and `confirmed` say of each range whether it contains the truth.
    """

    load: str
    arms: int
    false: int
    found: int
    fresh: tuple[bool, ...]
    confirmed: tuple[bool, ...]
    trials: float


def kind(which: int, arms: int, studies: int, seed: int) -> Kind:
    """Simulate the load of this place among LOADS; the same seed gives the same studies."""
    load = LOADS[which]
    equal, gaining = (_studies(load, arms, gain, studies, seed) for gain in (0.0, GAIN))
    both = [(it, 0.0) for it in equal] + [(it, GAIN) for it in gaining]
    return Kind(
        load=load.name,
        arms=arms,
        false=sum(it.winner is not None for it in equal),
        found=sum(it.winner == FIRST for it in gaining),
        fresh=tuple(hold for it, gain in both for hold in _hold(it, gain).values()),
        confirmed=tuple(
            hold for it, gain in both for arm, hold in _hold(it, gain).items() if arm == it.winner
        ),
        trials=float(np.mean([it.trials for it, _ in both])),
    )


def _studies(load: Load, arms: int, gain: float, studies: int, seed: int) -> list[Raced]:
    gains = (gain, *[0.0] * (arms - 1))
    salt = (seed, *load.name.encode(), arms, round(gain * 100))
    return [
        raced(load, gains, StudyPlan(seed=number), np.random.default_rng((*salt, number)))
        for number in range(studies)
    ]


def _hold(it: Raced, gain: float) -> dict[str, bool]:
    """Return whether each arm's range of fresh runs contains its true gain."""
    found: dict[str, bool] = {}
    for row in it.conclusion.rows:
        if row.confirmed is not None and isinstance(row.confirmed.range, Range):
            truth = gain if row.arm.name == FIRST else 0.0
            found[row.arm.name] = row.confirmed.range.low <= truth <= row.confirmed.range.high
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="loads whose names contain this")
    given = parser.parse_args()
    began = time.monotonic()
    named = [at for at, load in enumerate(LOADS) if given.only in load.name]
    one = partial(kind, studies=given.studies, seed=given.seed)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the pool has a process for each core
    kinds: list[Kind] = []
    print(_line("load", "arms", "false", "found", "fresh ranges hold", "confirmed", "trials"))
    with ProcessPoolExecutor() as pool:
        for it in pool.map(one, *zip(*product(named, ARMS), strict=True)):
            kinds.append(it)
            print(_cells(it), flush=True)
    print()
    for it in kinds:
        if it.false > MOST_FALSE * given.studies:
            print(f"too many false wins: {it.load}, arms {it.arms}")
    holds = [hold for it in kinds for hold in it.confirmed]
    fresh = [hold for it in kinds for hold in it.fresh]
    print(f"ranges that hold: {_share(fresh)} of all, {_share(holds)} of confirmed gains;", end=" ")
    print(f"{LEAST_HOLD:.0%} must")
    print(f"{given.studies} studies of each kind, {time.monotonic() - began:.0f} s")


def _share(holds: list[bool]) -> str:
    return f"{np.mean(holds):.1%}" if holds else "none"


def _cells(it: Kind) -> str:
    return _line(
        it.load,
        str(it.arms),
        str(it.false),
        str(it.found),
        f"{sum(it.fresh)}/{len(it.fresh)}",
        f"{sum(it.confirmed)}/{len(it.confirmed)}",
        f"{it.trials:.1f}",
    )


def _line(*cells: str) -> str:
    widths = (40, 4, 5, 5, 17, 9, 6)
    return " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


if __name__ == "__main__":
    main()
