"""Whether a program fits is decided by the memory that the target has, wherever that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.compile.compiler import PlannedMemory
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow.forecast.ranking import memory_fit


def planned(size: int) -> PlannedMemory:
    """One block of temporaries; libtpu's figures add up to a peak."""
    return PlannedMemory(argument=0, output=0, alias=0, temp=size, peak=size)


@pytest.mark.parametrize(("memory", "fits"), [("40 GB", False), ("64 GB", False), ("160 GB", True)])
def test_a_target_files_memory_decides(tmp_path: Path, memory: str, fits: bool) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'base = "H100"\ngpus_per_host = 8\n[chip]\nmemory = "{memory}"\n')
    found = memory_fit(planned(58 << 30), parse_target(str(path)), {})
    assert found.memory_bytes == int(memory.removesuffix(" GB")) * 10**9
    assert found.fits is fits


def test_other_figures_of_a_chip_leave_its_memory(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('base = "H100"\ngpus_per_host = 8\n[chip]\nhbm = "3 TB/s"\n')
    usual = memory_fit(None, parse_target("8xH100"), {})
    assert memory_fit(None, parse_target(str(path)), {}).memory_bytes == usual.memory_bytes


def test_without_a_pool_all_memory_is_there() -> None:
    environment = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    target = parse_target("8xH100")
    found = memory_fit(planned(70 << 30), target, environment, 0.75)
    assert (found.fraction, found.available_bytes) == (1.0, target.memory_bytes)
    assert found.fits
    assert "no pool" in found.fraction_source
    assert not memory_fit(planned(70 << 30), target, {}, 0.75).fits


def test_sizes_of_libtpu_that_add_up_to_more_than_there_is_tell_no_peak() -> None:
    target = parse_target("v5e-8", tpus=True)
    found = memory_fit(planned(17 << 30), target, {})  # libtpu leaves 15.75 GiB, and compiled it
    assert (found.peak_bytes, found.fits) == (None, None)
    assert memory_fit(planned(9 << 30), target, {}).peak_bytes == 9 << 30


GIB = 1 << 30
OFFLOADED = PlannedMemory(  # an 8B model that offloads what its MLPs made, for 8 H100
    argument=12045522948,
    output=12045392184,
    alias=12045391876,
    temp=28821390824,
    peak=42110294340,
    host_argument=0,
    host_output=0,
    host_alias=0,
    host_temp=30064771072,
)
REGISTERED = PlannedMemory(  # the same with NCCL's user buffers, which have a space of their own
    argument=12045522948,
    output=12045392184,
    alias=12045391876,
    temp=19265380024,
    peak=29078198588,
)


def test_what_is_allocated_is_that_of_the_devices_spaces_together() -> None:
    target = parse_target("8xH100")
    offloaded = memory_fit(OFFLOADED, target, {})
    assert offloaded.peak_bytes == pytest.approx(38.06 * GIB, rel=1e-4)
    assert offloaded.host_bytes == 28 * GIB
    registered = memory_fit(REGISTERED, target, {})
    assert registered.peak_bytes == pytest.approx(29.16 * GIB, rel=1e-4)
    assert registered.host_bytes is None


def test_without_sizes_nothing_is_known() -> None:
    found = memory_fit(PlannedMemory(peak=GIB), parse_target("8xH100"), {})
    assert (found.peak_bytes, found.fits) == (None, None)
