"""How fast `tune --predict` searches, and how good what it finds is.

    python benchmarks/tune_offline.py [--target 8x8xH100:400G] [--candidates 100] [--seeds 1]
                                      [--llama "size=8b"] [--jobs 2] [--no-random] [--json]

The step of examples/llama.py, lowered before the clock starts, for 64 and for 512 H100s. Nothing is
taken from the cache of compiles. Side by side: what the best recipe alone is predicted to save, the
best single choice, the search's winner, and as many points drawn by chance from the same space. All
of it is predicted: by how much a model can be wrong stands in the range beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import machine

os.environ["COUNTERPOINT_CACHE"] = "off"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from counterpoint.compile.pool import Pool
from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.arm import ArmOrigin
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.search.predictor import Predictor
from counterpoint.tune.search.search import search
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.space import Space
from counterpoint.tune.study.ledger import Ledger
from counterpoint.tune.study.records import FORMAT, CandidateSeen, Record, StudyBegan
from counterpoint.tune.study.study import Study
from counterpoint.workflow.forecast.batch import ForecastBatch, PredictionInputs, forecasts
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.options import PredictionOptions
from counterpoint.workflow.subject import lower_subject
from random_points import drawn_at_random

STEP = str(Path(__file__).parent.parent / "examples" / "llama.py") + ":make_step"
TARGETS = ("8x8xH100:400G", "64x8xH100:400G")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One search; gains are predicted shares of the base's step."""

    target: str
    seed: int
    base_s: float
    candidates: int  # compiled, without the winner's ablation
    programs: int
    seconds: float
    cpu_seconds: float  # of workers and of this process
    recipe: str
    recipe_gain: float
    single_gain: float
    winner: str
    winner_gain: float
    winner_range: tuple[float, float]
    random_gain: float | None
    shortlist: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How fast and how good the offline search is.")
    parser.add_argument("--target", action="append")
    parser.add_argument("--candidates", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--llama", default=os.environ.get("LLAMA", ""))
    parser.add_argument("--no-random", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["LLAMA"] = options.llama
    here = machine.describe()
    rows = [
        row
        for target in options.target or TARGETS
        for row in measure(target, options.candidates, options.seeds, options)
    ]
    if options.json:
        print(json.dumps({"machine": asdict(here), "rows": [asdict(it) for it in rows]}))
        return
    print(f"{here.cores} cores, {here.processor}; load {here.load:.1f}; {here.versions}")
    for it in rows:
        print_row(it)


def print_row(it: Row) -> None:
    """As people read it."""
    pace = 60 * it.candidates / it.seconds
    print(f"{it.target}, seed {it.seed}: base {it.base_s * 1e3:,.1f} ms predicted")
    print(
        f"  {it.candidates} candidates, {it.programs} programs: {it.seconds:.0f} s,"
        f" {pace:.0f} a minute, {it.cpu_seconds / it.candidates:.2f} s of CPU each"
    )
    print(f"  best recipe    {it.recipe_gain:7.2%}  {it.recipe}")
    print(f"  best one alone {it.single_gain:7.2%}")
    if it.random_gain is not None:
        print(f"  by chance      {it.random_gain:7.2%}")
    low, high = it.winner_range
    print(f"  search         {it.winner_gain:7.2%}  [{low:.2%}, {high:.2%}]  {it.winner}")
    print(f"  {it.shortlist} on the shortlist", flush=True)


def measure(target: str, candidates: int, seeds: int, options: argparse.Namespace) -> list[Row]:
    """The same step, once for each seed."""
    where = parse_target(target)
    with tempfile.TemporaryDirectory() as directory:
        subject = lower_subject(STEP, devices=where.devices, directory=Path(directory))
    question = PredictionOptions(jobs=options.jobs)
    work = PredictionInputs(subject, PricingContext(target=where), question, lambda _: None)
    made = forecasts(work)
    space = make_space(Settings(), target=where, program=made.base.program)
    rows: list[Row] = []
    for seed in range(seeds):
        plan = StudyPlan(candidates=candidates, seed=seed, jobs=options.jobs)
        cpu, began = os.times(), time.perf_counter()
        study = searched(work, space, plan, made)
        seconds, after = time.perf_counter() - began, os.times()
        chance = None if options.no_random else by_chance(work, space, plan, made)
        cpu_seconds = sum(after[:4]) - sum(cpu[:4])
        rows.append(row(target, seed, study, made, seconds, cpu_seconds, chance))
    return rows


def searched(work: PredictionInputs, space: Space, plan: StudyPlan, made: ForecastBatch) -> Study:
    """What the search comes to."""
    ledger = new_ledger()
    search(work, space, plan, ledger, base_forecast=made)
    return ledger.study


def by_chance(work: PredictionInputs, space: Space, plan: StudyPlan, made: ForecastBatch) -> float:
    """The best of as many points drawn by chance."""
    grid = Grid(space)
    with tempfile.TemporaryDirectory() as scratch, Pool(plan.jobs) as pool:
        predictor = Predictor(work, made, new_ledger(), pool, scratch=Path(scratch))
        board = Leaderboard(predictor.begin(space.base))
        points = drawn_at_random(grid, board, plan.seed, plan.candidates)
        arms = (grid.arm(it, ArmOrigin.SEARCH) for it in points)
        return best_gain(list(predictor.outcomes(arms)), lambda _: True)


def new_ledger() -> Ledger:
    """Of a study that is not kept."""
    began = StudyBegan(
        format=FORMAT,
        version="",
        question="",
        workload=STEP,
        command=(),
        target=None,
        executor=None,
        base=Settings(),
        options=(),
        at="",
    )

    def forget(record: Record) -> None:
        del record

    return Ledger(Study(began=began), forget)


def best_gain(candidates: list[CandidateSeen], wanted: Callable[[CandidateSeen], bool]) -> float:
    """The most that any of them is predicted to save, of those that fit."""
    fit = (it.arm.predicted for it in candidates if wanted(it))
    return max((it.gain for it in fit if it is not None and it.fits is not False), default=0.0)


def row(
    target: str,
    seed: int,
    study: Study,
    made: ForecastBatch,
    seconds: float,
    cpu_seconds: float,
    chance: float | None,
) -> Row:
    """A study as one row."""
    found = list(study.candidates)
    recipes = [it for it in found if it.arm.origin is ArmOrigin.RECIPE]
    recipe_gain = best_gain(recipes, lambda _: True)
    arms = {it.arm.name: it.arm for it in found}
    first = study.search.shortlist[0] if study.search and study.search.shortlist else None
    figures = arms[first].predicted if first is not None else None
    reach = figures.gain_range if figures else None
    compiled = [
        it for it in found if not it.arm.is_base and it.arm.origin is not ArmOrigin.ABLATION
    ]
    predictions = [it.arm.predicted for it in compiled if it.arm.predicted is not None]
    return Row(
        target=target,
        seed=seed,
        base_s=made.base.step_s,
        candidates=compiles(study),
        programs=len({it.program for it in predictions}),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        recipe=next((it.arm.name for it in recipes if gain_of(it) == recipe_gain), "none"),
        recipe_gain=recipe_gain,
        single_gain=best_gain(found, lambda it: it.arm.origin is ArmOrigin.SPACE),
        winner=first or "none",
        winner_gain=figures.gain if figures else 0.0,
        winner_range=(reach.low, reach.high) if reach else (0.0, 0.0),
        random_gain=chance,
        shortlist=len(study.search.shortlist) if study.search else 0,
    )


def compiles(study: Study) -> int:
    """How many candidates were compiled, as the search says."""
    found = re.search(r"(\d+) compiled", study.search.why if study.search else "")
    return int(found[1]) if found else 0


def gain_of(seen: CandidateSeen) -> float | None:
    """What one is predicted to save."""
    return seen.arm.predicted.gain if seen.arm.predicted is not None else None


if __name__ == "__main__":
    main()
