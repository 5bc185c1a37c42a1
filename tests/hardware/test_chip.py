"""Chips are found by the names that profiles give them, and by what profiles tell of them."""

from __future__ import annotations

import pytest

from counterpoint.hardware.chip import chips, find_chip
from counterpoint.hardware.gpu import gpus


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
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H200 141GB HBM3e", "H200"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("NVIDIA GH200 120GB", "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "GH200 144GB"),
        ("NVIDIA GB300", "GB300"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("A100-80G-SXM", "A100 80GB"),
        ("H100-80G-SXM", "H100 SXM"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("Tesla V100-SXM2-16GB", "V100 16GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("AMD Instinct MI250X", "MI250X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI210", "MI210"),
        ("AMD Instinct MI350X", "MI350X"),
        ("AMD Instinct MI355X", "MI355X"),
        ("AMD, compute 9.5, 256 cores, 288 GiB, 2400 MHz", "MI355X"),
        ("Nvidia, compute 7.0, 80 cores, 16 GiB, 1530 MHz", "V100 16GB"),
        ("Nvidia, compute 7.0, 80 cores, 16 GiB, 1380 MHz", "V100 16GB PCIe"),
        ("AMD, compute 9.4, 304 cores, 256 GiB", "MI325X"),
        ("TPU v4", "TPU v4"),
        ("TPU v5", "TPU v5p"),
        ("TPU v6 lite", "TPU v6e"),
        (None, None),
    ],
)
def test_a_chip_is_found_by_what_is_told(told: str | None, name: str | None) -> None:
    chip = find_chip(told)
    assert (chip.name if chip else None) == name


@pytest.mark.parametrize(
    "told",
    [
        "NVIDIA H100",  # of which board?
        "NVIDIA H100 SXM5 64GB",
        "NVIDIA H100 96GB HBM3",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A100-SXM-64GB",
        "GRID A100X-40C",
        "NVIDIA H20",
        "NVIDIA H800",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA GH200",
        "NVIDIA GB10",
        "NVIDIA L4",
        "NVIDIA L40",
        "NVIDIA RTX A6000",
        "NVIDIA GeForce RTX 3060",
        "NVIDIA GeForce RTX 4090",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "Tesla V100-PCIE-32GB",
        "Tesla V100S-PCIE-32GB",
        "Nvidia, compute 7.0, 80 cores, 32 GiB",  # V100 of SXM2 or PCIe
        "Nvidia, compute 8.9, 142 cores, 44 GiB",  # L40S or L40
        "Nvidia, compute 9.0, 132 cores, 95 GiB",
        "Nvidia, compute 10.3",
        "AMD Instinct MI250X/MI250",
        "AMD Instinct MI300A",
        "AMD Instinct MI308X",
        "AMD, compute 9.5, 256 cores, 288 GiB",  # MI350X or MI355X
        "TPU v4 lite",
        "cpu",
    ],
)
def test_an_unknown_chip_is_not_its_nearest_sibling(told: str) -> None:
    assert find_chip(told) is None


def test_every_chip_is_found_by_its_own_name() -> None:
    for chip in chips():
        assert find_chip(chip.name) is chip
    for gpu in gpus():
        found = find_chip(gpu.description)
        assert found is not None
        assert found.name == gpu.chip


def test_every_number_has_its_source() -> None:
    assert len(chips()) > 10
    for chip in chips():
        assert chip.source
        assert 1e13 < chip.bf16_flops < 1e16
        assert 1e11 < chip.hbm_bytes < 1e14
