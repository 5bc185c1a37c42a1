"""Chips are found by the names that profiles give them, and by what profiles tell of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterpoint.hardware import chip as chip_module
from counterpoint.hardware.chip import (
    Chip,
    chip_named,
    chips,
    collective_chip,
    find_chip,
    kernel_chip,
    measured_lines,
    read_chip,
)

FOLDER = Path(chip_module.__file__).with_name("chips")
H100 = FOLDER / "h100.toml"


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
    matching = [it for it in chips() if told and re.search(it.pattern, told, re.IGNORECASE)]
    assert len(matching) <= 1  # so that the order of the files does not matter


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
        if chip.gpu:
            assert find_chip(chip.gpu.description) is chip
        if chip.tpu:
            assert find_chip(chip.tpu.kind) is chip


def test_every_number_has_its_source() -> None:
    assert len(chips()) > 10
    for chip in chips():
        assert chip.source
        assert 1e13 < chip.bf16_flops < 1e16
        assert 1e11 < chip.hbm_bytes < 1e14


def test_each_file_is_a_chip_or_a_table_of_one() -> None:
    named = {table for chip in chips() for table in (chip.collective_table, gemm_table(chip))}
    tables = {file.name for file in FOLDER.iterdir() if file.suffix != ".toml"}
    assert named - {""} == tables
    assert all(measured_lines(table) for table in tables)
    assert len({chip.name for chip in chips()}) == len(chips())


def test_a_machine_has_one_chip() -> None:
    patterns = [pattern for chip in chips() for _, pattern in chip.machines]
    assert len(set(patterns)) == len(patterns)
    assert all(re.compile(pattern) for pattern in patterns)


def gemm_table(chip: Chip) -> str:
    return str(chip.kernels.get("gemm_table", ""))


@pytest.mark.parametrize(
    ("name", "measured_on"),
    [
        ("H100", "H100 SXM"),
        ("H100 PCIe", "H100 SXM"),
        ("GB300", "B200"),
        ("A100-80GB", "A100 40GB"),
        ("V100 16GB", "A100 40GB"),
        ("MI355X", "MI300X"),
        ("MI300X", "MI300X"),
        # Without a file.
        ("A800", "A100 40GB"),
        ("L40", "L40S"),
        ("RTX 4090", "L40S"),
        ("RTX 5090", "B200"),
        ("MI308X", "MI300X"),
        ("H20", "H100 SXM"),
        ("whatever", "H100 SXM"),
    ],
)
def test_a_chip_without_kernels_has_those_of_another(name: str, measured_on: str) -> None:
    assert kernel_chip(name).name == measured_on


def test_what_a_chip_borrows_is_there() -> None:
    for chip in chips():
        assert chip.kernels or chip.kernels_of or chip.tpu, chip.name
        for other in filter(None, (chip.kernels_of, chip.collectives_of)):
            assert chip_named(other), chip.name
        found = collective_chip(chip.target_name)
        assert found is None or found.collective_table


@pytest.mark.parametrize(
    ("was", "is_now", "told"),
    [
        ("hbm_bytes = 3.35e12", "", "missing required field `hbm_bytes`"),
        ("hbm_bytes = 3.35e12", 'hbm_bytes = "3.35e12"', "got `str` - at `$.hbm_bytes`"),
        ("cores = 132", "cores = 132.5", "got `float` - at `$.gpu.cores`"),
        ("nvls = 1.3", "nvlsx = 1.3", "unknown field `nvlsx` - at `$.links`"),
        ("[gpu]", "[gpu", "(at line "),
    ],
)
def test_a_mistake_in_a_file_is_told_by_file_and_key(
    tmp_path: Path, was: str, is_now: str, told: str
) -> None:
    text = H100.read_text("utf-8")
    assert was in text
    file = tmp_path / "h100.toml"
    file.write_text(text.replace(was, is_now, 1), "utf-8")
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        read_chip(file)
    assert "hardware/chips/h100.toml" in str(raised.value)
