"""What each command loads before it answers: modules of this package, and heavy libraries.

Loading takes most of the time of a short command, and a count of modules is the same on any
machine. A limit that a change exceeds shows an import that belongs where it is needed: behind a
face (`core/face.py`), or in the function that uses it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from xspace_builder import MS, kernel, metadata, nvidia, xspace

JAX: Final = ("jax", "jaxlib", "scipy", "optuna", "ray")
FRAMES: Final = ("numpy", "polars", "google.protobuf")
TERMINAL: Final = ("cyclopts", "rich", "attrs", "yaml")


class Limit(NamedTuple):
    """The largest number of modules of this package, and the libraries that are not loaded."""

    modules: int
    without: tuple[str, ...]


LIMITS: Final = {
    "--version": Limit(12, (*JAX, *FRAMES, *TERMINAL, "msgspec")),
    "--help": Limit(12, (*JAX, *FRAMES, "yaml", "msgspec")),
    "flags check": Limit(98, (*JAX, *FRAMES, *TERMINAL)),
    "explain --help": Limit(20, (*JAX, *FRAMES, "yaml", "msgspec")),
    "explain": Limit(193, (*JAX, "cyclopts", "attrs", "yaml")),
}


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
    """The words of each command in LIMITS."""
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
        "--version": ("--version",),
        "--help": ("--help",),
        "flags check": ("flags", "check", str(script), "--no-probe", "--jaxlib", "0.10.2"),
        "explain --help": ("explain", "--help"),
        "explain": ("explain", str(trace)),
    }


def test_a_command_loads_only_what_it_needs(words: dict[str, tuple[str, ...]]) -> None:
    excess: list[str] = []
    for command, limit in LIMITS.items():
        modules = loaded_by(*words[command])
        own = sum(name.partition(".")[0] == "counterpoint" for name in modules)
        if own > limit.modules:
            excess.append(f"{command}: {own} modules of counterpoint, {limit.modules} at most")
        excess += [f"{command}: loads {name}" for name in limit.without if name in modules]
    assert excess == []


def test_the_limits_can_be_exceeded(words: dict[str, tuple[str, ...]]) -> None:
    modules = loaded_by(*words["explain"])
    assert {"numpy", "polars", "counterpoint.diagnose.rules"} <= modules
    assert len(modules) > LIMITS["flags check"].modules
