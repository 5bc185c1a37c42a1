"""What a device's allocator has given out, from the allocator's own events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from test_xplane_reader import tensor_core
from xspace_builder import US, Plane, host, kernel, nvidia, xspace

import counterpoint
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.parquet import write_parquet

MEMORY = Path("jax_conv_mi300x_8gpu.xplane.pb")


def allocator(threads: Plane, at: int, used: int, **more: int | str) -> None:
    stats = {"bytes_allocated": used, "bytes_available": 1000 - used, "bytes_reserved": 0}
    threads.add("main", "MemoryAllocation", at, 0, {**stats, "peak_bytes_in_use": 900, **more})


def read(directory: Path, *planes: Plane) -> Timeline:
    path = directory / "host.xplane.pb"
    path.write_bytes(xspace(*planes))
    return counterpoint.read(path)


def test_a_gpu_is_named_by_its_allocator(tmp_path: Path) -> None:
    gpu, threads = nvidia(0), host()
    kernel(gpu, "Stream #7(Compute)", "fusion", 0, 50 * US, op="fusion")
    allocator(threads, 10 * US, 300, allocator_name="GPU_0_bfc")
    allocator(threads, 20 * US, 700, allocator_name="GPU_0_bfc")
    allocator(threads, 15 * US, 1, allocator_name="xla_gpu_host_bfc")  # memory of the host
    allocator(threads, 15 * US, 1, allocator_name="GPU_3_bfc")  # a device without activity
    found = read(tmp_path, gpu, threads).memory
    assert found.select("device", "start_ps", "used_bytes", "limit_bytes", "peak_bytes").rows() == [
        (0, 10 * US, 300, 1000, 900),
        (0, 20 * US, 700, 1000, 900),
    ]


def test_a_tpu_is_named_by_its_number(tmp_path: Path) -> None:
    threads = host()
    for core in (0, 1):
        allocator(threads, (10 + core) * US, 100 + core, index_on_host=core)
    found = read(tmp_path, tensor_core(0), tensor_core(1), threads).memory
    assert found.select("device", "used_bytes").rows() == [(0, 100), (1, 101)]


def test_without_an_allocators_events_nothing_is_known(tmp_path: Path) -> None:
    assert read(tmp_path, tensor_core(0)).memory.is_empty()


def test_it_is_stored_and_of_chosen_steps_only_theirs_is_kept(tmp_path: Path) -> None:
    threads = host()
    for at in (50, 150, 400):
        allocator(threads, at * US, at, index_on_host=0)
    whole = read(tmp_path, tensor_core(0), threads)
    kept = counterpoint.read(write_parquet(whole, tmp_path / "kept"))
    assert kept.memory.equals(whole.memory)
    (tmp_path / "kept" / "memory.parquet").unlink()  # as an earlier version stored it
    assert counterpoint.read(tmp_path / "kept").memory.is_empty()
    chosen = counterpoint.read(tmp_path / "host.xplane.pb", steps="5:6")
    assert chosen.memory["used_bytes"].to_list() == [50]
    assert replace(whole, memory=kept.memory).memory["used_bytes"].to_list() == [50, 150, 400]


@pytest.mark.parametrize("device", range(8))
def test_of_a_real_profile(device: int, shared: Path) -> None:
    """MI300X: 192 GB, of which JAX's allocator takes three quarters; two buffers of 0.5 GB each."""
    found = counterpoint.read(shared / "data/traces" / MEMORY).memory
    own = found.filter(pl.col("device") == device)
    assert own["used_bytes"].max() in (1_730_171_904, 1_732_169_984)
    assert own["limit_bytes"].unique().to_list() == [154_606_239_744]
    assert (own["used_bytes"] <= own["peak_bytes"]).all()
