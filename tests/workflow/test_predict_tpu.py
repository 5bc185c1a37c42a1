"""`predict` of programs that libtpu scheduled, on slices of TPUs."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from counterpoint.core import CounterpointError
from counterpoint.cost.model import PriceSource
from counterpoint.report.predict.predict_document import coverage_text, predict_document
from counterpoint.report.predict.predict_json import predict_json
from counterpoint.report.terminal import plain_text
from counterpoint.workflow.prediction import predict

DATA = Path(__file__).parents[1] / "hlo" / "data"
STEP = DATA / "tpu_step.hlo.pb.xz"
SLICES = DATA / "tpu_slices.hlo.pb.xz"
PUBLISHED = "data/tpu/programs/default16b_v5e256.hlo.txt.gz"
PUBLISHED_S = 10.306
"""The FLOPs of this program at the rate published for MaxText's 16B of 2023, on one v5e-256."""


def test_a_scheduled_step_is_predicted_with_its_memory_and_basis() -> None:
    prediction = predict(STEP, target="v5e-8")
    base = prediction.base
    assert base.range_s.low < base.step_s < base.range_s.high
    assert base.range_covers is None
    assert prediction.basis[PriceSource.COMPILER] > 0.2
    assert base.memory.available_bytes == prediction.target.memory_bytes
    parts = prediction.explanation.breakdown
    assert parts is not None
    assert parts.collective_exposed_ms == pytest.approx(base.simulation.exposed_s * 1e3)
    assert any("v5e is assumed" in note for note in prediction.notes)
    text = plain_text(predict_document(prediction, 5, "next"))
    assert "XLA's estimates" in text
    assert "15.8 GiB" in text
    assert predict_json(prediction)


def test_a_step_without_estimates_has_the_range_of_tpus(tmp_path: Path) -> None:
    text = lzma.decompress((DATA / "tpu_step.txt.xz").read_bytes()).decode()
    bare = tmp_path / "step.hlo.txt"
    bare.write_text(text.replace("estimated_cycles", "no_cycles"))
    base = predict(bare, target="v5e-8").base
    assert PriceSource.COMPILER not in base.simulation.rests_on
    assert base.range_covers is None  # published steps on GPUs say nothing of it
    assert "few published steps" in coverage_text(base)


@pytest.mark.system
def test_text_and_proto_give_one_step() -> None:
    text = predict(DATA / "tpu_step.txt.xz", target="v5e-8").base.step_s
    assert text == pytest.approx(predict(STEP, target="v5e-8").base.step_s)


@pytest.mark.system
def test_a_faster_network_shortens_the_step_of_two_slices() -> None:
    slow = predict(SLICES, target="2xv5e-4:100G")
    fast = predict(SLICES, target="2xv5e-4:400G")
    assert fast.base.step_s < 0.6 * slow.base.step_s
    found = {finding.code: finding for finding in slow.explanation.findings}
    stalled = plain_text(predict_document(slow, 5, "next", explained=True))
    assert "STEP201" in found
    assert "other work runs meanwhile" in " ".join(stalled.split())


@pytest.mark.parametrize(
    ("path", "target", "said", "next_"),
    [
        (STEP, "8xH100", "made for TPUs", "v5e-256"),
        (DATA / "gpu_step.hlo.pb.xz", "v5e-8", "not scheduled for TPUs", "make_step"),
        (STEP, "v5e-16", "made for 8 devices", "v5e-8"),
        (SLICES, "v5e-4", "made for 8 devices in 2 slices", "2xv5e-4"),
        (SLICES, "v5e-8", "made for 8 devices in 2 slices", "2xv5e-4"),
        (STEP, "2xv5e-4", "made for 8 devices in 1 slice,", "v5e-8"),
        (STEP, None, "which TPUs", "v5e-256"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    path: Path, target: str | None, said: str, next_: str
) -> None:
    with pytest.raises(CounterpointError) as told:
        predict(path, target=target)
    assert said in told.value.what
    assert next_ in str(told.value.next)


def test_what_only_gpus_have_is_refused() -> None:
    with pytest.raises(CounterpointError) as told:
        predict(STEP, target="v5e-8", calibration="calibration.json")
    assert "--calibration" in told.value.what
    with pytest.raises(CounterpointError) as told:
        predict(STEP, target="v5e-8", candidates=["--xla_tpu_x=1"])
    assert "already scheduled" in told.value.what


def test_only_libtpu_can_stop_at_the_schedule() -> None:
    with pytest.raises(CounterpointError) as told:
        predict(DATA / "gpu_step.hlo.pb.xz", target="8xH100", schedule_only=True)
    assert "--schedule-only is for TPUs" in told.value.what


@pytest.mark.system
def test_a_published_step_is_predicted_within_a_tenth(shared: Path) -> None:
    prediction = predict(shared / PUBLISHED, target="v5e-256")
    assert prediction.base.step_s == pytest.approx(PUBLISHED_S, rel=0.1)
    assert prediction.base.range_s.low < PUBLISHED_S < prediction.base.range_s.high
