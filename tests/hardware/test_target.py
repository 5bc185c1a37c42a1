"""Targets as people write them, and what the compiler is told of the devices behind them."""

from __future__ import annotations

import re

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.hardware import parse_devices, parse_target
from counterpoint.hardware.chip import chips
from counterpoint.hardware.gpu import Gpu, find_described, find_gpu, gpus, target_config


@pytest.mark.parametrize(
    ("text", "shown", "devices", "nic"),
    [
        ("8xH100", "8xH100", 8, None),
        ("8x8xH100", "8x8xH100", 64, None),
        ("64x8xh100:400G", "64x8xH100:400G", 512, 400.0),
        ("1xA100", "1xA100-80GB", 1, None),
        ("4xa100_40gb", "4xA100-40GB", 4, None),
        (" 18x4xGB200-NVL72:200g ", "18x4xGB200:200G", 72, 200.0),
        ("1x8xH100", "8xH100", 8, None),
    ],
)
def test_a_target_is_hosts_gpus_chip_and_network(
    text: str, shown: str, devices: int, nic: float | None
) -> None:
    target = parse_target(text)
    assert (str(target), target.devices, target.nic_gbps) == (shown, devices, nic)
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "H100", "8", "8x", "xH100", "8xMI325X", "8xTPU v5e", "0xH100", "8xH100:fast"),
        *("9" * 40, "2x8xH100:0G", "2x8xH100:0x400G", "2x8xH100:8x", "2x8xH100:400M"),
    ],
)
def test_what_is_no_target_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_target(text)
    assert text in told.value.what
    assert "8xH100" in str(told.value.next)


@pytest.mark.parametrize(
    ("text", "chip", "hosts", "count"),
    [
        ("8xH100", "H100", 1, 8),
        ("64x8xh100:400G", "H100", 64, 512),
        ("8xMI300X", "MI300X", 1, 8),
        ("8xmi325x", "MI325X", 1, 8),
        ("8xTPUv5p", "TPU v5p", 1, 8),
        ("2x256xTPU v6e", "TPU v6e", 2, 512),
        ("8xL40S", "L40S", 1, 8),
        ("8xV100", "V100", 1, 8),
        ("1xRTX", "RTX", 1, 1),
        ("1xRTX4090", "RTX 4090", 1, 1),
        ("4xA10G", "A10G", 1, 4),
    ],
)
def test_devices_are_of_any_chip_that_is_known(
    text: str, chip: str, hosts: int, count: int
) -> None:
    found = parse_devices(text)
    assert (found.chip, found.hosts, found.count) == (chip, hosts, count)


@pytest.mark.parametrize("text", ["H100", "8xAbacus", "0xTPUv4", "8xA"])
def test_devices_of_no_known_chip_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_devices(text)
    assert text in told.value.what


def test_names_and_aliases_lead_to_one_gpu_each() -> None:
    names = [name.casefold() for gpu in gpus() for name in (gpu.name, *gpu.aliases)]
    assert len(names) == len(set(names))
    for gpu in gpus():
        assert gpu.source.split()[0].rstrip(";").endswith(".txtpb")
        for name in (gpu.name, *gpu.aliases):
            assert find_gpu(name) is gpu
        assert find_described(gpu.description) is gpu
    assert find_gpu("H1000") is None


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_the_parts_of_a_gpu_reach_the_peak_of_its_data_sheet(gpu: Gpu) -> None:
    """Two sources that know nothing of each other: XLA's description, and the maker's sheet."""
    chip = next((chip for chip in chips() if chip.name == gpu.chip), None)
    if chip is None:
        pytest.skip(f"no data sheet of the {gpu.name} among the chips")
    units = gpu.cores * 4
    peak = 2 * units * gpu.matrix_ops["bits16"] * gpu.matrix_clock_ghz * 1e9
    # Of the newest, the makers publish a whole rack's or board's figure, rounded.
    tolerance = 0.06 if "B300" in gpu.name else 0.05 if gpu.name == "GB200" else 0.02
    assert peak == pytest.approx(chip.bf16_flops, rel=tolerance)
    assert gpu.memory_bytes_per_s == pytest.approx(chip.hbm_bytes, rel=0.05)


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_the_compiler_is_told_each_number_once(gpu: Gpu) -> None:
    text = target_config(gpu)
    assert text.count("{") == text.count("}")
    info = text[: text.index("scalar_unit" if "scalar_unit" in text else "matrix_unit")]
    fields = re.findall(r"^  (\w+):", info, re.MULTILINE)
    assert len(fields) == len(set(fields))
    assert f"core_count: {gpu.cores}" in text
    # XLA numbers its types; bf16 is 16, and without its rate a GEMM looks ten times slower.
    rate = re.search(r"matrix_unit.*?key: 16\s+value \{.*?ops_per_clock: (\d+)", text, re.DOTALL)
    assert rate
    assert int(rate[1]) == gpu.matrix_ops["bits16"]


@pytest.mark.parametrize(
    ("text", "shown", "per_gpu", "nics"),
    [
        ("64x8xH100:8x400G", "64x8xH100:8x400G", 50e9, 8),
        ("2x8xH100:4x200Gb/s", "2x8xH100:4x200G", 12.5e9, 4),
        ("2x8xH100:32x100Gbps", "2x8xH100:32x100G", 50e9, 32),
        ("2x8xH100", "2x8xH100", 50e9, 8),
        ("2x8xA100", "2x8xA100-80GB", 25e9, 8),
    ],
)
def test_a_network_is_nics_of_a_rate(text: str, shown: str, per_gpu: float, nics: int) -> None:
    target = parse_target(text)
    assert str(target) == shown
    assert parse_target(shown) == target
    links = target.links
    assert (links.nic_bytes_per_s, links.nics_per_host) == (per_gpu, nics)
    asked = ":" in text
    assert (links.network_source == "asked for") is asked
    assert any("no network was named" in note for note in target.notes) is not asked


@pytest.mark.parametrize(
    ("text", "domain", "rate"),
    [
        ("8xH100", 8, 450e9),
        ("2x4xH100", 4, 450e9),
        ("1x16xH100", 8, 450e9),
        ("18x4xGB200", 72, 900e9),
        ("72xGB200", 72, 900e9),
        ("36x4xGB200", 72, 900e9),
        ("2x4xGB300", 8, 900e9),
        ("8xL40S", 8, 0),
        ("8xMI300X", 8, 448e9),
    ],
)
def test_a_domain_is_what_its_links_join(text: str, domain: int, rate: float) -> None:
    links = parse_target(text).links
    assert (links.domain, links.domain_bytes_per_s) == (domain, rate)
    assert links.source
    assert links.network_source


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_rates_and_links_with_their_sources(gpu: Gpu) -> None:
    target = parse_target(f"2x4x{gpu.name}")
    chip = target.chip
    assert chip.source
    assert {"bf16", "f16", "f32", "f64"} <= set(chip.flops)
    assert chip.flops["f32"] < chip.flops["bf16"] <= chip.flops.get("f8", 1e18)
    # A binary prefix, reserved memory and error correction are between the sheet and the driver.
    assert chip.memory_bytes == pytest.approx(gpu.memory_bytes, rel=0.12)
    assert target.links.host_bytes_per_s >= 32e9


def test_a_gpu_that_only_another_compiler_knows_says_so() -> None:
    (note,) = parse_target("8xMI300X").notes
    assert "ROCm" in note
    assert parse_target("8xH100").notes == ()
