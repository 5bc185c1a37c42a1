"""Real profiles, counted and timed by another reader: the one that comes with JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane.reader import read_xplane

FILES = [
    "jax_conv_mi300x_8gpu.xplane.pb",
    "jax_gemm_mi300x.xplane.pb",
    "jax_inference_v6e_4tpu.xplane.pb",
]
OURS = ("Stream #", "XLA Ops", "Async XLA Ops")


RECORD = """
import sys
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

mesh = jax.make_mesh((2,), ("x",))
x = jax.device_put(jnp.ones((64, 64)), NamedSharding(mesh, PartitionSpec("x")))
step = jax.jit(lambda a: (a * a + 1).sum())
step(x).block_until_ready()
with jax.profiler.trace(sys.argv[1]):
    for number in (10, 11, 12):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            step(x).block_until_ready()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A profile of three steps on two virtual CPU devices, taken now."""
    pytest.importorskip("jax")
    directory = tmp_path_factory.mktemp("profile")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", RECORD, str(directory)]
    subprocess.run(command, check=True, env=os.environ | flags, capture_output=True)
    (file,) = directory.rglob("*.xplane.pb")
    return file.read_bytes()


def load(shared: Path, name: str) -> tuple[bytes, Recording]:
    data = (shared / "data" / "traces" / name).read_bytes()
    return data, read_xplane(memoryview(data), name)


def as_jax_reads(data: bytes) -> Any:  # noqa: ANN401 - jax declares no types here
    return pytest.importorskip("jax.profiler").ProfileData.from_serialized_xspace(data)


@pytest.mark.parametrize("name", FILES)
def test_every_device_event_is_one_that_jax_reads(shared: Path, name: str) -> None:
    data, recording = load(shared, name)
    theirs = {
        f"{plane.name}/{line.name}": [(event.start_ns, event.duration_ns) for event in line.events]
        for plane in as_jax_reads(data).planes
        for line in plane.lines
        if plane.name.startswith("/device:") and line.name.startswith(OURS)
    }
    ours = {
        line: recording.spans.filter(pl.col("line") == at).select("start_ps", "dur_ps").rows()
        for at, line in enumerate(recording.lines)
        if line.startswith("/device:")
    }
    assert {line for line, events in theirs.items() if events} == {
        line for line, events in ours.items() if events
    }
    for line, events in ours.items():
        for (start_ps, dur_ps), (start_ns, dur_ns) in zip(events, theirs[line], strict=True):
            # jax gives whole nanoseconds, cut off
            assert abs(start_ps / 1000 - start_ns) <= 1
            assert abs(dur_ps / 1000 - dur_ns) <= 1


@pytest.mark.parametrize("name", FILES)
def test_host_events_are_those_that_jax_reads(shared: Path, name: str) -> None:
    data, recording = load(shared, name)
    theirs = sum(
        event.duration_ns > 0
        for plane in as_jax_reads(data).planes
        for line in plane.lines
        if plane.name == "/host:CPU"
        for event in line.events
    )
    assert len(recording.host_events) == theirs


@pytest.mark.system
def test_a_cpu_profile_taken_now_is_read_as_jax_reads_it(recorded: bytes) -> None:
    if pytest.importorskip("jax").__version_info__ >= (0, 12):
        pytest.skip("the ProfileData of jax 0.12 aborts on the stats of its own CPU profiles")
    recording = read_xplane(memoryview(recorded), "cpu")
    theirs = [
        (int(stats["device_ordinal"]), stats["hlo_op"], stats["program_id"], stats["run_id"])
        for plane in as_jax_reads(recorded).planes
        for line in plane.lines
        for event in line.events
        if "hlo_op" in (stats := dict(event.stats))
    ]
    named = recording.spans.rename({"op": "row"}).join(
        recording.ops.with_row_index("row"), on="row", how="left"
    )
    ours = [
        (recording.devices[device].ordinal, op, int(program), run)
        for device, op, program, run in named.select(
            "device", "op", "program_key", "run_key"
        ).iter_rows()
    ]
    assert sorted(ours) == sorted(theirs)
    assert {device for device, *_ in ours} == {0, 1}
    assert "all-reduce" in {op for _, op, _, _ in ours}
    assert recording.markers["step"].to_list() == [10, 11, 12]
    assert set(recording.ops["program_key"]) <= set(recording.programs)


def test_kernels_know_their_instruction_and_program(shared: Path) -> None:
    _, recording = load(shared, "jax_conv_mi300x_8gpu.xplane.pb")
    assert len(recording.devices) == 8
    named = recording.ops.filter(pl.col("op").is_not_null())
    assert named["module"].unique().to_list() == ["jit_forward_3d_conv"]
    assert set(named["program_key"]) <= set(recording.programs)
    assert recording.ops.filter(pl.col("op").is_null())["module"].null_count() == 3
    # two kernels lost their annotation, 35 copies never had one
    nameless = recording.ops.with_row_index("row").filter(pl.col("op").is_null())["row"]
    assert recording.spans["op"].is_in(nameless.implode()).sum() == 37


def test_ops_of_many_modules_are_not_merged(shared: Path) -> None:
    _, recording = load(shared, "jax_gemm_mi300x.xplane.pb")
    gemms = recording.ops.filter(pl.col("op") == "custom-call.1")
    assert gemms["program_key"].n_unique() > 1
    assert set(recording.ops["program_key"].drop_nulls()) <= set(recording.programs)


def test_a_tpu_tells_flops_sources_and_executions(shared: Path) -> None:
    _, recording = load(shared, "jax_inference_v6e_4tpu.xplane.pb")
    assert [device.chip for device in recording.devices] == ["TPU v6 Lite"] * 4
    assert recording.devices[0].peak_flops == 918e12
    assert len(recording.executions.filter(pl.col("device") == 0)) == 105
    all_reduce = recording.ops.filter(pl.col("op") == "all-reduce").row(0, named=True)
    assert all_reduce["hint"] == "all-reduce"
    assert all_reduce["flops"] == all_reduce["bytes"] / 8 == 5 * 1024 * 1024 * 256
    assert ".py:" in all_reduce["source"]
    assert recording.host_names.count("MapDmaBuffer") == 1
