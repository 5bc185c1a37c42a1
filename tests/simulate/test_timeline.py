"""A simulated step is a Timeline like any other: explained, stored and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterpoint
from counterpoint.cost.model import Contention, Price, PriceFamily, PriceSource, price_around
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.work import bytes_accessed, flops
from counterpoint.simulate.simulation import Simulation, simulate
from counterpoint.timeline.storage.parquet import read_parquet, write_parquet

STEP = Path(__file__).parent.parent / "hlo" / "data" / "gpu_step.hlo.pb.xz"


class Rates:
    """Round figures: 500 TFLOP/s, 2.5 TB/s of memory, 50 GB/s of network."""

    contention = Contention(compute=0.1)
    launch_s = 1e-6

    def price(self, program: Program, instruction: Instruction) -> Price:
        said = collective(program, instruction)
        if said is not None:
            seconds = 2e-5 + said.bytes / 5e10
            return price_around(seconds, 0.2, PriceSource.TABLE, PriceFamily.NETWORK)
        arithmetic = (flops(program, instruction) or 0) / 5e14
        memory = (bytes_accessed(program, instruction) or 0) / 2.5e12
        return price_around(
            2e-6 + max(arithmetic, memory), 0.1, PriceSource.ANALYTIC, PriceFamily.MATMUL
        )


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    target = parse_target("8xH100")
    return simulate(read_program(STEP), Rates(), target=target, hlo=STEP.read_bytes())


def test_explain_finds_what_the_simulation_summed(simulation: Simulation) -> None:
    explanation = counterpoint.explain(simulation.timeline)
    parts = explanation.breakdown
    assert parts is not None
    assert explanation.basis == "predicted"
    assert explanation.steps.median_ms == pytest.approx(simulation.step_s * 1e3)
    gaps = parts.idle_ms
    assert 0 < gaps < 0.2 * simulation.step_s * 1e3
    assert parts.collective_exposed_ms == pytest.approx(simulation.exposed_s * 1e3, abs=gaps)
    talked = parts.collective_exposed_ms + parts.collective_hidden_ms
    assert talked == pytest.approx(simulation.communication_s * 1e3, rel=1e-3)
    worked = parts.compute_ms + parts.copy_exposed_ms
    assert 1 <= worked / (simulation.compute_s * 1e3) <= 1.1


def test_scopes_phases_slack_and_bandwidths_are_known(simulation: Simulation) -> None:
    explanation = counterpoint.explain(simulation.timeline)
    assert explanation.phases is not None
    assert explanation.phases.forward_ms > 0
    assert explanation.phases.backward_ms > 0
    assert explanation.collectives["slack_ms"].null_count() == 0
    assert (explanation.collectives["algbw_gbps"] < 50).all()
    assert explanation.collectives["source"].null_count() < len(explanation.collectives)
    assert explanation.utilization.chip == "H100 SXM"
    assert explanation.utilization.mfu is not None
    assert explanation.utilization.mfu > 0
    assert len(explanation.ops.filter(category="matmul"))


def test_it_is_stored_and_read_again(simulation: Simulation, tmp_path: Path) -> None:
    write_parquet(simulation.timeline, tmp_path / "step")
    again = read_parquet(tmp_path / "step")
    assert again.spans.equals(simulation.timeline.spans)
    program = again.programs[0].hlo()
    assert program is not None
    assert program.is_scheduled


def test_without_the_module_everything_but_its_text_is_there() -> None:
    timeline = simulate(read_program(STEP), Rates(), device_name="NVIDIA A100-SXM4-40GB").timeline
    explanation = counterpoint.explain(timeline)
    assert timeline.programs[0].hlo() is None
    assert explanation.phases is not None
    assert explanation.utilization.chip is not None
    assert "A100" in explanation.utilization.chip
