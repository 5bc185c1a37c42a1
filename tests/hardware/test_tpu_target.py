"""Slices of TPUs as people, XPK and GKE write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import ArgumentError, UsageError
from counterpoint.hardware.chip import chip_of_tpu, find_tpu, tpus
from counterpoint.hardware.targets import parse_devices, parse_target
from counterpoint.hardware.tpu import Tpu, TpuSlice


@pytest.mark.parametrize(
    ("text", "shown", "topology", "devices", "hosts"),
    [
        ("v5e-256", "v5e-256", "v5e:16x16", 256, 64),
        ("v5litepod-16", "v5e-16", "v5e:4x4", 16, 4),
        ("v5e-8", "v5e-8", "v5e:2x4", 8, 1),
        ("v5e:8x16", "v5e-128", "v5e:8x16", 128, 32),
        ("v5p-8", "v5p-8", "v5p:2x2x1", 4, 1),
        ("v5p-128", "v5p-128", "v5p:4x4x4", 64, 16),
        ("v5p-1280", "v5p-1280", "v5p:4x8x20", 640, 160),
        ("v5p:4x4x16", "v5p:4x4x16", "v5p:4x4x16", 256, 64),
        ("v4-4096", "v4-4096", "v4:8x16x16", 2048, 512),
        ("v6e-8", "v6e-8", "v6e:2x4", 8, 1),
        ("TPU v6e-1", "v6e-1", "v6e:1x1", 1, 1),
        ("tpu7x-64", "tpu7x-64", "tpu7x:2x4x4", 64, 8),
        ("v7x-2", "tpu7x-2", "tpu7x:1x1x1", 2, 1),
        ("2xv5e-256", "2xv5e-256", "v5e:16x16", 512, 128),
        ("2xv6e-8", "2xv6e-8", "v6e:2x4", 16, 4),
        ("4xv6e-256:200G", "4xv6e-256:200G", "v6e:16x16", 1024, 256),
        ("256xTPUv5e", "v5e-256", "v5e:16x16", 256, 64),
        ("2x256xTPU v6e", "2xv6e-256", "v6e:16x16", 512, 128),
    ],
)
def test_a_slice_is_named_by_its_size_or_its_shape(
    text: str, shown: str, topology: str, devices: int, hosts: int
) -> None:
    target = parse_target(text, tpus=True)
    assert target.tpu is not None
    assert (str(target), target.tpu.topology) == (shown, topology)
    assert (target.devices, target.hosts) == (devices, hosts)
    assert parse_target(shown, tpus=True) == target


@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("v5e-64", None),
        ("v5e-128", [False, True, False]),  # 8x16
        ("v5e-256", [True, True, False]),
        ("2xv6e-256", [True, True, False]),
        ("v5p-64", None),  # 2x4x4: less than a cube
        ("v5p-128", [True, True, True]),
        ("v4:4x4x12", [True, True, True]),
        ("tpu7x-64", None),
        ("tpu7x-128", [True, True, True]),
    ],
)
def test_libtpu_is_told_which_axes_are_rings(text: str, wrap: list[bool] | None) -> None:
    """As MaxText's accelerator_to_spec_map has them: libtpu takes an axis for a line otherwise."""
    where = parse_target(text, tpus=True).tpu
    assert where is not None
    assert where.topology_options.get("wrap") == wrap
    told = wrap or [False] * 3
    assert [ring for _, ring in where.rings] == [told[at] for at in range(len(where.rings))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v9-8", ", ".join(tpu.name for tpu in tpus())),
        ("v5e-12", "v5e-8, v5e-16"),
        ("v5e-2", "v5e-1, v5e-4"),
        ("v5e-512", "2xv5e-256"),
        ("v5p-3", "a chip of v5p has 2"),
        ("v5p-24", "v5p-16, v5p-32"),
        ("v5e:3x3", "1, 2, 4, 8 or 16"),
        ("v5p:2x8x8", "multiples of 4"),
        ("v5e:4x4x4", "1, 2, 4, 8 or 16"),
        ("2xv5e-256:25GB", "200G"),
        ("2xv5e-256:0G", "0 Gb/s"),
        ("0xv5e-256", "0 slices"),
        ("7xTPU7x", "has 2"),
    ],
)
def test_a_slice_that_does_not_exist_is_refused_with_those_that_do(text: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_target(text, tpus=True)
    assert text in told.value.what
    assert said in f"{told.value.what} {told.value.why} {told.value.next}"


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("v5e", "v5e-8"),
        ("v6e-8x", "v6e-8"),
        ("v5p-127", "v5p-128"),
        ("tpu7x-63", "tpu7x-64"),
        ("v5e:3x5", "v5e-16"),
        ("2xv5e-256:50GB/s", "2xv5e-256:400G"),
    ],
)
def test_a_wrong_slice_is_answered_with_one_of_its_generation(text: str, instead: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_target(text, tpus=True)
    assert caught.value.instead == instead
    assert parse_target(instead, tpus=True).tpu is not None


@pytest.mark.parametrize("text", ["v5e-256", "2xv5p-128:200G", "256xTPUv5e", "tpu7x-8"])
def test_commands_for_gpus_refuse_slices(text: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_target(text)
    assert "needs GPUs" in told.value.what
    assert "8xH100" in str(told.value.next)


@given(st.sampled_from(tpus()), st.data())
def test_every_size_of_a_generation_is_a_target_of_so_many_devices(
    tpu: Tpu, data: st.DataObject
) -> None:
    chips = data.draw(st.sampled_from(list(tpu.sizes())))
    shape = tpu.shape(chips)
    assert shape is not None
    where = TpuSlice(tpu=tpu, shape=shape)
    assert parse_target(str(where), tpus=True).devices == chips * tpu.devices
    assert parse_target(where.topology, tpus=True).tpu == where
    if "x" not in str(where):
        assert parse_devices(str(where)).count == chips * tpu.devices


def test_an_axis_is_a_ring_where_switches_or_a_whole_side_join_its_ends() -> None:
    def rings(text: str) -> tuple[tuple[int, bool], ...]:
        where = parse_target(text, tpus=True).tpu
        assert where is not None
        return where.rings

    assert rings("v5e-256") == ((16, True), (16, True))
    assert rings("v5e:8x16") == ((8, False), (16, True))
    assert rings("v5p-128") == ((4, True), (4, True), (4, True))
    assert rings("v5p-64") == ((2, False), (4, False), (4, False))
    assert rings("v5e-1") == ()


def test_a_generation_is_found_by_the_name_in_profiles() -> None:
    for name, known in (("TPU v5 lite", "v5e"), ("TPU v5", "v5p"), ("TPU7x", "tpu7x")):
        found = find_tpu(name)
        assert found is not None
        assert found.name == known
    assert find_tpu("NVIDIA H100 80GB HBM3") is None
    assert find_tpu(None) is None


@pytest.mark.parametrize("tpu", tpus(), ids=lambda tpu: tpu.name)
def test_the_usable_memory_is_most_of_the_chips(tpu: Tpu) -> None:
    assert 0.9 < tpu.hbm_usable / chip_of_tpu(tpu).memory_bytes < 1.1


def test_the_network_of_several_slices_is_a_hosts() -> None:
    target = parse_target("2xv5e-256:200G", tpus=True)
    assert target.links.nic_bytes_per_s * target.gpus_per_host == 25e9
    assert target.links.network_is_given
    assert not target.notes
    assert "400 Gb/s per host" in parse_target("2xv6e-256", tpus=True).notes[0]
