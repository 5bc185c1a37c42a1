"""Programs with the agent in them: child processes with real JAX on virtual CPU devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from counterpoint.capture.environment import AGENT
from counterpoint.core.injection import injected

SHARDED = """
import os, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.profiler import StepTraceAnnotation
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("d",))
def put(value, *axes):
    return jax.device_put(value, NamedSharding(mesh, P(*axes)))
x = put(np.ones((64, 64), np.float32), "d")
w = put(np.ones((64, 64), np.float32), None, "d")
@jax.jit
def train_step(x, w):
    return jnp.tanh(x @ w) / 64
def step():
    global x
    x = put(train_step(x, w), "d").block_until_ready()
"""
"""A step that eight devices take together: `step()`."""


@dataclass(frozen=True)
class Left:
    """What a program ended with, and what the agent left of it."""

    code: int
    out: str
    err: str
    rank: Path

    @property
    def processes(self) -> list[dict[str, Any]]:
        files = sorted((self.rank / "agent").glob("process-*.json"))
        return [json.loads(file.read_text()) for file in files]

    @property
    def process(self) -> dict[str, Any]:
        (only,) = self.processes
        return only

    @property
    def window(self) -> dict[str, Any]:
        return self.process["window"]

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self._lines("steps")

    @property
    def compiles(self) -> list[dict[str, Any]]:
        return self._lines("compiles")

    def _lines(self, kind: str) -> list[dict[str, Any]]:
        files = sorted((self.rank / "agent").glob(f"{kind}-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    @property
    def profiles(self) -> list[Path]:
        return sorted(self.rank.glob("profile/plugins/profile/*/*.xplane.pb"))


def environment(
    rank: Path, window: Mapping[str, Any] | None, more: Mapping[str, str], devices: int = 8
) -> dict[str, str]:
    """The environment of a program with the agent in it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("COUNTERPOINT_")}
    wanted = {} if window is None else {"COUNTERPOINT_AGENT_WINDOW": json.dumps(window)}
    return {
        **inherited,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        **injected({}, AGENT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COUNTERPOINT_AGENT_DIR": str(rank),
        **wanted,
        **more,
    }


def run(
    directory: Path,
    program: str,
    window: Mapping[str, Any] | None = None,
    *,
    more: Mapping[str, str] | None = None,
    python: Sequence[str] = (sys.executable,),
    devices: int = 8,
) -> Left:
    """Run a program to its end."""
    directory.mkdir(exist_ok=True)
    file = directory / "program.py"
    file.write_text(dedent(program))
    rank = directory / "rank0"
    done = subprocess.run(
        [*python, str(file)],
        cwd=directory,
        env=environment(rank, window, more or {}, devices),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Left(done.returncode, done.stdout, done.stderr, rank)
