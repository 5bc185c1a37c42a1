"""Trainers and frameworks in environments of their own, which tests/install_trainer.sh makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import counterpoint

SOURCE = Path(counterpoint.__file__).parents[1]


def python_of(trainer: str) -> str:
    """The Python of a trainer's environment, which an earlier command has installed."""
    found = os.environ.get(f"COUNTERPOINT_{trainer.upper()}")
    if not found or not (Path(found) / "bin" / "python").exists():
        pytest.skip(f"{trainer} is not installed: make trainers")
    return str(Path(found) / "bin" / "python")


def gpus(devices: int) -> str:
    return "1xH100" if devices == 1 else f"{devices // 8}x8xH100:400G"


def predicted(
    directory: Path,
    *command: str,
    target: str = gpus(8),
    python: str | None = None,
    options: tuple[str, ...] = (),
    open_loops: bool = False,
) -> dict[str, Any]:
    """Predict with a Python and its JAX, by default the trainer's own; return the JSON."""
    words = [python or command[0], "-m", "counterpoint", "predict", "--target", target]
    done = subprocess.run(
        [*words, *options, "--json", "--", *command],
        cwd=directory,
        env={**os.environ, "DECOUPLE_GCLOUD": "TRUE", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert bool(found["uncounted"]) == open_loops
    assert found["prediction"]["step_ms"] > 0
    return found
