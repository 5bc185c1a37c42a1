"""The trace.json.gz and the .xplane.pb of one real run say the same."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from polars.testing import assert_frame_equal
from trace_builder import wide

from counterpoint.timeline.chrome.reader import read_trace_json
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane.reader import read_xplane

pytestmark = pytest.mark.system

# Waiting after every step keeps the virtual devices, which share a few cores, from starving each
# other in a collective.
PROGRAM = """
import sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
x = jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, P("d", None)))

@jax.jit
def train(x):
    return x - 1e-3 * jnp.tanh(x @ x.T).sum() * x

x = train(x).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for step in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            x = train(x).block_until_ready()
"""


LARGE = """
import sys, jax, jax.numpy as jnp

@jax.jit
def train(w):
    return jax.grad(lambda w: (jnp.tanh(jnp.tanh(w @ w) @ w) ** 2).mean())(w)

w = train(jnp.ones((768, 768)) / 768).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for step in range(6):
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            w = train(w).block_until_ready()
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Recording]:
    """What both readers make of one capture on 8 virtual CPU devices."""
    return captured(PROGRAM, 8, tmp_path_factory)


_MOST = 0.6


def captured(
    program: str, devices: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Recording, Recording]:
    if find_spec("jax") is None:
        pytest.skip("jax is not installed, so nothing can be captured")
    directory = tmp_path_factory.mktemp("capture")
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
    }
    subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
    )
    trace = next(directory.rglob("*.trace.json.gz"))
    plane = next(directory.rglob("*.xplane.pb"))
    return (
        read_trace_json(trace, trace.name),
        read_xplane(memoryview(plane.read_bytes()), plane.name),
    )


@pytest.mark.smoke
def test_spans_agree_to_the_picosecond(recordings: tuple[Recording, Recording]) -> None:
    trace, plane = map(wide, recordings)
    assert len(trace) > 100
    # The trace keeps program ids to itself, and writes a length of zero as one picosecond.
    trace, plane = trace.drop("program_key"), plane.drop("program_key")
    plane = plane.with_columns(plane["dur_ps"].clip(1))
    assert_frame_equal(trace, plane, check_row_order=False)


@pytest.mark.smoke
def test_ops_that_outlast_their_events_agree(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Large products go on after their events, until marks that only the op's name pairs here.

    An XPlane has an id for each pair, so on a busy machine it tells some that names do not.
    """
    trace, plane = map(wide, captured(LARGE, 1, tmp_path_factory))
    others = [name for name in plane.columns if name not in ("program_key", "dur_ps")]
    assert_frame_equal(trace.select(others), plane.select(others), check_row_order=False)
    own, exact = (spans.sort(others)["dur_ps"].to_numpy() for spans in (trace, plane))
    assert np.count_nonzero(own == np.maximum(exact, 1)) >= _MOST * len(exact)
    assert own.sum() == pytest.approx(exact.sum(), rel=1 - _MOST)


def test_devices_steps_and_host_events_agree(recordings: tuple[Recording, Recording]) -> None:
    trace, plane = recordings
    assert sorted(d.ordinal for d in trace.devices) == list(range(8))
    assert {d.kind for d in trace.devices} == {"cpu"}
    assert sorted(trace.lines) == sorted(plane.lines)
    assert_frame_equal(trace.markers, plane.markers)
    assert trace.markers["step"].to_list() == [0, 1, 2]
    assert len(trace.host_events) == len(plane.host_events)
    assert sorted(trace.host_names) == sorted(plane.host_names)
