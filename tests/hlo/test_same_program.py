"""Proto and text of one module give the same Program, instruction by instruction."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program

HERE = Path(__file__).parent
FIXTURES = ["cpu_step", "cpu_zoo", "gpu_step", "gpu_pipelined", "gpu_zoo"]
FACTS = ("name", "entry", "fingerprint", "is_scheduled", "num_partitions", "num_replicas",
         "aliases", "stacks")  # fmt: skip


def assert_same(proto: Program, text: Program) -> None:
    for fact in FACTS:
        assert getattr(proto, fact) == getattr(text, fact)
    assert list(proto.computations) == list(text.computations)
    for name, computation in proto.computations.items():
        other = text.computations[name]
        assert computation.root == other.root
        for mine, theirs in zip(computation.instructions, other.instructions, strict=True):
            assert mine == theirs
            assert config(mine.backend_config) == config(theirs.backend_config)


def config(text: str) -> object:
    return json.loads(text) if text.startswith("{") else text


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_read_the_same_from_proto_and_text(name: str) -> None:
    proto = read_program(HERE / "data" / f"{name}.hlo.pb.xz")
    text = read_program(HERE / "data" / f"{name}.txt.xz")
    assert proto.is_scheduled
    assert proto.num_partitions == 8
    assert_same(proto, text)


@pytest.mark.system
@pytest.mark.smoke
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_what_the_installed_jax_compiles_reads_the_same(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "make_fixtures.py", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("cpu_step", "cpu_zoo"):
        proto = read_program(tmp_path / f"{name}.hlo.pb.xz")
        assert_same(proto, read_program(tmp_path / f"{name}.txt.xz"))
        assert len(list(proto.instructions)) > 100


@pytest.mark.system
@pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda13_plugin") is None or shutil.which("ptxas") is None,
    reason="XLA's GPU compiler (jax-cuda13-pjrt, jax-cuda13-plugin, ptxas) is not installed",
)
def test_what_the_installed_gpu_compiler_compiles_reads_the_same(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "make_fixtures.py", tmp_path, "--gpu"]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("gpu_step", "gpu_pipelined", "gpu_zoo"):
        proto = read_program(tmp_path / f"{name}.hlo.pb.xz")
        assert_same(proto, read_program(tmp_path / f"{name}.txt.xz"))
        assert any(it.opcode.endswith("-start") for it in proto.instructions)
