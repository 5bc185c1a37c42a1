"""Modules that lie in the current directory are not ours to execute."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

MODULES = ("random.py", "json.py", "platform.py", "jax/__init__.py", "counterpoint/__init__.py")
MODULE = """
module @jit_step {
  func.func public @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
"""
FUNCTION = """
import jax, jax.numpy as jnp
def make_step(devices):
    return jax.jit(lambda x: x @ x), (jax.ShapeDtypeStruct((8, 8), jnp.float32),)
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    place = tmp_path / "hostile"
    for name in MODULES:
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(tmp_path / 'canary')!r}, 'a').write({name!r} + ' ')\n")
    (tmp_path / "step.mlir").write_text(MODULE)
    (tmp_path / "own.py").write_text(FUNCTION)
    (tmp_path / "step.pbtxt").write_text('costs { name: "dot" cost_us: 1.0 }\n')
    return place


@pytest.mark.parametrize(
    ("command", "needs_compiler"),
    [
        (("predict", "../step.mlir", "--target", "1xH100"), True),
        pytest.param(
            ("predict", "../own.py:make_step", "--target", "1xH100"), True, marks=pytest.mark.smoke
        ),
        pytest.param(
            ("pgle", "apply", "../step.pbtxt", "--program", "../step.mlir", "--target", "1xH100"),
            True,
            marks=pytest.mark.smoke,
        ),
        pytest.param(
            ("tune", "--predict", "../step.mlir", "--target", "1xH100", "--dry-run"),
            False,
            marks=pytest.mark.smoke,
        ),
        (("flags", "check", "--python", sys.executable, "../train.sh"), False),
        (("doctor",), False),
        (("run", "--no-profile", "--settings", "nccl-quiet", "--", "PYTHON", "-V"), False),
    ],
    ids=lambda it: " ".join(it[:2]) if isinstance(it, tuple) else "",
)
def test_a_hostile_directory_is_not_executed_by(
    hostile: Path, command: tuple[str, ...], needs_compiler: bool
) -> None:
    pytest.importorskip("jax")
    (hostile.parent / "train.sh").write_text("export XLA_FLAGS=--xla_gpu_autotune_level=4\n")
    main = Path(sys.executable).parent / "counterpoint"
    done = subprocess.run(
        [str(main), *(sys.executable if word == "PYTHON" else word for word in command)],
        cwd=hostile,
        env={"PATH": os.environ["PATH"], "HOME": str(hostile.parent), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    canary = hostile.parent / "canary"
    assert not canary.exists(), f"{canary.read_text()} was executed; {done.stderr}"
    assert "Traceback" not in done.stderr
    if needs_compiler and "counterpoint[compiler]" not in done.stderr:
        assert done.returncode in (0, 1), done.stderr  # 1: the profile's costs are of no use here
