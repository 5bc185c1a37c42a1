"""Places that a command can't write to, or must not: one error, with exit code 2."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.timeline.storage.parquet import write_parquet
from timelines import two_devices

_COSTS = 'costs { name: "dot" cost_us: 12.5 }'


@pytest.mark.parametrize(
    "words",
    [
        ("run", "-o", "/", "--", "true"),
        ("tune", "--arm", "a=xla_gpu_graph_level=0", "-o", "/", "--", "true"),
        ("tune", "show", "study", "--bundle", "/"),
        ("pgle", "merge", "a", "-o", "/"),
        ("convert", "t", "/"),
        ("explain", "t", "-o", "/"),
        ("run", "-o", "/proc/new", "--", "true"),
        ("convert", "t", "/proc/new"),
    ],
    ids=" ".join,
)
def test_a_place_that_is_not_to_be_written(words: tuple[str, ...], tmp_path: Path) -> None:
    write_parquet(two_devices(), tmp_path / "t")
    done = in_process(*words, cwd=tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode == 2, done.stderr


def test_a_profile_is_not_merged_into_one_of_its_inputs(tmp_path: Path) -> None:
    for name in ("A", "B"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{'a' * 32}.pbtxt").write_text(_COSTS)
    before = {path: path.read_bytes() for path in (tmp_path / "A").iterdir()}
    done = in_process("pgle", "merge", "A", "B", "-o", "A", "--force", cwd=tmp_path)
    assert done.returncode == 2
    assert {path: path.read_bytes() for path in (tmp_path / "A").iterdir()} == before


def test_convert_suggests_force_only_where_it_takes_it(tmp_path: Path) -> None:
    write_parquet(two_devices(), tmp_path / "t")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    shutil.copytree(tmp_path / "t", tmp_path / "old")
    refused = in_process("convert", "t", "notes", cwd=tmp_path)
    assert refused.returncode == 2
    assert in_process(*_next(refused.stderr), cwd=tmp_path).returncode == 0
    refused = in_process("convert", "t", "old", cwd=tmp_path)
    assert refused.stderr.endswith("  next: use --force\n")
    assert in_process("convert", "t", "old", "--force", cwd=tmp_path).returncode == 0
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine"


def _next(errors: str) -> list[str]:
    line = next(line for line in errors.splitlines() if line.startswith("  next: counterpoint "))
    return shlex.split(line)[2:]
