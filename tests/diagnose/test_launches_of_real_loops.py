"""Who is to blame for idle devices: real loops on the CPU, profiled by `run` without step markers.

`run` then counts executions and stops the profile inside the last call, which is not recorded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from host_side import most

from counterpoint.capture.launch import launch
from counterpoint.capture.request import ProfileSchedule, RunRequest
from counterpoint.diagnose.explanation import explain

pytest.importorskip("jax")
pytestmark = pytest.mark.system

HEAD = """
import queue, threading, time
import jax, jax.numpy as jnp, numpy as np
x = np.ones((64, 64), np.float32)
def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""
LOADER_THREAD = """
batches = queue.Queue(2)
def load():
    while True:
        time.sleep(0.05)
        batches.put(x)
threading.Thread(target=load, daemon=True).start()
step = jax.jit(lambda x: x @ x / 1000)
for number in range(12):
    step(batches.get()).block_until_ready()
"""
READS_ITS_LOSS = """
step = jax.jit(lambda x: jnp.sum(x @ x))
for number in range(12):
    busy(0.03)
    float(step(x))
"""
IN_TURN = """
step = jax.jit(lambda x: x @ x / 1000)
on_device = [jax.device_put(x, device) for device in jax.devices()]
for number in range(12):
    busy(0.03)
    for part in on_device:
        step(part).block_until_ready()
"""


@pytest.mark.parametrize(
    ("program", "least_ms"),
    [(LOADER_THREAD, 30), (READS_ITS_LOSS, 18), (IN_TURN, 18)],
    ids=["loader thread", "reads its loss", "devices in turn"],
)
def test_a_device_that_waits_for_the_host_does_not_wait_between_kernels(
    program: str, least_ms: float, tmp_path: Path
) -> None:
    run = launch(
        RunRequest(
            (sys.executable, "-c", HEAD + program),
            tmp_path / "run",
            window=ProfileSchedule(start_step=2, steps=6),
            echo=False,
            environment={
                "PATH": os.environ["PATH"],
                "HOME": "/nowhere",
                "JAX_PLATFORMS": "cpu",
                "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
            },
            timeout_s=120,
        )
    )
    assert run.outcome.ok, run.ranks[0].stderr.read_text()
    found = explain(run.path)
    codes = [f"STEP30{digit}" for digit in range(1, 7)]
    lost = {it.code: most(it) for it in found.findings if it.code in codes}
    by_host = sum(lost.get(code, 0) for code in ("STEP301", "STEP302", "STEP304", "STEP305"))
    assert by_host > least_ms
    assert lost.get("STEP306", 0) < 0.2 * by_host
