"""Replay: a real profile's own costs, put back into its program, give the step that was measured.

The profile: Pax, FSDP over 4 x A100. Its thunks name the instructions of the embedded module.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

import counterpoint
from counterpoint.cost.model import FREE, Contention, Price, PriceFamily, PriceSource
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.simulation import simulate
from counterpoint.timeline.model import Timeline
from real_profiles import opened

pytestmark = pytest.mark.system


class Measured:
    """Medians of what each instruction took; what runs beside what is in them already."""

    contention = Contention()

    def __init__(self, seconds: Mapping[str, float], launch_s: float) -> None:
        self._seconds = seconds
        self.launch_s = launch_s

    def price(self, program: Program, instruction: Instruction) -> Price:
        found = self._seconds.get(instruction.name)
        if found is None:
            return FREE
        talks = collective(program, instruction) is not None
        family = PriceFamily.DOMAIN if talks else PriceFamily.MATMUL
        return Price(found, found, found, PriceSource.MEASURED, family)


def medians(timeline: Timeline, program: Program) -> dict[str, float]:
    """Seconds of one execution by instruction, over the steps that count."""
    steady = timeline.steps.filter("steady")["step"].to_list()
    ran = timeline.frame().filter(
        (pl.col("program") == timeline.step_program) & pl.col("step").is_in(steady)
    )
    found = ran.group_by("op").agg(pl.col("dur_ps").median() / 1e12).collect()
    seconds: dict[str, float] = {}
    for name, median in found.rows():
        instruction = program.instruction(name)
        assert instruction is not None
        seconds[instruction.name] = median
    return seconds


def test_a_measured_step_is_found_again(shared: Path) -> None:
    timeline = opened(shared / "data/traces/pax_fsdp4_4proc_proc0.zip")
    assert timeline.step_program is not None
    program = timeline.programs[timeline.step_program].hlo()
    assert program is not None
    measured = counterpoint.explain(timeline)
    assert measured.breakdown is not None
    assert measured.steps.execution_ms is not None
    # Kernels follow each other at 1.3 us on that machine: its idle time within a run.
    simulation = simulate(program, Measured(medians(timeline, program), 1.3e-6))
    ran = measured.steps.execution_ms
    assert 1e3 * simulation.step_s == pytest.approx(ran, rel=0.01)
    exposed = measured.breakdown.collective_exposed_ms
    assert 1e3 * simulation.exposed_s == pytest.approx(exposed, abs=0.005 * ran)
    # Between two runs the device waits 3.8 ms for the host, of which the program says nothing.
    assert measured.steps.median_ms is not None
    assert 1e3 * simulation.step_s == pytest.approx(measured.steps.median_ms, rel=0.04)
