"""XLA's scheduler keeps account of its schedules: given its costs, the simulation agrees.

The scheduler counts a microsecond ("cycle" with a profile) for every start and done, and none for
what a collective takes of the streams; all else is the same: a collective runs from its start, and
the device waits at its done for what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterpoint.cost import Contention, Price, PriceFamily, PriceSource
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model import launched, launches
from counterpoint.hlo.schedule import is_done
from counterpoint.pgle.lookups import cost_name
from counterpoint.simulate import simulate
from xla_compiler import Compilation, Compiler, why_none

pytestmark = pytest.mark.system

TOTALS = re.compile(r"Total (wasted )?cycles: ([\d.e+]+)")


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


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    reason = why_none()
    if reason:
        pytest.skip(reason)
    made = Compiler(
        tmp_path_factory.mktemp("xla"),
        {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "latency_hiding_scheduler=1"},
    )
    yield made
    made.close()


def compiled(compiler: Compiler, model: str, path: Path) -> tuple[Compilation, Profiled]:
    """The model under a profile with a cost for everything, much longer than XLA's own counts."""
    chance = np.random.default_rng(1)
    us = {
        cost_name(it): round(float(chance.uniform(300, 3000)), 1)
        for computation in launched(compiler.compile(model).program)
        for it in computation.instructions
        if launches(it) and not is_done(it)
    }
    path.write_text("\n".join(f'costs {{ name: "{n}" cost_us: {us[n]} }}' for n in us))
    return compiler.with_profile(model, path), Profiled(us)


def told(log: str) -> list[tuple[float, float]]:
    """Total and waste of every computation, after scheduling."""
    found = [(match[1], float(match[2])) for match in TOTALS.finditer(log)]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all(wasted[0] and not total[0] for wasted, total in pairs)
    return [(total[1], wasted[1]) for wasted, total in pairs[len(pairs) // 2 :]]


@pytest.mark.parametrize("model", ["small", "unrolled"])
def test_total_and_waste_are_those_that_xla_logs(
    compiler: Compiler, model: str, tmp_path: Path
) -> None:
    compilation, costs = compiled(compiler, model, tmp_path / "profile.pbtxt")
    [(total, wasted)] = told(compilation.log)
    simulation = simulate(compilation.program, costs)
    counted = 2 * sum(is_done(it) for it in compilation.program.instructions)
    assert 1e6 * simulation.step_s == pytest.approx(total, abs=counted)
    assert 1e6 * simulation.exposed_s == pytest.approx(wasted, abs=counted)


def test_so_are_those_of_the_bodies_of_loops(compiler: Compiler, tmp_path: Path) -> None:
    compilation, costs = compiled(compiler, "step", tmp_path / "profile.pbtxt")
    program = compilation.program
    ours: list[tuple[float, float]] = []
    for computation in launched(program):
        if (
            any(is_done(it) for it in computation.instructions)
            and computation.name != program.entry
        ):
            alone = simulate(replace(program, entry=computation.name, answers={}), costs)
            ours.append((1e6 * alone.step_s, 1e6 * alone.exposed_s))
    theirs = [pair for pair in told(compilation.log) if pair[1]]
    assert len(ours) == len(theirs) == 2
    for (total, wasted), (mine, waited) in zip(sorted(theirs), sorted(ours), strict=True):
        # A copy of a loop's counter is made or removed after scheduling.
        assert mine == pytest.approx(total, rel=0.02)
        assert waited == pytest.approx(wasted, abs=6)
