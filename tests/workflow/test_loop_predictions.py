"""Predictions of a step that runs several programs count all of them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

import counterpoint
import loop_scripts as loops
from counterpoint.cost.model import PriceSource
from counterpoint.hardware.targets import parse_target
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.report.document import FactList
from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.predict.step_programs import names_apart
from counterpoint.timeline.storage.parquet import write_parquet
from counterpoint.workflow.prediction import Prediction
from counterpoint.workflow.subject import PredictionSubject, run_subject

pytestmark = pytest.mark.system

SCRIPTS = {
    "accumulation": f"TURNS = 20\n{loops.ACCUMULATION}",
    "networks": f"CRITICS = 2\n{loops.NETWORKS}",
    "eager sum": loops.EAGER_SUM.replace("STOP", "turn > 20"),
}


@pytest.fixture(scope="module", params=SCRIPTS)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # noqa: ANN201
    directory = tmp_path_factory.mktemp(request.param)
    script = directory / "train.py"
    script.write_text(SCRIPTS[request.param])
    return run_subject(
        [sys.executable, str(script)],
        target=parse_target("1xH100"),
        directory=directory / "lowered",
        timeout_s=120,
    )


@pytest.fixture(scope="module")
def prediction(subject: PredictionSubject, tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    out = tmp_path_factory.mktemp("pgle") / "predicted.pbtxt"
    return counterpoint.predict(subject, target="1xH100", pgle_out=out)


@pytest.fixture(scope="module")
def kept(prediction: Prediction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parquet(prediction.timeline, tmp_path_factory.mktemp("kept") / "step.parquet")


def test_a_profile_has_costs_of_every_program(prediction: Prediction) -> None:
    gain = prediction.gain
    assert gain is not None
    assert gain.used, gain.reason
    assert gain.path is not None
    saved = read_profile(gain.path)
    assert gain.costs == len(saved.costs)
    assert {*saved.fingerprints} == {part.program.fingerprint for part in prediction.base.parts}
    named = " ".join(saved.origin.values())
    assert all(part.program.name in named for part in prediction.base.parts)
    assert gain.forecast.order == prediction.base.order


@pytest.mark.parametrize("form", ["recording", "PGLE profile"])
def test_measured_costs_are_of_the_program_that_has_them(
    subject: PredictionSubject, prediction: Prediction, kept: Path, form: str
) -> None:
    assert prediction.gain is not None
    measured = kept if form == "recording" else prediction.gain.path
    made = counterpoint.predict(subject, target="1xH100", profile=measured, what_if=("nvlink=2x",))
    assert made.basis[PriceSource.MEASURED] == pytest.approx(1, abs=1e-3)
    assert made.step_s == pytest.approx(prediction.step_s, rel=0.01)
    (note,) = (note for note in made.notes if note.startswith("measured costs"))
    assert all(f"{part.program.name}: " in note for part in made.base.parts)
    assert not made.warnings
    assert made.what_if[0].saves_s == 0  # one device has no links


def test_all_programs_of_a_step_are_compared(
    subject: PredictionSubject, prediction: Prediction, kept: Path
) -> None:
    found = counterpoint.predict(subject, target="1xH100", against=kept).against
    assert found is not None
    assert found.ratio == pytest.approx(1, rel=1e-3)
    assert found.matched_share == pytest.approx(1)
    assert not found.warnings
    runs = Counter(prediction.base.order)
    times = {
        part.program.name: part.simulation.compute_s * 1e3 * runs[number]
        for number, part in enumerate(prediction.base.parts)
    }
    assert found.programs == len(times)
    for name, ms in times.items():
        rows = [op for op in found.ops if op.program == name]
        assert sum(op.predicted_ms or 0 for op in rows) == pytest.approx(ms, rel=0.01)
        assert sum(op.measured_ms or 0 for op in rows) == pytest.approx(ms, rel=0.01)


UPDATES = {"jit_accum", "jit_apply_fn", "jit_add"}


def test_what_only_applies_gradients_is_the_optimizer(prediction: Prediction) -> None:
    ops = prediction.timeline.ops
    for number, part in enumerate(prediction.base.parts):
        phases = set(ops.filter(ops["program"] == number)["phase"])
        if part.program.name in UPDATES:
            assert phases == {"optimizer"}
        else:
            assert "backward" in phases


LAMBDAS = f"""{loops.BEGIN}
grads = jax.jit(lambda w, x: jax.grad(loss)(w, x))
update = jax.jit(lambda w, g: [a - 0.01 * b for a, b in zip(w, g)])
w = weights(0)
for turn in range(20):
    g = [a + a for a in grads(w, batch(turn))]
    w = update(w, g)
"""


def test_programs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LAMBDAS)
    subject = run_subject(
        [sys.executable, str(script)],
        target=parse_target("1xH100"),
        directory=tmp_path / "lowered",
        timeout_s=120,
    )
    base = counterpoint.predict(subject, target="1xH100").base
    names = names_apart([part.program for part in base.parts])
    assert [name.rpartition("/")[2] for name in names] == [
        "train.py:16)",
        "jit_add",
        "train.py:17)",
    ]


def test_the_time_of_compiling_is_that_of_all_programs(prediction: Prediction) -> None:
    took = sum(part.compiled.seconds for part in prediction.base.parts if part.compiled)
    document = predict_document(prediction, 10, "")
    facts = [
        row
        for section in document.sections
        for block in section.blocks
        if isinstance(block, FactList)
        for row in block.rows
    ]
    (compiled,) = (row.text for row in facts if row.label == "compiled")
    assert f"{took:,.1f} s" in compiled
