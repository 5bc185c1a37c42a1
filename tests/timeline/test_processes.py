"""Two real processes of one program, each with a profile of its own, as one Timeline."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read

pytestmark = pytest.mark.system

PROGRAM = """
import os, sys
rank, port, logdir = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
import jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
weights = jax.jit(lambda: jnp.ones((256, 256)), out_shardings=rows)()
batch = jax.jit(lambda: jnp.ones((64, 256)), out_shardings=rows)()

@jax.jit
def step(weights, batch):
    loss, gradient = jax.value_and_grad(lambda w: (jnp.tanh(batch @ w) ** 2).mean())(weights)
    return weights - 0.1 * gradient, loss

for number in range(10):
    if number == 3:
        jax.profiler.start_trace(logdir)
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        weights, loss = step(weights, batch)
        loss.block_until_ready()
jax.profiler.stop_trace()
"""


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    pytest.importorskip("jax")
    logs = tmp_path_factory.mktemp("logs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), port, str(logs / f"rank{rank}")],
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    errors = [rank.communicate(timeout=120)[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    return read(*(str(profile) for profile in sorted(Path(logs).rglob("*.xplane.pb"))))


def test_both_processes_are_there(timeline: Timeline) -> None:
    assert len(timeline.hosts) == 2
    assert len({host.name for host in timeline.hosts}) == 2
    assert [device.host for device in timeline.devices] == [0, 0, 1, 1]


def test_they_ran_one_program(timeline: Timeline) -> None:
    assert timeline.step_program is not None
    step = timeline.programs[timeline.step_program]
    assert step.name == "jit_step"
    assert sorted(step.variants) == [0, 1]
    runs = timeline.runs.filter(pl.col("program") == timeline.step_program)
    assert runs.group_by("device").len().sort("device")["len"].to_list() == [7, 7, 7, 7]


def test_collectives_among_all_four_devices_align_the_clocks(timeline: Timeline) -> None:
    assert all(host.clock_offset_ps is not None for host in timeline.hosts)
    collectives = explain(timeline).collectives
    assert set(collectives["group_size"]) == {4}
    # Both processes read one clock: whatever was found between them is small against the step.
    offset = timeline.hosts[1].clock_offset_ps
    assert offset is not None
    assert abs(offset) < 1e12  # a second


def test_markers_are_the_steps(timeline: Timeline) -> None:
    assert "7 host markers 'train' (steps 3 to 9), 1 run of jit_step in each" in timeline.step_rule
    assert timeline.steps["step"].n_unique() == 7
    # The first and the last never count; leading ones may be warm-up on a busy machine.
    assert 2 <= explain(timeline).steps.count <= 5
