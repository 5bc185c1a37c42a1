"""A function where --program takes files: every command says so, and one how to get a file."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.cli.app import main
from xla_compiler import why_none

STEP = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def make_step(devices):
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = jax.ShapeDtypeStruct((64, 64), np.float32, sharding=NamedSharding(mesh, P("data")))
    return jax.jit(lambda x: x @ x), (rows,)
"""


@pytest.mark.parametrize(
    "words",
    [
        ["pgle", "check", "some.pbtxt"],
        ["pgle", "apply", "some.pbtxt", "--target", "4xH100"],
        ["flags", "thresholds"],
        ["flags", "recommend", "--for", "fsdp", "--target", "8xH100"],
    ],
    ids=lambda it: "-".join(it[:2]),
)
def test_a_function_is_no_program(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--program", "examples/llama.py:make_step"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --program examples/llama.py:make_step: ")
    assert "next: " in error


@pytest.mark.system
@pytest.mark.skipif(why_none() is not None, reason=str(why_none()))
def test_the_line_that_is_told_writes_a_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my steps" / "steps.py"
    file.parent.mkdir()
    file.write_text(STEP)
    words = ["pgle", "apply", "some.pbtxt", "--target", "4xH100"]
    assert main([*words, "--program", f"{file}:make_step"]) == 2
    line = capsys.readouterr().err.splitlines()[-1].removeprefix("  next: ")
    line = line.partition("; then ")[0].replace(" python ", f" {shlex.quote(sys.executable)} ")
    subprocess.run(["/bin/sh", "-c", line], check=True)
    written = (file.parent / "step.mlir").read_text()
    assert "num_partitions = 4" in written
