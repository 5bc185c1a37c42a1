"""XLA's scheduler keeps account of its schedules: given its costs, the simulation agrees.

The scheduler counts a microsecond ("cycle" with a profile) for every start and done, and none for
what a collective takes of the streams; all else is the same: a collective runs from its start, and
the device waits at its done for what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.cost.model import Contention, Price, PriceFamily, PriceSource
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.lookups import cost_name
from counterpoint.simulate.simulation import simulate
from xla_compiler import Compiler, why_none
from xla_schedules import LOUD, Schedule, kept, scheduled


class Profiled:
    """Microseconds by the names that XLA asks for."""

    contention = Contention()
    launch_s = 0.0

    def __init__(self, us: Mapping[str, float]) -> None:
        self._us = us

    def price(self, program: Program, instruction: Instruction) -> Price:
        seconds = self._us[cost_name(instruction)] / 1e6
        talks = collective(program, instruction) is not None
        family = PriceFamily.DOMAIN if talks else PriceFamily.MATMUL
        return Price(seconds, seconds, seconds, PriceSource.MEASURED, family)


def account_agrees(schedule: Schedule) -> None:
    [(total, wasted)] = schedule.totals
    simulation = simulate(schedule.program, Profiled(schedule.us))
    counted = 2 * sum(is_done(it) for it in schedule.program.instructions)
    assert 1e6 * simulation.step_s == pytest.approx(total, abs=counted)
    assert 1e6 * simulation.exposed_s == pytest.approx(wasted, abs=counted)


def accounts_of_loops_agree(schedule: Schedule) -> None:
    program, costs = schedule.program, Profiled(schedule.us)
    ours: list[tuple[float, float]] = []
    for computation in launched(program):
        if (
            any(is_done(it) for it in computation.instructions)
            and computation.name != program.entry
        ):
            alone = simulate(replace(program, entry=computation.name, answers={}), costs)
            ours.append((1e6 * alone.step_s, 1e6 * alone.exposed_s))
    theirs = [pair for pair in schedule.totals if pair[1]]
    assert len(ours) == len(theirs) == 2
    for (total, wasted), (mine, waited) in zip(sorted(theirs), sorted(ours), strict=True):
        # A copy of a loop's counter is made or removed after scheduling.
        assert mine == pytest.approx(total, rel=0.02)
        assert waited == pytest.approx(wasted, abs=6)


@pytest.mark.parametrize("model", ["small", "unrolled"])
def test_total_and_waste_are_those_that_xla_logs(model: str) -> None:
    account_agrees(kept(model))


def test_so_are_those_of_the_bodies_of_loops() -> None:
    accounts_of_loops_agree(kept("step"))


@pytest.mark.system
def test_the_installed_compiler_agrees_too(tmp_path: Path) -> None:
    reason = why_none()
    if reason:
        pytest.skip(reason)
    compiler = Compiler(tmp_path, LOUD)
    try:
        small, step = (
            scheduled(compiler, model, tmp_path / f"{model}.pbtxt") for model in ("small", "step")
        )
    finally:
        compiler.close()
    account_agrees(small)
    accounts_of_loops_agree(step)
    if compiler.jax == "0.10.2":  # which the files were written with
        assert (small.us, small.totals) == (kept("small").us, kept("small").totals)
