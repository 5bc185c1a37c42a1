"""Ask the real JAX in a process of its own: importing it changes the environment of others."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def ask_jax(program: str, *arguments: str | Path) -> Any:  # noqa: ANN401 - it is JSON
    """What the program prints as JSON; its arguments are in sys.argv[1:]."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
