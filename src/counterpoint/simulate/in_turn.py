"""Several programs that run one after the other, as one simulated step.

Each was simulated alone. A device runs them in order, with a launch between two; nothing of one
overlaps another.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from counterpoint.cost.model import PriceFamily, PriceSource
from counterpoint.simulate.jitter import JitteredSteps
from counterpoint.simulate.simulation import Simulation
from counterpoint.timeline.model import RUNS, STEPS, Timeline
from counterpoint.timeline.ops import without_false_forward

_PS: Final = 1e12
_RULE: Final = "the runs of all programs of an iteration are one step"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramRuns:
    """The programs of an iteration, and the order of their runs as indices into them."""

    simulations: tuple[Simulation, ...]
    order: tuple[int, ...]
    main: int
    launch_s: float  # between two runs
    updates: frozenset[int] = frozenset()  # the optimizer's: alone, they do not show whose they are

    def counted(self) -> Iterator[tuple[Simulation, int]]:
        """Yield each program's run and how often an iteration runs it."""
        counts = Counter(self.order)
        for number, simulation in enumerate(self.simulations):
            if counts[number]:
                yield simulation, counts[number]

    def total(self, of: Callable[[Simulation], float]) -> float:
        """Sum a value of one run over all runs."""
        return sum(of(simulation) * count for simulation, count in self.counted())


def in_turn(runs: ProgramRuns) -> Simulation:
    """Return the step in which these programs run in turn."""
    gaps_s = runs.launch_s * (len(runs.order) - 1)
    step_s = runs.total(lambda each: each.step_s) + gaps_s
    reach = _reach(runs)
    high_s = step_s + math.hypot(0.0, *(max(0.0, high) for _, high in reach.values()))
    return Simulation(
        draw=lambda: _drawn(runs),
        step_s=step_s,
        low_s=step_s - math.hypot(0.0, *(min(0.0, low) for low, _ in reach.values())),
        high_s=high_s,
        reach_s=reach,
        rests_on=_rests_on(runs),
        exposed_s=runs.total(lambda each: each.exposed_s),
        communicating_s=runs.total(lambda each: each.communicating_s),
        communication_s=runs.total(lambda each: each.communication_s),
        compute_s=runs.total(lambda each: each.compute_s),
        unpriced=tuple(
            replace(
                bound,
                times=bound.times * count,
                low_s=bound.low_s * count,
                high_s=bound.high_s * count,
                share=min(1.0, bound.high_s * count / high_s) if high_s else 0.0,
            )
            for each, count in runs.counted()
            for bound in each.unpriced
        ),
        uncounted=tuple(loop for each, _ in runs.counted() for loop in each.uncounted),
        critical_path_s=runs.total(lambda each: each.critical_path_s) + gaps_s,
        busiest_lane_s=runs.total(lambda each: each.busiest_lane_s),
        jittered=_jittered(runs, gaps_s),
        notes=_notes(runs),
        on_tpus=any(each.on_tpus for each, _ in runs.counted()),
        as_published=runs.total(lambda each: each.as_published * each.step_s) / (step_s or 1.0),
    )


def _reach(runs: ProgramRuns) -> dict[PriceFamily, tuple[float, float]]:
    """Sum the effect of each family: prices of one family err alike in all programs."""
    sums: defaultdict[PriceFamily, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each, count in runs.counted():
        for family, (low, high) in each.reach_s.items():
            sums[family][0] += low * count
            sums[family][1] += high * count
    return {family: (low, high) for family, (low, high) in sums.items()}


def _rests_on(runs: ProgramRuns) -> dict[PriceSource, float]:
    sums: defaultdict[PriceSource, float] = defaultdict(float)
    for each, count in runs.counted():
        for source, seconds in each.rests_on.items():
            sums[source] += seconds * count
    return dict(sums)


def _jittered(runs: ProgramRuns, gaps_s: float) -> JitteredSteps | None:
    drawn = [(each.jittered, count) for each, count in runs.counted()]
    if any(jittered is None for jittered, _ in drawn):
        return None
    samples = sum(
        (count * np.array(jittered.samples) for jittered, count in drawn if jittered),
        start=np.array(gaps_s),
    )
    p10, median, p90 = np.percentile(samples, [10, 50, 90]).tolist()
    return JitteredSteps(samples=tuple(samples.tolist()), median_s=median, p10_s=p10, p90_s=p90)


def _ops_in_step(runs: ProgramRuns, number: int, drawn: Timeline) -> pl.DataFrame:
    ops = drawn.ops.with_columns(pl.lit(number, pl.UInt16).alias("program"))
    if number not in runs.updates:
        return ops
    return ops.with_columns(pl.lit("optimizer").cast(ops.schema["phase"]).alias("phase"))


def _notes(runs: ProgramRuns) -> tuple[str, ...]:
    each = (note for simulation, _ in runs.counted() for note in simulation.notes)
    return tuple(dict.fromkeys(each))


def _drawn(runs: ProgramRuns) -> Timeline:
    """Return one Timeline of one step, with the runs of all programs."""
    drawn = [simulation.timeline for simulation in runs.simulations]
    lines = list(dict.fromkeys(line for each in drawn for line in each.lines))
    first_op = np.cumsum([0, *(len(each.ops) for each in drawn)]).tolist()
    spans: list[pl.DataFrame] = []
    rows: list[dict[str, int]] = []
    at, times = 0, Counter[int]()
    for run, number in enumerate(runs.order):
        each = drawn[number]
        line_of = {index: lines.index(line) for index, line in enumerate(each.lines)}
        spans.append(
            each.spans.with_columns(
                pl.col("line").replace_strict(line_of, return_dtype=pl.UInt32),
                (pl.col("op") + first_op[number]).cast(pl.UInt32),
                pl.lit(run, pl.UInt32).alias("run"),
                pl.col("start_ps") + at,
            )
        )
        end = at + round(runs.simulations[number].step_s * _PS)
        rows.append(
            {
                "device": 0,
                "program": number,
                "index": times[number],
                "step": 0,
                "start_ps": at,
                "end_ps": end,
            }
        )
        times[number] += 1
        at = end + round(runs.launch_s * _PS)
    end = rows[-1]["end_ps"]
    step = {"step": [0], "device": [0], "start_ps": [0], "end_ps": [end]}
    return replace(
        drawn[runs.main],
        inputs=tuple(dict.fromkeys(name for each in drawn for name in each.inputs)),
        lines=tuple(lines),
        programs=tuple(entry for each in drawn for entry in each.programs),
        ops=without_false_forward(
            pl.concat([_ops_in_step(runs, number, each) for number, each in enumerate(drawn)])
        ),
        spans=pl.concat(spans),
        runs=pl.DataFrame(rows, schema={**RUNS}),
        steps=pl.DataFrame({**step, "whole": [True], "steady": [True]})
        .select(*STEPS)
        .cast({**STEPS}),
        step_rule=_RULE,
        step_program=runs.main,
        notes=_notes(runs),
    )
