# ruff: noqa: E501  HLO as it is printed
"""Collectives cost what their ranks, their hosts and the links between them make them cost."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from counterpoint.cost.collectives.pricing import price_collective
from counterpoint.cost.model import FREE, Price, PriceFamily, PriceSource
from counterpoint.cost.scalars import Scalar, Scalars
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware.chip import find_wiring, measured_lines
from counterpoint.hardware.links import Wiring
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.text_reader import program_from_text
from extract_collectives import COLLECTIVE_FILES, extract

CERTAIN = Scalar(1.0, 0.05, "a test")
SCALARS = Scalars(
    matmul=CERTAIN,
    memory=CERTAIN,
    attention=CERTAIN,
    network=Scalar(0.94, 0.1, "a test"),
    slowdown=CERTAIN,
)
SUM = """
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


def price(
    line: str,
    target: str | Target,
    *,
    devices: int,
    operand: str,
    tables: tuple[CollectiveTable, ...] = (),
    scalars: Scalars = SCALARS,
    order: tuple[int, ...] = (),
) -> Price:
    """The price of `ROOT %it = LINE` of an operand %x."""
    text = (
        f"HloModule m, is_scheduled=true, num_partitions={devices}\n{SUM}\n"
        f"ENTRY %main (x: f32[]) -> f32[] {{\n  %x = {operand} parameter(0)\n"
        f"  ROOT %it = {line}\n}}\n"
    )
    program = replace(program_from_text(text), device_order=order)
    instruction = program.instruction("it")
    assert instruction is not None
    where = parse_target(target) if isinstance(target, str) else target
    found = price_collective(program, instruction, where, scalars, tables)
    assert found is not None
    return found


def all_gather(size: int, groups: str, ranks: int) -> tuple[str, str]:
    line = (
        f"f32[{size // 4}] all-gather(%x), channel_id=1, replica_groups={groups},"
        " dimensions={0}, use_global_device_ids=true"
    )
    return line, f"f32[{size // 4 // ranks}]"


def gathered(
    size: int,
    groups: str,
    ranks: int,
    target: str | Target,
    devices: int,
    order: tuple[int, ...] = (),
) -> Price:
    line, operand = all_gather(size, groups, ranks)
    return price(line, target, devices=devices, operand=operand, order=order)


def reduced(
    size: int,
    groups: str,
    target: str,
    devices: int,
    tables: tuple[CollectiveTable, ...] = (),
) -> Price:
    line = (
        f"f32[{size // 4}] all-reduce(%x), channel_id=1, replica_groups={groups},"
        " use_global_device_ids=true, to_apply=%sum"
    )
    return price(line, target, devices=devices, operand=f"f32[{size // 4}]", tables=tables)


GIB = 1 << 30


def test_within_a_domain_the_measured_table_speaks() -> None:
    found = gathered(GIB, "[1,8]<=[8]", 8, "8xH100", 8)
    assert (found.source, found.family, found.bound_by) == (
        PriceSource.TABLE, PriceFamily.DOMAIN, "bandwidth",
    )  # fmt: skip
    assert found.seconds == pytest.approx(GIB / 393.27e9, rel=1e-3)
    assert "8 ranks" in found.how


def test_a_reduce_scatter_counts_its_input() -> None:
    line = (
        f"f32[{GIB // 32}] reduce-scatter(%x), channel_id=1, replica_groups=[1,8]<=[8],"
        " use_global_device_ids=true, dimensions={0}, to_apply=%sum"
    )
    found = price(line, "8xH100", devices=8, operand=f"f32[{GIB // 4}]")
    assert found.seconds == pytest.approx(GIB / 367.6e9, rel=1e-3)


def test_ranks_in_order_stay_on_their_host_and_strided_ones_leave_it() -> None:
    near = gathered(GIB, "[8,8]<=[64]", 8, "8x8xH100:400G", 64)
    far = gathered(GIB, "[8,8]<=[8,8]T(1,0)", 8, "8x8xH100:400G", 64)
    assert near.family is PriceFamily.DOMAIN
    assert (far.family, far.source) == (PriceFamily.NETWORK, PriceSource.ANALYTIC)
    # One rank per host has one NIC: 47 GB/s for the seven eighths that it must receive.
    assert far.seconds == pytest.approx(7 / 8 * GIB / 47e9, rel=0.02)
    assert "8 x 1 ranks" in far.how
    assert "NIC" in far.how


def test_the_devices_of_a_mesh_decide_where_its_ranks_are() -> None:
    transposed = tuple(8 * (rank % 8) + rank // 8 for rank in range(64))
    target = "8x8xH100:400G"
    near = gathered(GIB, "[8,8]<=[64]", 8, target, 64)
    far = gathered(GIB, "[8,8]<=[8,8]T(1,0)", 8, target, 64)
    assert gathered(GIB, "[8,8]<=[8,8]T(1,0)", 8, target, 64, transposed) == near
    assert gathered(GIB, "[8,8]<=[64]", 8, target, 64, transposed) == far


def test_all_ranks_of_all_hosts_use_all_nics() -> None:
    found = gathered(8 * GIB, "[1,64]<=[64]", 64, "8x8xH100:400G", 64)
    # No faster than eight NICs, and hardly slower: nccl-tests shows 0.96 of 388 GB/s at 8 GiB.
    assert found.seconds > 63 / 64 * 8 * GIB / 400e9
    assert found.seconds == pytest.approx(63 / 64 * 8 * GIB / (0.96 * 388e9), rel=0.1)


def test_the_mesh_of_the_replica_groups_decides_and_not_its_spelling() -> None:
    iota = gathered(GIB, "[2,4]<=[4,2]T(1,0)", 4, "2x4xH100", 8)
    listed = gathered(GIB, "{{0,2,4,6},{1,3,5,7}}", 4, "2x4xH100", 8)
    mesh = gathered(GIB, "mesh['a'=4,'b'=2] {'a'}", 4, "2x4xH100", 8)
    assert iota == listed == mesh
    assert "2 x 2 ranks" in iota.how


def test_fewer_nics_are_shared() -> None:
    groups = "[8,8]<=[8,8]T(1,0)"
    own = gathered(GIB, groups, 8, "8x8xH100:8x400G", 64)
    shared = gathered(GIB, groups, 8, "8x8xH100:4x400G", 64)
    assert shared.seconds == pytest.approx(2 * own.seconds, rel=0.02)
    # Alone, a rank has the whole of the NIC next to it.
    alone = gathered(GIB, "{{0,8,16,24,32,40,48,56}}", 8, "8x8xH100:4x400G", 64)
    assert alone.seconds == pytest.approx(own.seconds, rel=0.02)


def test_a_domain_spans_hosts_where_the_makers_build_it_so() -> None:
    found = gathered(GIB, "[1,72]<=[72]", 72, "18x4xGB200", 72)
    assert found.family is PriceFamily.DOMAIN
    assert found == gathered(GIB, "[1,72]<=[72]", 72, "72xGB200", 72)
    two = gathered(GIB, "[1,144]<=[144]", 144, "36x4xGB200", 144)
    assert two.family is PriceFamily.NETWORK
    assert "2 x 72 ranks" in two.how


def test_many_ranks_pay_latency() -> None:
    few = gathered(64 << 20, "[1,16]<=[16]", 16, "2x8xH100:400G", 16)
    many = gathered(64 << 20, "[1,1024]<=[1024]", 1024, "128x8xH100:400G", 1024)
    assert few.bound_by == "bandwidth"
    assert many.bound_by == "latency"
    assert many.seconds > 2e-3  # a ring of 1,023 steps, 127 of them between hosts
    assert many.high / many.low > few.high / few.low


PAIRS = "{{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}"


def permuted(pairs: str, target: str, devices: int = 8) -> Price:
    line = f"f32[{GIB // 64}] collective-permute(%x), channel_id=1, source_target_pairs={pairs}"
    return price(line, target, devices=devices, operand=f"f32[{GIB // 64}]")


@pytest.mark.parametrize(
    ("pairs", "how"),
    [
        ("{{0,1},{1,2},{2,3},{3,0}}", "4 ranks, measured with 8, XLA's table"),
        ("{{3,0}}", "2 ranks, measured with 8, XLA's table"),
    ],
)
def test_a_permute_is_of_the_devices_that_take_part(pairs: str, how: str) -> None:
    found = permuted(pairs, "4xH100", 4)
    assert found.how == how
    assert found.high == pytest.approx(1.15 * found.seconds)


def test_the_worst_pair_of_a_permute_decides() -> None:
    inside, across = permuted(PAIRS, "8xH100"), permuted(PAIRS, "2x4xH100:400G")
    assert inside.family is PriceFamily.DOMAIN
    assert across.family is PriceFamily.NETWORK
    assert across.seconds > 1.5 * inside.seconds
    # Pairs that swap hosts all at once have a NIC each, or half of one.
    swap = "{{0,4},{1,5},{2,6},{3,7},{4,0},{5,1},{6,2},{7,3}}"
    own, shared = permuted(swap, "2x4xH100:4x400G"), permuted(swap, "2x4xH100:2x400G")
    assert own.seconds == pytest.approx(across.seconds, rel=0.01)
    assert shared.seconds == pytest.approx(2 * own.seconds, rel=0.03)


def test_a_send_costs_what_its_pairs_do_and_a_host_transfer_is_none() -> None:
    line = (
        f"(f32[{GIB // 64}], u32[], token[]) send(%x, %x), channel_id=1, frontend_attributes="
        '{_xla_send_recv_source_target_pairs="{{0,4},{1,5}}"}'
    )
    found = price(line, "2x4xH100:400G", devices=8, operand=f"f32[{GIB // 64}]")
    assert found.family is PriceFamily.NETWORK
    assert found.seconds == pytest.approx((GIB / 16) / 44.6e9, rel=0.05)


def test_starts_have_the_price_dones_are_free_and_combined_ones_count_their_sum() -> None:
    text = (
        f"HloModule m, is_scheduled=true, num_partitions=8\n{SUM}\n"
        "ENTRY %main (x: f32[1024], y: f32[4096]) -> f32[] {\n"
        "  %x = f32[1048576] parameter(0)\n  %y = f32[4194304] parameter(1)\n"
        "  %start = (f32[1048576], f32[4194304]) all-reduce-start(%x, %y), channel_id=1,"
        " replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%sum\n"
        "  ROOT %done = (f32[1048576], f32[4194304]) all-reduce-done(%start)\n}\n"
    )
    program = program_from_text(text)
    target = parse_target("8xH100")
    start, done, x = (program.instruction(name) for name in ("start", "done", "x"))
    assert start
    assert done
    assert x
    found = price_collective(program, start, target, SCALARS)
    assert found is not None
    assert found == reduced(20 << 20, "[1,8]<=[8]", "8xH100", 8)
    assert price_collective(program, done, target, SCALARS) is FREE
    assert price_collective(program, x, target, SCALARS) is None


@pytest.mark.parametrize(
    ("operation", "devices", "target"),
    [
        ("all-to-all(%x), channel_id=1, replica_groups=[1,{n}]<=[{n}], dimensions={{0}}", 16, "2x8xH100"),
        ("all-to-all(%x), channel_id=1, replica_groups=[1,{n}]<=[{n}], dimensions={{0}}", 8, "8xA100"),
        ("collective-broadcast(%x), channel_id=1, replica_groups=[1,{n}]<=[{n}]", 16, "2x8xH100"),
        ("collective-broadcast(%x), channel_id=1, replica_groups=[1,{n}]<=[{n}]", 8, "8xH100"),
        ("ragged-all-to-all(%x, %x, %x, %x, %x, %x), channel_id=1, replica_groups=[1,{n}]<=[{n}]", 16, "2x8xH100"),
    ],
    ids=["all-to-all", "all-to-all-table-less", "broadcast", "broadcast-within", "ragged"],
)  # fmt: skip
def test_other_kinds_have_a_price(operation: str, devices: int, target: str) -> None:
    line = f"f32[{GIB // 64}] {operation.format(n=devices)}"
    found = price(line, target, devices=devices, operand=f"f32[{GIB // 64}]")
    assert 1e-5 < found.seconds < 0.1
    assert found.low <= found.seconds <= found.high


@pytest.mark.parametrize("target", ["8xA100", "8xL40S", "8xRTX-PRO-6000", "8xMI300X", "8xB300"])
def test_every_gpu_has_a_price_within_a_host(target: str) -> None:
    found = reduced(GIB, "[1,8]<=[8]", target, 8)
    assert found.family is PriceFamily.DOMAIN
    assert GIB / 1e12 < found.seconds < GIB / 1e9


@pytest.mark.parametrize("gpu", ["L40S", "RTX-PRO-6000", "H100-PCIe"])
@pytest.mark.parametrize("operation", ["all-reduce", "all-gather"])
def test_within_a_host_of_cards_pcie_decides_and_no_nic(gpu: str, operation: str) -> None:
    def asked(target: str) -> Price:
        if operation == "all-reduce":
            return reduced(GIB, "[1,8]<=[8]", target, 8)
        return gathered(GIB, "[1,8]<=[8]", 8, target, 8)

    assert asked(f"8x{gpu}:25G") == asked(f"8x{gpu}:800G") == asked(f"8x{gpu}")
    links = parse_target(f"8x{gpu}").links
    passing = GIB * 7 / 8 * (2 if operation == "all-reduce" else 1)
    assert passing / asked(f"8x{gpu}").low <= links.host_bytes_per_s
    assert not parse_target(f"8x{gpu}").notes


@pytest.mark.parametrize("operation", ["all-gather", "all-to-all"])
def test_across_hosts_of_cards_the_slower_of_pcie_and_network_decides(operation: str) -> None:
    def at(network: str) -> float:
        if operation == "all-gather":
            return gathered(GIB, "[1,16]<=[16]", 16, f"2x8xL40S:{network}", 16).seconds
        line = f"f32[{GIB // 4}] all-to-all(%x), replica_groups=[1,16]<=[16], dimensions={{0}}"
        operand = f"f32[{GIB // 4}]"
        return price(line, f"2x8xL40S:{network}", devices=16, operand=operand).seconds

    assert at("2G") > 2 * at("800G") == 2 * at("1600G")
    assert GIB * 15 / 16 / at("1600G") <= parse_target("8xL40S").links.host_bytes_per_s


def test_between_islands_of_one_host_pcie_carries_it() -> None:
    target = parse_target("2x8xA100:800G")
    pairs = replace(target, own_wiring=structs.replace(_wiring(target), domain=2))
    bridged = gathered(GIB, "[8,2]<=[16]", 2, pairs, 16)
    whole = gathered(GIB, "[2,8]<=[16]", 8, pairs, 16)
    far = gathered(GIB, "[1,16]<=[16]", 16, pairs, 16)
    assert bridged.seconds < whole.seconds / 3
    assert (bridged.family, whole.family) == (PriceFamily.DOMAIN, PriceFamily.DOMAIN)
    assert far.family is PriceFamily.NETWORK
    for found, share in ((whole, 7 / 8), (far, 15 / 16)):
        assert GIB * share / found.seconds <= pairs.links.host_bytes_per_s
    swaps = "f32[262144] collective-permute(%x), channel_id=1, source_target_pairs={{0,2},{2,0}}"
    near = swaps.replace("0,2", "0,1").replace("2,0", "1,0")
    joined = price(near, pairs, devices=16, operand="f32[262144]")
    assert joined.seconds < price(swaps, pairs, devices=16, operand="f32[262144]").seconds


def test_a_users_log_goes_before_everything_else() -> None:
    table = CollectiveTable(
        kind="all-reduce",
        ranks=16,
        nodes=2,
        device="",
        seconds={1 << 20: 1e-4, GIB: 1e-2},
        origin="mine.log",
    )
    found = reduced(GIB, "[1,16]<=[16]", "2x8xH100", 16, (table,))
    assert (found.source, found.seconds) == (PriceSource.USER_TABLE, 1e-2)
    assert "mine.log" in found.how
    # Between its sizes and beyond them; not for other ranks or hosts.
    between = reduced(32 << 20, "[1,16]<=[16]", "2x8xH100", 16, (table,))
    assert between.seconds == pytest.approx(1e-3)
    assert reduced(4 * GIB, "[1,16]<=[16]", "2x8xH100", 16, (table,)).seconds == pytest.approx(4e-2)
    assert reduced(GIB, "[1,16]<=[16]", "4x4xH100", 16, (table,)).source is PriceSource.ANALYTIC
    assert (
        reduced(GIB, "[8,2]<=[2,8]T(1,0)", "2x8xH100", 16, (table,)).source is PriceSource.ANALYTIC
    )
    assert reduced(GIB, "[2,8]<=[16]", "2x8xH100", 16, (table,)).source is PriceSource.TABLE


def test_a_log_of_other_hosts_corrects_the_model() -> None:
    own = reduced(GIB, "[1,16]<=[16]", "2x8xH100", 16)
    slow = CollectiveTable(
        kind="all-reduce",
        ranks=16,
        nodes=2,
        device="",
        seconds={GIB: 2 * own.seconds},
        origin="mine.log",
    )
    plain = reduced(GIB, "[1,64]<=[64]", "8x8xH100", 64)
    found = reduced(GIB, "[1,64]<=[64]", "8x8xH100", 64, (slow,))
    assert found.source is PriceSource.USER_TABLE
    assert found.seconds == pytest.approx(2 * plain.seconds)
    assert "2 hosts of mine.log" in found.how


def test_a_log_of_sendrecv_prices_a_ring_of_permutes() -> None:
    table = CollectiveTable(
        kind="collective-permute",
        ranks=8,
        nodes=2,
        device="",
        seconds={1 << 20: 1e-4, GIB: 1e-2},
        origin="sendrecv.log",
    )
    line = f"f32[{GIB // 4}] collective-permute(%x), channel_id=1, source_target_pairs={PAIRS}"
    found = price(line, "2x4xH100", devices=8, operand=f"f32[{GIB // 4}]", tables=(table,))
    assert (found.source, found.seconds) == (PriceSource.USER_TABLE, 1e-2)


LAYOUTS = st.sampled_from(["[1,64]<=[64]", "[8,8]<=[64]", "[8,8]<=[8,8]T(1,0)", "[4,16]<=[64]"])
SIZES = st.integers(min_value=10, max_value=33)


@given(groups=LAYOUTS, size=SIZES, faster=st.floats(min_value=1.0, max_value=16.0))
def test_a_faster_network_never_costs_more(groups: str, size: int, faster: float) -> None:
    def at(gbps: float) -> Price:
        target = replace(parse_target("8x8xH100"), nic_gbps=gbps)
        return gathered(1 << size, groups, 8, target, 64)

    slow, fast = at(100.0), at(100.0 * faster)
    assert fast.seconds <= slow.seconds * (1 + 1e-9)


@given(groups=LAYOUTS, size=SIZES, gpu=st.sampled_from(["H100", "A100", "B200", "L40S"]))
def test_more_bytes_never_cost_less(groups: str, size: int, gpu: str) -> None:
    small = reduced(1 << size, groups, f"8x8x{gpu}", 64)
    large = reduced(3 << (size - 1), groups, f"8x8x{gpu}", 64)
    assert small.seconds <= large.seconds * (1 + 1e-9)


def test_a_faster_domain_never_costs_more() -> None:
    slow = parse_target("8xH100")
    wiring = structs.replace(_wiring(slow), domain_bytes_per_s=900e9)
    fast = replace(slow, own_wiring=wiring)
    for size in range(10, 33):
        before = gathered(1 << size, "[1,8]<=[8]", 8, slow, 8)
        after = gathered(1 << size, "[1,8]<=[8]", 8, fast, 8)
        assert after.seconds <= before.seconds


def _wiring(target: Target) -> Wiring:
    found = find_wiring(target.gpu)
    assert found is not None
    return found


ENTRY = """
  entries {
    key: "sm_90"
    value {
      entries {
        instruction {
          opcode: "reduce-scatter"
          shape { element_type: F32 dimensions: 256 layout { minor_to_major: 0 } }
          dimensions: 0
          iota_collective_device_list { num_replica_groups: 2 num_devices_per_group: 4 }
        }
        network_throughput_bytes_per_sec: 4096000
      }
      entries {
        instruction {
          opcode: "collective-permute"
          shape { element_type: F32 dimensions: 1024 layout { minor_to_major: 0 } }
          source_target_pairs { target: 1 }
          source_target_pairs { source: 1 }
        }
        network_throughput_bytes_per_sec: 8192000
      }
"""


def test_the_tables_of_xla_are_read_from_its_source() -> None:
    assert extract(f"\0\0{ENTRY}\0") == {
        ("sm_90", "reduce-scatter", 4, "2"): {4096: pytest.approx(1e-3)},
        ("sm_90", "collective-permute", 2, "pairs"): {4096: pytest.approx(5e-4)},
    }


def test_the_shipped_table_is_xlas(shared: Path) -> None:
    shipped: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for device, file in COLLECTIVE_FILES.items():
        for line in measured_lines(file):
            kind, ranks, layout, points = line.split(",")
            pairs = (point.split("=") for point in points.split())
            shipped[device, kind, ranks, layout] = {int(s): float(us) for s, us in pairs}
    seen = 0
    with (shared / "data/hardware/xla_collective_table.csv").open() as file:
        for row in csv.DictReader(file):
            if row["op"] == "collective-permute":
                continue
            ranks = int(row["devs_per_group"])
            size = int(row["shape_bytes"]) * (ranks if row["op"] == "reduce-scatter" else 1)
            points = shipped[row["device"], row["op"], str(ranks), row["groups"]]
            if size in points and row["thr_Bps"] != "0":
                assert points[size] == pytest.approx(size / float(row["thr_Bps"]) * 1e6, rel=1e-4)
                seen += 1
    assert seen > 2400
