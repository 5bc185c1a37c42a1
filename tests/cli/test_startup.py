"""What reads profiles and checks flags starts without JAX, which need not be installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from xspace_builder import MS, kernel, metadata, nvidia, xspace

PROGRAM: Final = (
    "import json, sys; from counterpoint.cli import main; code = main(sys.argv[1:]);"
    "print(json.dumps([code, *sys.modules]), file=sys.stderr)"
)


def loaded_by(*words: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after the command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


@pytest.fixture
def words(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """The words of each command that must not need JAX."""
    script = tmp_path / "train.sh"
    script.write_text(
        "export XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true\npython train.py\n"
    )
    gpu, step = nvidia(0), ("jit_step", 7)
    for start in range(4):
        kernel(
            gpu, "Stream #20(Compute)", "fusion_3", start * MS, MS // 2, op="fusion.3", module=step
        )
    trace = tmp_path / "host.xplane.pb"
    trace.write_bytes(xspace(gpu, metadata({})))
    return {
        "--help": ("--help",),
        "flags check": ("flags", "check", str(script), "--no-probe", "--jaxlib", "0.10.2"),
        "explain": ("explain", str(trace)),
    }


@pytest.mark.smoke
@pytest.mark.parametrize("command", ["--help", "flags check", "explain"])
def test_a_command_imports_no_jax(words: dict[str, tuple[str, ...]], command: str) -> None:
    loaded = loaded_by(*words[command])
    assert "counterpoint.cli" in loaded
    assert {"jax", "jaxlib"}.isdisjoint(loaded)
