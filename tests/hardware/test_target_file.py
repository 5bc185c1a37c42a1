"""Targets from a user's file: what it may leave away, and what is said of what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.hardware.mismatch import mismatched_devices
from counterpoint.hardware.targets import parse_devices, parse_target, resize_advice
from counterpoint.timeline.model import Device

WHOLE = """
base = "H100"
hosts = 64
gpus_per_host = 8
source = "our cluster's acceptance tests, 2026-03"

[chip]
hbm = "3.2 TB/s"
memory = "94 GB"
flops.bf16 = "900 TFLOP/s"

[links]
generation = "NVLink 4, half of the switches"
domain = 8
rate = "225 GB/s"
host_rate = "50 GB/s"

[network]
nics_per_host = 4
nic = "200 Gb/s"
"""


def written(directory: Path, text: str) -> str:
    path = directory / "cluster.toml"
    path.write_text(text)
    return str(path)


def test_a_file_says_what_differs_from_a_known_gpu(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    target = parse_target(path)
    assert (target.gpu, target.hosts, target.devices) == ("H100", 64, 512)
    assert str(target) == path
    assert target.chip.flops["bf16"] == 900e12
    assert target.chip.flops["f8"] == 1978.9e12
    assert (target.chip.hbm_bytes, target.chip.memory_bytes) == (3.2e12, 94e9)
    assert "device_memory_size: 94000000000" in target.config
    assert target.memory_bytes == 94_000_000_000
    links = target.links
    assert (links.domain, links.domain_bytes_per_s, links.host_bytes_per_s) == (8, 225e9, 50e9)
    # Four NICs of 200 Gb/s for eight GPUs.
    assert (links.nics_per_host, links.nic_bytes_per_s) == (4, 12.5e9)
    assert links.source == "our cluster's acceptance tests, 2026-03"
    assert links.network_source == "as given"


def test_what_a_file_leaves_away_is_as_of_its_base(tmp_path: Path) -> None:
    target = parse_target(written(tmp_path, 'base = "H200"\ngpus_per_host = 4\n'))
    same = parse_target("4xH200")
    assert (target.chip, target.links, target.config) == (same.chip, same.links, same.config)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("base = H100", "not a TOML"),
        ("gpus_per_host = 8", "base, the GPU"),
        ('base = "Abacus"\ngpus_per_host = 8', "Abacus"),
        ('base = "H100"', "gpus_per_host"),
        ('base = "H100"\ngpus_per_host = "8"', "gpus_per_host is '8'"),
        ('base = "H100"\ngpus_per_host = 0', "gpus_per_host is 0"),
        ('base = "H100"\ngpus_per_host = true', "gpus_per_host is True"),
        ('base = "H100"\ngpus_per_host = 8\nhots = 2', "hots"),
        ('base = "H100"\ngpus_per_host = 8\nchip = 3', "chip is not a table"),
        ('base = "H100"\ngpus_per_host = 8\n[chip]\nhbm = 3.35e12', "chip.hbm is 3350000000000.0"),
        ('base = "H100"\ngpus_per_host = 8\n[chip]\nhbm = "3.35 TFLOP/s"', "chip.hbm"),
        ('base = "H100"\ngpus_per_host = 8\n[chip]\nhbm = "0 TB/s"', "chip.hbm"),
        ('base = "H100"\ngpus_per_host = 8\n[chip.flops]\nbf17 = "1 TFLOP/s"', "chip.flops.bf17"),
        ('base = "H100"\ngpus_per_host = 8\n[network]\nnic = "400 GB"', "network.nic"),
        ('base = "H100"\ngpus_per_host = 8\n[network]\nnics_per_host = 4', "network.nic"),
        ('base = "H100"\ngpus_per_host = 8\n[links]\nrate = "-4 GB/s"', "links.rate"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_its_place(
    text: str, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as told:
        parse_target(path)
    assert said in told.value.what
    assert path in told.value.what
    assert told.value.why


def test_a_file_that_is_not_there_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        parse_target(str(tmp_path / "none.toml"))
    assert "none.toml" in told.value.what


def test_a_host_in_a_file_is_no_larger_than_any_that_is_sold(tmp_path: Path) -> None:
    text = 'base = "H100"\ngpus_per_host = 512\n'
    with pytest.raises(InputError) as told:
        parse_target(written(tmp_path, text))
    assert "gpus_per_host is 512" in told.value.what
    assert "gpus_per_host = 8" in str(told.value.next)


def test_a_file_may_say_that_links_join_more(tmp_path: Path) -> None:
    text = 'base = "H100"\ngpus_per_host = 256\n[links]\ndomain = 256\n'
    target = parse_target(written(tmp_path, text))
    assert (target.devices, target.links.domain) == (256, 256)


def test_another_number_of_devices_is_proposed_as_lines_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    assert resize_advice(parse_target(path), 16) == f"in {path} hosts = 2 and gpus_per_host = 8"


def test_a_file_that_names_no_network_is_told_how_to(tmp_path: Path) -> None:
    (note,) = parse_target(written(tmp_path, 'base = "H100"\nhosts = 2\ngpus_per_host = 8')).notes
    assert '[network] nic = "400 Gb/s"' in note


def test_commands_that_compile_nothing_take_a_file_too(tmp_path: Path) -> None:
    found = parse_devices(written(tmp_path, WHOLE))
    assert (found.chip, found.hosts, found.count) == ("H100", 64, 512)


def test_a_file_describes_a_card_of_its_base_s_family(tmp_path: Path) -> None:
    device = Device(ordinal=0, kind="gpu", chip="NVIDIA A100 80GB PCIe")
    text = 'base = "A100"\ngpus_per_host = 8\n'
    assert mismatched_devices([device], parse_target(written(tmp_path, text))) == "A100 80GB PCIe"
    text += '[links]\ndomain = 1\nhost_rate = "25 GB/s"\n'
    assert mismatched_devices([device], parse_target(written(tmp_path, text))) is None
