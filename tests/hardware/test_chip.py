"""Chips are found by the names that profiles give them, and by what profiles tell of them."""

from __future__ import annotations

import pytest

from counterpoint.hardware import find_chip
from counterpoint.hardware.chip import chips


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("Nvidia, compute 9.0, 132 cores, 79 GiB", "H100 SXM"),
        ("Nvidia, compute 9.0, 132 cores, 140 GiB", "H200"),
        ("Nvidia, compute 8.0, 108 cores, 40 GiB", "A100 40GB"),
        ("AMD, compute 9.4, 304 cores, 192 GiB", "MI300X"),
        ("TPU v6 Lite", "TPU v6e"),
        ("TPU v5 lite", "TPU v5e"),
        ("TPU v5p", "TPU v5p"),
        ("Nvidia, compute 9.0", None),
        ("Nvidia, compute 9.0, 114 cores, 79 GiB", "H100 PCIe"),
        ("NVIDIA GeForce RTX 3060", None),
        (None, None),
    ],
)
def test_a_chip_is_found_by_what_is_told(told: str | None, name: str | None) -> None:
    chip = find_chip(told)
    assert (chip.name if chip else None) == name


def test_every_number_has_its_source() -> None:
    assert len(chips()) > 10
    for chip in chips():
        assert chip.source
        assert 1e13 < chip.bf16_flops < 1e16
        assert 1e11 < chip.hbm_bytes < 1e14
