"""Whether a program fits is decided by the memory that the target has, wherever that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.compile import PlannedMemory
from counterpoint.hardware.targets import parse_target
from counterpoint.workflow.forecast.ranking import memory_fit


def planned(peak: int) -> PlannedMemory:
    return PlannedMemory(peak=peak)


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
