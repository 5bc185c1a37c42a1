"""`predict` with the real compiler: candidates, memory, and what PGLE could gain."""

from __future__ import annotations

from pathlib import Path

import pytest

import counterpoint
from counterpoint.core.errors import UsageError
from counterpoint.cost.model import PriceSource
from counterpoint.flags.lines.line import parse_settings
from counterpoint.report.document import FactList, TextTable
from counterpoint.report.predict.predict_tables import candidates_section
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.workflow.prediction import Prediction
from lowered import Lowered

pytestmark = pytest.mark.system

PIPELINED = "xla_gpu_enable_pipelined_all_gather=true"
IDLE = "xla_gpu_all_reduce_combine_threshold_bytes=31457281"


@pytest.fixture(scope="module")
def prediction(lowered: Lowered, tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    return counterpoint.predict(
        lowered.ir,
        target="8xH100",
        candidates=(PIPELINED, IDLE, "xla_gpu_no_such_option=1"),
        what_if=("nvlink=2x",),
        pgle_out=tmp_path_factory.mktemp("pgle") / "predicted.pbtxt",
    )


def test_the_bounds_hold_and_memory_fits(prediction: Prediction) -> None:
    simulation = prediction.base.simulation
    assert simulation.step_s >= simulation.critical_path_s
    assert simulation.step_s >= simulation.busiest_lane_s * (1 - 1e-9)
    assert prediction.base.memory.fits is True
    assert prediction.basis[PriceSource.MEASURED] == 0
    assert sum(prediction.basis.values()) == pytest.approx(1)


def test_candidates_are_ranked_and_a_wrong_one_fails_alone(prediction: Prediction) -> None:
    names = [it.name for it in prediction.candidates]
    assert set(names[:3]) == {"base", f"--{PIPELINED}", f"--{IDLE}"}
    assert names[3] == "--xla_gpu_no_such_option=1"
    assert prediction.candidates[3].error is not None
    steps = [it.forecast.step_s for it in prediction.candidates if it.forecast]
    assert steps == sorted(steps)


def test_a_flag_without_effect_is_the_same_program(prediction: Prediction) -> None:
    idle = next(it for it in prediction.candidates if it.name == f"--{IDLE}")
    assert idle.same_as == "base"
    (section,) = candidates_section(prediction)
    (table,) = (it for it in section.blocks if isinstance(it, TextTable))
    assert idle.name not in {row[1] for row in table.rows}  # one row for each program
    facts = [
        it.text for block in section.blocks if isinstance(block, FactList) for it in block.rows
    ]
    assert f"{idle.name}   as base" in facts


def test_predicted_costs_are_used_by_the_compiler_and_kept(prediction: Prediction) -> None:
    gain = prediction.gain
    assert gain is not None
    assert gain.used, gain.reason
    assert gain.path is not None
    assert gain.path.read_text().count("costs {") == gain.costs


def test_faster_links_are_never_slower(prediction: Prediction) -> None:
    (answer,) = prediction.what_if
    assert 0 < answer.saves_s < prediction.step_s


@pytest.mark.smoke
def test_out_of_memory_is_said(lowered: Lowered) -> None:
    settings = parse_settings((), ["XLA_PYTHON_CLIENT_MEM_FRACTION=0.0001"])
    made = counterpoint.predict(lowered.ir, target="8xH100", settings=settings)
    assert made.base.memory.fits is False
    assert made.base.memory.fraction_source == "XLA_PYTHON_CLIENT_MEM_FRACTION"


def test_costs_of_one_compile_move_to_another(lowered: Lowered, prediction: Prediction) -> None:
    kept = write_parquet(prediction.timeline, Path(prediction.gain.path).with_name("t.parquet"))  # type: ignore[union-attr,arg-type]
    made = counterpoint.predict(
        lowered.ir, target="8xH100", profile=kept, settings=parse_settings([PIPELINED])
    )
    assert made.basis[PriceSource.MEASURED] > 0.5
    # Whoever explains the stored Timeline knows what it was compiled under.
    assert PIPELINED in made.timeline.environment["XLA_FLAGS"]


def test_a_misspelt_flag_of_the_base_names_its_like(lowered: Lowered) -> None:
    settings = parse_settings(["xla_gpu_enable_pipelned_all_gather=true"])
    with pytest.raises(UsageError) as refusal:
        counterpoint.predict(lowered.ir, target="8xH100", settings=settings)
    assert "xla_gpu_enable_pipelined_all_gather" in str(refusal.value)
