"""How often `compare` calls equal programs different, and misses what is: simulated Runs.

    python benchmarks/compare_statistics.py [--pairs N] [--seed N] [--quick]

Pairs are judged by compare's own code. `alarms` are equal pairs that fail `--fail-above 0%` (the
hardest gate) and `2%`; `verdicts` those called faster or slower. `missed` are pairs whose B is 5%
slower and that pass `--fail-above 2%`. `holds` is how often the 95% range has the truth. Shares are
per cent: over all orders of three runs of each, and of the worst order. All runs of a pair are on
one machine (simulated_runs.py), which becomes slower from run to run where it drifts.

The last table is of Runs on disk: B is faster, and some of its runs failed, computed NaN, or ended
early, which must never pass.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from counterpoint.core import Basis, Range
from counterpoint.diagnose.compare.comparison import compare
from counterpoint.diagnose.compare.step_time import RunSteps, StepChange, StepVerdict, step_change
from made_runs import CRASHED, LOST_NUMBERS, OK, made_run
from simulated_runs import Machine, allocation

RUNS: Final = 3
ABBA: Final = "ABBAAB"
BLOCKS: Final = "AAABBB"
SLOWER: Final = 0.05
TWO_PACES: Final = "half of all runs 30% longer"
MACHINES: Final = (
    Machine(name="runs differ by 0.15%"),
    Machine(name="by 0.6%", run=0.006),
    Machine(name="by 2%", run=0.02),
    Machine(name="0.15%, drift 0.3% a run", drift=0.003),
    Machine(name="0.6%, drift 0.3% a run", run=0.006, drift=0.003),
    Machine(name="0.3%, drift 2% a run", run=0.003, drift=0.02),
    Machine(name="neighbours 0.3%", neighbours=0.003),
    Machine(name="2% of runs stand out", outliers=0.02),
    Machine(name="B scatters twice", run=0.003, noisy=2.0),
    Machine(name=TWO_PACES),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What was said of a pair in which B is longer by `truth`."""

    order: str
    truth: float
    found: StepChange

    @property
    def called(self) -> bool:
        return self.found.verdict in (StepVerdict.FASTER, StepVerdict.SLOWER)

    @property
    def holds(self) -> bool:
        reach = self.found.range
        return isinstance(reach, Range) and reach.low <= self.truth <= reach.high

    def fails(self, limit: float) -> bool:
        return self.found.slower_by_more_than(limit, "")


def orders(runs: int = RUNS) -> list[str]:
    """All orders of so many runs of A and of B."""
    places = range(2 * runs)
    return [
        "".join("A" if at in of_a else "B" for at in places) for of_a in combinations(places, runs)
    ]


def judged(machine: Machine, order: str, change: float, rng: np.random.Generator) -> Judged:
    """Simulate one pair whose B is longer by the change."""
    drawn = allocation(machine, len(order), rng)
    sides: dict[str, list[RunSteps]] = {"A": [], "B": []}
    for at, side in enumerate(order):
        steps = drawn.run(at, "AB".index(side), -change if side == "B" else 0.0)
        if machine.name == TWO_PACES and rng.random() < 0.5:
            steps = 1.3 * steps
        sides[side].append(
            RunSteps(tuple(map(float, steps)), "log", Basis.MEASURED, started=60.0 * at)
        )
    found = step_change(sides["A"], sides["B"])
    if not isinstance(found, StepChange):
        raise TypeError(found.reason)
    return Judged(order, change, found)


def share(hits: Sequence[bool]) -> str:
    return f"{100 * sum(hits) / max(len(hits), 1):.1f}"


def by_order(pairs: Sequence[Judged], hits: Sequence[bool]) -> str:
    """The share over all pairs, and of the worst order."""
    counts: dict[str, list[bool]] = {}
    for pair, hit in zip(pairs, hits, strict=True):
        counts.setdefault(pair.order, []).append(hit)
    worst = max(counts, key=lambda order: sum(counts[order]))
    return f"{share(hits)}, {share(counts[worst])} in {worst}"


def of_machine(machine: Machine, pairs: int, seed: int) -> list[str]:
    """The row of a machine: of equal pairs, then of pairs whose B is slower."""
    rng = np.random.default_rng((seed, MACHINES.index(machine)))
    equal, slower = (
        [judged(machine, order, change, rng) for order in orders() for _ in range(pairs)]
        for change in (0.0, SLOWER)
    )
    missed = [not it.fails(0.02) for it in slower]
    in_order = {
        order: share([miss for it, miss in zip(slower, missed, strict=True) if it.order == order])
        for order in (ABBA, BLOCKS)
    }
    holds = [it.holds for it in (*equal, *slower)]
    in_abba = [it.holds for it in (*equal, *slower) if it.order == ABBA]
    return [
        machine.name,
        by_order(equal, [it.fails(0.0) for it in equal]),
        by_order(equal, [it.fails(0.02) for it in equal]),
        share([it.called for it in equal]),
        in_order[ABBA],
        in_order[BLOCKS],
        f"{share(holds)}; {share(in_abba)}",
    ]


def of_single_runs(sigma: float, pairs: int, seed: int) -> list[str]:
    """The row of one run each: what is assumed of runs may not hold."""
    machine = Machine(name="", run=sigma)
    rng = np.random.default_rng((seed, round(sigma * 1e5)))
    equal = [judged(machine, "AB", 0.0, rng) for _ in range(pairs)]
    return [
        f"{sigma:.2%}",
        share([it.fails(0.0) for it in equal]),
        share([it.fails(0.02) for it in equal]),
        share([it.called for it in equal]),
    ]


def faulty(pairs: int, seed: int) -> dict[str, tuple[int, int]]:
    """How many pairs passed of each kind: B is faster, and one or all of its runs are faulty."""
    rng = np.random.default_rng(seed)
    losses = [2.0 - 0.01 * step for step in range(45)]
    passed: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        for kind in ("NaN", "NaN, exit code 0", "crashed", "shorter", "none"):
            count = 0
            for pair in range(pairs):
                sides: dict[str, list[str]] = {"A": [], "B": []}
                bad = rng.choice(RUNS, rng.integers(1, RUNS + 1), replace=False)
                for at, side in enumerate(ABBA):
                    number = len(sides[side])
                    is_bad = side == "B" and number in bad and kind != "none"
                    printed = losses
                    if is_bad and kind.startswith("NaN"):
                        printed = [*losses[: int(rng.integers(1, 44))], float("nan")]
                    outcome = OK
                    if is_bad:
                        outcome = {"NaN": LOST_NUMBERS, "crashed": CRASHED}.get(kind, OK)
                    run = made_run(
                        Path(place, kind, str(pair), f"{side}{number}"),
                        0.01 * float(np.exp(rng.normal(0, 0.006))) * (0.6 if side == "B" else 1),
                        at=at,
                        steps=int(rng.integers(0, 44)) if is_bad and kind == "shorter" else 45,
                        losses=printed,
                        outcome=outcome,
                    )
                    sides[side].append(str(run))
                count += not compare(sides["A"], sides["B"]).failures(0.02)
            passed[kind] = count, pairs
    return passed


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=600, help="of each order, of equal programs")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="100 pairs")
    given = parser.parse_args()
    pairs = 100 if given.quick else given.pairs
    began = time.monotonic()
    titles = (
        *(f"{RUNS} against {RUNS}", "alarms, gate 0%: all, worst", "gate 2%", "verdicts"),
        *(f"+5% missed, {ABBA}", f"+5% missed, {BLOCKS}", f"range holds: all; {ABBA}"),
    )
    table(titles, [of_machine(machine, pairs, given.seed) for machine in MACHINES])
    single = [
        of_single_runs(sigma, min(pairs, 500), given.seed)
        for sigma in (0.0015, 0.003, 0.005, 0.01, 0.02)
    ]
    table(("one run each, which differ by", "alarms, gate 0%", "gate 2%", "verdicts"), single)
    passes = faulty(max(pairs // 20, 5), given.seed)
    table(
        ("runs of B", "passed a gate of 2%"),
        [(kind, f"{count} of {of}") for kind, (count, of) in passes.items()],
    )
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
