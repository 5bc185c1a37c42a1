"""A program that was lowered once is the same subject when its file is given."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

import lowering_scripts as scripts
from counterpoint.core import UsageError
from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow import find_subject, run_subject
from counterpoint.workflow.kept_program import keep_program


@pytest.mark.smoke
@pytest.mark.system
def test_a_kept_program_has_the_order_of_its_mesh_and_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    plain = "np.array(jax.devices())"
    script = scripts.TRAINING.replace(plain, f"{plain}.reshape(2, 4).T.reshape(-1)", 1)
    flag = "--xla_gpu_all_gather_combine_threshold_bytes=1234567"
    path = tmp_path / "train.py"
    path.write_text(f"import os\nos.environ['XLA_FLAGS'] = '{flag}'\n{script}")
    (tmp_path / "scratch").mkdir()

    made = run_subject(
        [sys.executable, str(path)],
        target=parse_target("8xH100"),
        directory=tmp_path / "scratch",
        keep=tmp_path / "step.mlir.gz",
    )
    found = find_subject(tmp_path / "step.mlir.gz")
    (tmp_path / "step.mlir").write_bytes(gzip.decompress((tmp_path / "step.mlir.gz").read_bytes()))
    plain = find_subject(tmp_path / "step.mlir")

    assert made.workload is not None
    assert found.workload is not None
    assert found.workload.program.startswith(made.workload.program)
    assert b"// counterpoint.device_order = 0,4,1,5,2,6,3,7\n" in found.workload.program
    assert (found.name, found.devices) == (made.name, 8)
    assert found.settings == made.settings
    assert dict(found.settings.xla) == {"xla_gpu_all_gather_combine_threshold_bytes": "1234567"}
    assert plain.workload is not None
    assert (plain.workload.program, plain.settings) == (found.workload.program, found.settings)
    assert found.notes[1:] == made.notes
    assert found.notes[0].endswith(f"was kept from {sys.executable} {path}")


@pytest.mark.parametrize("place", ["missing/F.mlir.gz", "file/F.mlir"])
def test_a_place_that_cannot_be_written_is_an_error_and_leaves_nothing(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UsageError, match="can't write"):
        keep_program(tmp_path / place, b"module {}", "train.py", Settings(), ())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_kept_program_replaces_an_older_one_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "F.mlir"
    for module in (b"module { a }", b"module { b }"):
        keep_program(path, module, "train.py", Settings(), ())
    assert path.read_bytes().startswith(b"module { b }")
    assert [left.name for left in tmp_path.iterdir()] == ["F.mlir"]
