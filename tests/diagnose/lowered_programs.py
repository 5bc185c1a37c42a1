"""Findings on the programs of sharded_programs.py, as predicted for eight H100."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoint.diagnose.finding import Finding
from counterpoint.workflow.prediction import Prediction, predict
from run_directory import RunDirectory
from xla_compiler import why_none

SCRIPT = Path(__file__).parent / "sharded_programs.py"


def lowered(run_directory: RunDirectory, name: str) -> Path:
    """The step as StableHLO; skips where nothing can compile it."""
    reason = why_none()
    if reason:
        pytest.skip(reason)

    def lower(directory: Path) -> None:
        subprocess.run(
            [sys.executable, str(SCRIPT), str(directory), name],
            env={key: it for key, it in os.environ.items() if key != "XLA_FLAGS"},
            check=True,
            timeout=300,
        )

    return run_directory.once(f"sharded-{name}", lower) / f"{name}.mlir"


def found(run_directory: RunDirectory, name: str, code: str) -> Finding | None:
    """The finding of that code on the predicted step."""
    prediction = _predicted(run_directory, name)
    return next((it for it in prediction.explanation.findings if it.code == code), None)


def step_ms(run_directory: RunDirectory, name: str) -> float:
    """The predicted step."""
    return _predicted(run_directory, name).step_s * 1e3


def _predicted(run_directory: RunDirectory, name: str) -> Prediction:
    return predict(lowered(run_directory, name), target="8xH100")
