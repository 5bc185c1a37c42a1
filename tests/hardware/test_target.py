"""Targets as people write them, and what the compiler is told of the devices behind them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import UsageError
from counterpoint.hardware.chip import chip_of_gpu, find_described, find_gpu, gpus
from counterpoint.hardware.gpu import Gpu
from counterpoint.hardware.target_config import target_config
from counterpoint.hardware.targets import parse_devices, parse_target, resize_advice, target_name


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
        *("9" * 5000 + "xH100", "2x8xH100:800x400G", "2x8xH100:400", "2097152x8xH100"),
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
        ("8xTPUv5p", "TPU v5p", 2, 8),
        ("2x256xTPU v6e", "TPU v6e", 128, 512),
        ("8xL40S", "L40S", 1, 8),
        ("8xV100", "V100", 1, 8),
        ("16xV100", "V100", 1, 16),
        ("v5e-256", "TPU v5e", 64, 256),
        ("v5litepod-16", "TPU v5e", 4, 16),
        ("v5p-256", "TPU v5p", 32, 128),
        ("tpu7x-64", "TPU7x", 8, 64),
        ("v3-32", "TPU v3", None, 32),
        ("512xTPU v2", "TPU v2", None, 512),
        ("1xRTX", "RTX", 1, 1),
        ("1xRTX4090", "RTX 4090", 1, 1),
        ("4xA10G", "A10G", 1, 4),
    ],
)
def test_devices_are_of_any_chip_that_is_known(
    text: str, chip: str, hosts: int | None, count: int
) -> None:
    found = parse_devices(text)
    assert (found.chip, found.hosts, found.count) == (chip, hosts, count)


@pytest.mark.parametrize(
    ("text", "slices"),
    [("8xH100", None), ("v5e-256", 1), ("2xv5e-256", 2), ("2x256xTPU v6e", 2), ("v3-32", 1)],
)
def test_slices_are_counted_apart_from_hosts(text: str, slices: int | None) -> None:
    assert parse_devices(text).slices == slices


@pytest.mark.parametrize("text", ["H100", "8xAbacus", "0xTPUv4", "8xA"])
def test_devices_of_no_known_chip_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_devices(text)
    assert text in told.value.what


@pytest.mark.parametrize("text", ["2x8xH100:50GB/s", "2x8xH100:50GB", "2x8xH100:8x50GBps"])
def test_a_network_in_bytes_is_not_taken_for_bits(text: str) -> None:
    for parse in (parse_target, parse_devices):
        with pytest.raises(UsageError) as told:
            parse(text)
        assert "50 GB/s are 400G" in str(told.value.why)


@pytest.mark.parametrize(
    ("text", "most", "proposed", "devices"),
    [
        ("512xH100", 8, "64x8xH100:400G", 512),
        ("12xH100", 8, "3x4xH100:400G", 12),
        ("13xH200", 8, "13x1xH200:400G", 13),
        ("16xB300", 8, "2x8xB300:800G", 16),
        ("512xH100:8x200G", 8, "64x8xH100:8x200G", 512),
        ("2x16xMI300X", 8, "4x8xMI300X:400G", 32),
        ("144xGB200", 72, "36x4xGB200:400G", 144),
        ("32xA100", 16, "4x8xA100-80GB:200G", 32),
        ("24xL40S", 16, "3x8xL40S:100G", 24),
    ],
)
def test_a_host_larger_than_any_that_is_sold_is_refused_with_hosts_as_they_are(
    text: str, most: int, proposed: str, devices: int
) -> None:
    for parse in (parse_target, parse_devices):
        with pytest.raises(UsageError) as told:
            parse(text)
        assert f"more than {most}" in told.value.what
        assert told.value.why
        assert str(told.value.next).startswith(f"use --target {proposed}")
    assert parse_target(proposed).devices == devices


@pytest.mark.parametrize(
    ("text", "whole", "holds"),
    [
        ("9xH100", "2x8xH100:400G", 16),
        ("73xGB200", "19x4xGB200:400G", 76),
        ("9xH100:200G", "2x8xH100:200G", 16),
        ("16xH100", None, 16),
    ],
)
def test_devices_that_fill_no_whole_hosts_are_offered_the_hosts_that_hold_them(
    text: str, whole: str | None, holds: int
) -> None:
    with pytest.raises(UsageError) as told:
        parse_target(text)
    said = str(told.value.next)
    if whole is None:
        assert "whole hosts" not in said
    else:
        assert said.endswith(f"in whole hosts, {whole} holds {holds}")
        assert parse_target(whole).devices == holds


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("512xTPUv5e", "2x256xTPUv5e"),
        ("v6e-512", "2x256xTPUv6e"),
        ("20xA10G", "5x4xA10G"),
        ("64xGH200", "64x1xGH200"),
    ],
)
def test_of_other_chips_no_slice_or_host_is_larger_than_any_either(
    text: str, proposed: str
) -> None:
    with pytest.raises(UsageError) as told:
        parse_devices(text)
    assert str(told.value.next).startswith(f"use --target {proposed}")
    assert parse_devices(proposed).count


@given(st.sampled_from([gpu.name for gpu in gpus()]), st.integers(1, 5000))
def test_so_many_devices_as_a_target_are_as_many_when_it_is_read(gpu: str, devices: int) -> None:
    target = parse_target(target_name(gpu, devices))
    assert (target.gpu, target.devices) == (gpu, devices)


@pytest.mark.parametrize(
    ("text", "devices", "proposed"),
    [
        ("8xH100", 512, "64x8xH100"),
        ("4xH100", 8, "8xH100"),
        ("8xH100", 12, "3x4xH100"),
        ("8x4xH100:4x400G", 16, "4x4xH100:4x400G"),
        ("8x8xH100:8x400G", 4, "4xH100:400G"),
        ("8xGB200", 72, "18x4xGB200"),
    ],
)
def test_another_number_of_devices_is_proposed_as_a_target(
    text: str, devices: int, proposed: str
) -> None:
    assert str(resize_advice(parse_target(text), devices)) == f"use --target {proposed}"
    assert parse_target(proposed).devices == devices


def test_names_and_aliases_lead_to_one_gpu_each() -> None:
    names = [name.casefold() for gpu in gpus() for name in (gpu.name, *gpu.aliases)]
    assert len(names) == len(set(names))
    for gpu in gpus():
        assert gpu.source.split()[0].rstrip(";").endswith(".txtpb")
        for name in (gpu.name, *gpu.aliases):
            assert find_gpu(name) is gpu
        assert find_described(gpu.description) is gpu
    assert find_gpu("H1000") is None


@pytest.mark.parametrize(
    ("text", "domains", "per_rack"),
    [
        ("8xH100", 1, 1),
        ("64x8xH100", 64, 1),
        ("2x4xL40S", 2, 1),
        ("2x4xGB200", 1, 2),
        ("36x4xGB200", 2, 18),
        ("20x4xGB200", 2, 18),  # 18 + 2 are not equal
        ("19x4xGB200", 19, 18),
    ],
)
def test_hosts_that_share_nvlink_are_counted_in_equal_sets(
    text: str, domains: int, per_rack: int
) -> None:
    target = parse_target(text)
    assert (target.domains, target.hosts_per_rack) == (domains, per_rack)
    assert target.hosts % target.domains == 0


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_the_parts_of_a_gpu_reach_the_peak_of_its_data_sheet(gpu: Gpu) -> None:
    """Two sources that know nothing of each other: XLA's description, and the maker's sheet."""
    chip = chip_of_gpu(gpu.name)
    assert chip is not None
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
    assert (links.network_source == "as given") is asked
    assert any("No network" in note for note in target.notes) is not asked


@pytest.mark.parametrize(
    ("text", "domain", "rate"),
    [
        ("8xH100", 8, 450e9),
        ("2x4xH100", 4, 450e9),
        ("16xA100-40GB", 16, 300e9),
        ("2x8xA100", 8, 300e9),
        ("2x36xGB200", 72, 900e9),
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
