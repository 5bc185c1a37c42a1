"""Prices on TPUs: XLA's estimates, bytes, kernels, and links of a slice by axis and ring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from counterpoint.cost.build import build_model
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.cost.what_if import WhatIf
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text

Pricer = Callable[..., Price]


@pytest.fixture
def price() -> Pricer:
    """Price the instruction `it` of a module of these lines on a slice."""

    def of(lines: str, target: str = "v5e-256", what_if: WhatIf | None = None) -> Price:
        where = parse_target(target, tpus=True)
        program = module(lines, where.devices)
        it = program.instruction("it")
        assert it is not None
        return build_model(where, what_if=what_if).price(program, it)

    return of


def priced(program: Program, where: Target) -> Price:
    it = program.instruction("it")
    assert it is not None
    return build_model(where).price(program, it)


def module(lines: str, devices: int) -> Program:
    return program_from_text(
        f"HloModule test, is_scheduled=true, num_partitions={devices}\n\n"
        "%sum (a: f32[], b: f32[]) -> f32[] {\n"
        "  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n"
        "  ROOT %add = f32[] add(%a, %b)\n}\n\n"
        "%product (a: bf16[8192,8192], b: bf16[8192,8192]) -> bf16[8192,8192] {\n"
        "  %a = bf16[8192,8192]{1,0} parameter(0)\n  %b = bf16[8192,8192]{1,0} parameter(1)\n"
        "  ROOT %dot = bf16[8192,8192]{1,0} dot(%a, %b), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}\n}\n\n"
        "%narrow_product (a: f8e4m3fn[8192,8192], b: f8e4m3fn[8192,8192]) -> bf16[8192,8192] {\n"
        "  %a = f8e4m3fn[8192,8192]{1,0} parameter(0)\n"
        "  %b = f8e4m3fn[8192,8192]{1,0} parameter(1)\n"
        "  ROOT %dot = bf16[8192,8192]{1,0} dot(%a, %b), lhs_contracting_dims={1},"
        " rhs_contracting_dims={0}\n}\n\n"
        "%scattered (a: f32[1073741824]) -> f32[4194304] {\n"
        "  %a = f32[1073741824]{0} parameter(0)\n  %zero = s32[] constant(0)\n"
        "  %reduced = f32[1073741824]{0} all-reduce(%a), channel_id=1,"
        " replica_groups=[1,256]<=[256], use_global_device_ids=true, to_apply=%sum\n"
        "  ROOT %own = f32[4194304]{0} dynamic-slice(%reduced, %zero),"
        " dynamic_slice_sizes={4194304}\n}\n\n"
        f"ENTRY %main (p: bf16[8192,8192]) -> bf16[8192,8192] {{\n"
        "  %p = bf16[8192,8192]{1,0} parameter(0)\n"
        "  %v = bf16[8192,8192]{1,0:S(1)} parameter(1)\n"
        "  %narrow = bf16[8192,512]{1,0} parameter(2)\n"
        "  %wide = f32[8192,8192]{1,0} parameter(3)\n"
        f"{lines}\n"
        "  ROOT %out = bf16[8192,8192]{1,0} add(%p, %p)\n}\n"
    )


def cycles(count: int) -> str:
    return (
        f'backend_config={{"window_config":{{"estimated_cycles":"{count}"}},'
        '"scoped_memory_configs":[]}'
    )


def multiplied(operand: str, count: int) -> str:
    line = f"  %it = bf16[8192,8192]{{1,0}} fusion(%{operand}, %{operand}), kind=kOutput"
    return f"{line}, calls=%product, {cycles(count)}"


MATMUL = multiplied("p", 9_557_312)


def test_a_matrix_product_takes_the_cycles_that_xla_estimates(price: Pricer) -> None:
    found = price(MATMUL)
    assert found.seconds == pytest.approx(9_557_312 / 1.5e9)
    assert (found.source, found.family) == (PriceSource.COMPILER, PriceFamily.MATMUL)
    # 8192 cubed is 1.1 TFLOP: 173 of the 197 TFLOP/s of a v5e.
    assert 2 * 8192**3 / found.seconds / 197e12 == pytest.approx(0.876, abs=0.01)
    assert found.low < found.seconds < found.high


@pytest.mark.parametrize(
    ("name", "ghz", "count"),
    [("v4-8", 1.05, 4_668_616), ("v5p-8", 1.75, 4_652_072), ("tpu7x-8", 1.9, 2_604_600)],
)
def test_cycles_are_of_the_clock_of_the_generation(
    price: Pricer, name: str, ghz: float, count: int
) -> None:
    found = price(multiplied("p", count), name)
    assert found.seconds == pytest.approx(count / ghz / 1e9)
    assert found.source is PriceSource.COMPILER


def test_a_callback_waits_for_python_on_the_host(price: Pricer) -> None:
    sent = "  %token = token[] after-all()\n"
    sent += "  %{} = (bf16[8192,8192]{{1,0}}, u32[], token[]) send(%p, %token), channel_id=3,"
    sent += " is_host_transfer=true\n"
    data = price(sent.format("it"))
    assert (data.source, data.family) == (PriceSource.ANALYTIC, PriceFamily.HOST)
    assert data.how.startswith("134 MB at ")
    answer = "  %done = token[] send-done(%s), channel_id=3, is_host_transfer=true\n"
    answer += "  %it = (f32[], u32[], token[]) recv(%done), channel_id=4, is_host_transfer=true"
    found = price(sent.format("s") + answer)
    assert (found.source, found.family) == (PriceSource.BOUND, PriceFamily.CUSTOM)
    assert "waits for Python" in found.how
    assert found.low < 1e-4 < found.seconds < found.high


def test_a_large_product_reaches_what_such_products_are_measured_at(price: Pricer) -> None:
    """XLA estimates products with a norm or a SwiGLU fused at up to 1.5 times what they take."""
    found = price(multiplied("p", 15_000_000))
    assert found.seconds == pytest.approx(2 * 8192**3 / (0.9 * 173e12))
    assert (found.source, found.family) == (PriceSource.ANALYTIC, PriceFamily.MATMUL)
    assert "15,000,000 cycles" in found.how
    assert found.low < found.seconds < found.high


def test_an_estimate_of_a_small_product_or_of_float32_is_believed(price: Pricer) -> None:
    """A small one fills no tiles, and float32 may be multiplied in six passes."""
    small = price(
        "  %it = bf16[8192,512]{1,0} dot(%p, %narrow), lhs_contracting_dims={1},"
        f" rhs_contracting_dims={{0}}, {cycles(9_000_000)}"
    )
    assert small.seconds == pytest.approx(9_000_000 / 1.5e9)
    exact = price(
        "  %it = f32[8192,8192]{1,0} dot(%wide, %wide), lhs_contracting_dims={1},"
        f" rhs_contracting_dims={{0}}, {cycles(57_000_000)}"
    )
    assert exact.seconds == pytest.approx(57_000_000 / 1.5e9)
    assert {small.source, exact.source} == {PriceSource.COMPILER}


def test_a_plain_operation_takes_its_bytes_where_xla_estimates_more(price: Pricer) -> None:
    read_and_write = 2 * 2 * 8192 * 8192
    by_bytes = price("  %it = bf16[8192,8192]{1,0} copy(%p), " + cycles(90_000_000))
    assert by_bytes.seconds == pytest.approx(read_and_write / (0.8 * 0.819e12))
    assert by_bytes.source is PriceSource.ANALYTIC
    by_estimate = price("  %it = bf16[8192,8192]{1,0} copy(%p), " + cycles(550_000))
    assert by_estimate.seconds == pytest.approx(550_000 / 1.5e9)
    assert by_estimate.source is PriceSource.COMPILER
    impossible = price("  %it = bf16[8192,8192]{1,0} copy(%p), " + cycles(10_000))
    assert impossible.low == pytest.approx(read_and_write / 0.819e12)


def test_operands_on_the_chip_take_no_memory_bandwidth(price: Pricer) -> None:
    from_chip = price("  %it = bf16[8192,8192]{1,0} copy(%v), " + cycles(90_000_000))
    from_hbm = price("  %it = bf16[8192,8192]{1,0} copy(%p), " + cycles(90_000_000))
    assert from_chip.seconds == pytest.approx(from_hbm.seconds / 2)
    arithmetic = price("  %it = bf16[8192,8192]{1,0:S(1)} add(%v, %v), " + cycles(90_000_000))
    # Nothing is read from HBM, but the vector unit still adds every element.
    assert arithmetic.seconds == pytest.approx(8192 * 8192 / (2048 * 1.5e9))


def all_reduce(shape: str, groups: str) -> str:
    return (
        f"  %x = {shape} broadcast(%p), dimensions={{}}\n"
        f"  %it = {shape} all-reduce(%x), channel_id=1, replica_groups={groups},"
        " use_global_device_ids=true, to_apply=%sum"
    )


def test_an_all_reduce_uses_the_rings_of_both_axes(price: Pricer) -> None:
    size = 4 * 1024**3
    found = price(all_reduce("f32[1073741824]{0}", "[1,256]<=[256]"))
    links = 4 * 50e9 * 0.9
    assert found.seconds == pytest.approx(2 * size * 255 / 256 / links, rel=0.01)
    assert (found.link, found.bound_by) == ("ICI", "bandwidth")
    one_axis = price(all_reduce("f32[1073741824]{0}", "[16,16]<=[256]"))
    assert one_axis.seconds == pytest.approx(2 * size * 15 / 16 / (2 * 50e9 * 0.9), rel=0.01)


SCATTERS = "InputAllReduceScatterFusion"


@pytest.mark.parametrize(
    "config",
    [
        "",  # libtpu names the emitter only with the machine code
        f', backend_config={{"collective_algorithm_config":{{"emitter":"Single{SCATTERS}"}}}}',
    ],
)
def test_an_all_reduce_of_which_each_keeps_its_part_takes_half(price: Pricer, config: str) -> None:
    whole = price(all_reduce("f32[1073741824]{0}", "[1,256]<=[256]"))
    fusion = f"""\
  %x = f32[1073741824]{{0}} broadcast(%p), dimensions={{}}
  %it = f32[4194304]{{0}} fusion(%x), kind=kCustom, calls=%scattered{config}"""
    half = price(fusion)
    assert half.seconds == pytest.approx(whole.seconds / 2, rel=0.01)


def test_a_line_is_half_as_fast_as_a_ring(price: Pricer) -> None:
    shape = "f32[1073741824]{0}"
    ring = price(all_reduce(shape, "[1,64]<=[64]"), "v5p-128")
    line = price(all_reduce(shape, "[1,32]<=[32]"), "v5p-64")
    each = 100e9 * 0.9
    assert ring.seconds == pytest.approx(2 * 4 * 1024**3 * 63 / 64 / (6 * each), rel=0.01)
    assert line.seconds == pytest.approx(2 * 4 * 1024**3 * 31 / 32 / (3 * each), rel=0.01)


def test_groups_that_lie_between_one_another_share_the_links() -> None:
    """As jit__psum of a public trace does on v6e-8: pairs two apart, 5.4 GB in 122 ms."""
    size = 5 * 1024**3
    where = parse_target("v6e-8", tpus=True)
    pairs = module(all_reduce("f32[1342177280]{0}", "[4,2]<=[2,4]T(1,0)"), where.devices)
    apart = priced(pairs, where)
    assert apart.seconds == pytest.approx(size / 45e9, rel=0.01)
    assert "a line of 2, 2 apart" in apart.how
    assert apart.seconds == pytest.approx(0.1217, rel=0.03)
    # A mesh can have them side by side: 0 and 4 of the program are chips 0 and 1.
    side_by_side = replace(pairs, device_order=(0, 2, 4, 6, 1, 3, 5, 7), answers={})
    near = priced(side_by_side, where)
    assert near.seconds == pytest.approx(apart.seconds / 2, rel=0.01)
    assert "apart" not in near.how


def test_a_group_of_consecutive_chips_is_no_ring(price: Pricer) -> None:
    shape = "f32[1073741824]{0}"
    row = price(all_reduce(shape, "[16,16]<=[256]"))
    quarter = price(all_reduce(shape, "[64,4]<=[256]"))
    assert "a ring of 16" in row.how
    assert "a line of 4" in quarter.how
    assert "apart" not in quarter.how
    # Every fourth chip of a row: four groups on a ring's links.
    spread = price(all_reduce(shape, "[64,4]<=[16,4,4]T(0,2,1)"))
    assert "a ring of 4, 4 apart" in spread.how
    assert spread.seconds == pytest.approx(2 * quarter.seconds, rel=0.01)


def test_a_small_collective_takes_its_way_and_one_of_a_device_almost_nothing(
    price: Pricer,
) -> None:
    found = price(all_reduce("f32[1]{0}", "[1,256]<=[256]"))
    assert 1e-5 < found.seconds < 1e-4
    assert found.bound_by == "latency"
    assert price(all_reduce("f32[1]{0}", "[256,1]<=[256]")).seconds < 1e-5


def test_slices_are_joined_by_the_network(price: Pricer) -> None:
    shape = "f32[1073741824]{0}"
    within = price(all_reduce(shape, "[2,256]<=[512]"), "2xv5e-256")
    across = price(all_reduce(shape, "[1,512]<=[512]"), "2xv5e-256:1G")
    assert within.family is PriceFamily.DOMAIN
    assert across.family is PriceFamily.NETWORK
    # Each device exchanges its 256th over a quarter of its host's 1 Gb/s.
    sent = 4 * 1024**3 / 256
    assert across.seconds == pytest.approx(sent / (0.8 * 1e9 / 8 / 4), rel=0.02)


def test_the_send_of_a_transfer_has_its_price_and_the_recv_none(
    tpu_slices: Program,
) -> None:
    model = build_model(parse_target("2xv5e-4:200G", tpus=True))
    send = tpu_slices.instruction("send.57")
    recv = tpu_slices.instruction("recv.52")
    assert send is not None
    assert recv is not None
    assert model.price(tpu_slices, recv).seconds == 0
    price = model.price(tpu_slices, send)
    # An all-reduce of bf16[4096,8,128] over two slices moves its size once.
    assert price.seconds == pytest.approx(2 * 4096 * 8 * 128 / (0.8 * 25e9 / 4) + 50e-6)
    assert (price.family, price.link) == (PriceFamily.NETWORK, "DCN")


def test_attention_runs_forward_also_where_the_backward_pass_recomputes_it(
    tpu_step: Program,
) -> None:
    model = build_model(parse_target("v5e-8", tpus=True))
    forward = {
        model.price(tpu_step, it).seconds
        for it in tpu_step.instructions
        if it.custom_call_target == "tpu_custom_call" and "mha_fwd" in it.name
    }
    assert len(forward) == 1


def test_a_product_of_unknown_flops_has_a_bound(price: Pricer) -> None:
    found = price("  %it = bf16[8192,8192]{1,0} dot(%p, %p), lhs_contracting_dims={7}")
    assert found.source is PriceSource.BOUND
    assert "FLOPs are not" in found.how


def test_a_kernel_of_which_nothing_is_known_has_a_bound(price: Pricer) -> None:
    found = price(
        '  %it = bf16[8192,8192]{1,0} custom-call(%p), custom_call_target="tpu_custom_call",'
        ' backend_config={"custom_call_config":{"body":"TUzv"}}'
    )
    assert found.source is PriceSource.BOUND
    assert found.low == pytest.approx(2 * 2 * 8192 * 8192 / (0.8 * 0.819e12))
    stated = price(
        '  %it = bf16[8192,8192]{1,0} custom-call(%p), custom_call_target="tpu_custom_call",'
        ' backend_config={"custom_call_config":{"cost_estimate":{"flops":"197000000000",'
        '"transcendentals":"0","bytes_accessed":"1000"}}}'
    )
    assert stated.seconds == pytest.approx(2e-3)
    assert stated.source is PriceSource.ANALYTIC


def test_what_if_scales_prices_of_a_family(price: Pricer) -> None:
    faster = WhatIf(speed={PriceFamily.MATMUL: 2.0})
    assert price(MATMUL, what_if=faster).seconds == pytest.approx(price(MATMUL).seconds / 2)
    removed = WhatIf(instructions={"it": 0.0})
    assert price(MATMUL, what_if=removed).seconds == 0


SIZE = 2**30
NEIGHBOR_S = SIZE / 45e9 + 3e-6
"""One hop of 1 GiB over a link of v5e, and the start."""


def permute(pairs: list[tuple[int, int]], opcode: str = "collective-permute") -> str:
    listed = ",".join(f"{{{source},{target}}}" for source, target in pairs)
    return (
        "  %x = f32[268435456]{0} broadcast(%p), dimensions={}\n"
        f"  %it = f32[268435456]{{0}} {opcode}(%x), channel_id=1, source_target_pairs={{{listed}}}"
    )


def shifted(
    devices: int, along: int, by: int, stride: int = 1, also: int = 0
) -> list[tuple[int, int]]:
    """Shift along one axis of so many chips, and along the second, around their ends."""
    pairs: list[tuple[int, int]] = []
    for chip in range(devices):
        at = chip // stride % along
        to = chip + ((at + by) % along - at) * stride
        row = to // along
        pairs.append((chip, to + ((row + also) % along - row) * along))
    return pairs


@pytest.mark.parametrize("stride", [1, 16])
@pytest.mark.parametrize("by", [1, -1])
def test_a_shift_by_one_around_a_ring_goes_to_neighbors(
    price: Pricer, by: int, stride: int
) -> None:
    found = price(permute(shifted(256, 16, by, stride)))
    assert found.seconds == pytest.approx(NEIGHBOR_S)
    assert "to a neighbor" in found.how


def test_a_shift_by_more_than_one_shares_the_links_in_between(price: Pricer) -> None:
    quarter = price(permute(shifted(256, 16, 4)))
    assert quarter.seconds == pytest.approx(4 * SIZE / 45e9 + 6e-6)
    assert "a link that 4 pairs share, 4 hops" in quarter.how
    # Across the ring both ways are equally long, and each takes half.
    half = price(permute(shifted(256, 16, 8)))
    assert half.seconds == pytest.approx(4 * SIZE / 45e9 + 10e-6)
    assert "8 hops" in half.how
    assert price(permute(shifted(256, 16, 15))).seconds == pytest.approx(NEIGHBOR_S)


def test_a_shift_along_two_axes_uses_links_of_both(price: Pricer) -> None:
    found = price(permute(shifted(256, 16, 1, also=1)))
    assert found.seconds == pytest.approx(NEIGHBOR_S + 1e-6)
    assert "one pair each, 2 hops" in found.how
    mixed = price(permute(shifted(256, 16, 1, also=3)))
    assert mixed.seconds == pytest.approx(3 * SIZE / 45e9 + 6e-6)


def test_without_a_ring_the_last_sends_all_the_way_back(price: Pricer) -> None:
    """The slice v5e-8 is a line of 2 by one of 4: the other direction of its links is free."""
    around = price(permute(shifted(8, 4, 1, 2)), "v5e-8")
    assert around.seconds == pytest.approx(SIZE / 45e9 + 5e-6)
    assert "3 hops" in around.how
    half = price(permute(shifted(8, 4, 2, 2)), "v5e-8")
    assert half.seconds == pytest.approx(2 * SIZE / 45e9 + 4e-6)
    assert "a link that 2 pairs share, 2 hops" in half.how


def test_where_a_permute_goes_follows_the_order_of_the_mesh() -> None:
    where = parse_target("v5e-256", tpus=True)
    rows = module(permute(shifted(256, 16, 1)), 256)
    assert priced(rows, where).seconds == pytest.approx(NEIGHBOR_S)
    every_fourth = tuple(chip // 16 * 16 + chip * 4 % 16 + chip % 16 // 4 for chip in range(256))
    spread = replace(rows, device_order=every_fourth, answers={})
    # Chips 0, 4, 8, 12, then 1, which is five hops on; four pairs share some links of the slice.
    assert priced(spread, where).seconds == pytest.approx(4 * SIZE / 45e9 + 7e-6)


def test_devices_of_a_chip_share_its_links(price: Pricer) -> None:
    both = price(permute([(0, 2), (1, 3)]), "tpu7x-8")
    assert both.seconds == pytest.approx(2 * SIZE / 90e9 + 3e-6)
    alone = price(permute([(0, 2)]), "tpu7x-8")
    assert alone.seconds == pytest.approx(SIZE / 90e9 + 3e-6)
    on_chip = price(permute([(0, 1), (2, 3)]), "tpu7x-8")
    assert on_chip.seconds < alone.seconds / 3
    assert "of one chip" in on_chip.how


def test_a_permute_between_slices_uses_the_network(price: Pricer) -> None:
    found = price(permute([(0, 256), (256, 0)]), "2xv5e-256:1G")
    assert found.family is PriceFamily.NETWORK
    assert found.seconds == pytest.approx(SIZE / (0.8 * 1e9 / 8 / 4), rel=0.01)


def test_a_send_within_a_slice_goes_where_its_pairs_say(price: Pricer) -> None:
    pairs = "".join(f"{{{source},{target}}}," for source, target in shifted(256, 16, 4))
    found = price(
        "  %x = f32[268435456]{0} broadcast(%p), dimensions={}\n  %token = token[] after-all()\n"
        "  %it = (f32[268435456]{0}, u32[], token[]) send(%x, %token), channel_id=1,"
        f' frontend_attributes={{_xla_send_recv_source_target_pairs="{{{pairs[:-1]}}}"}}'
    )
    assert found.seconds == pytest.approx(4 * SIZE / 45e9 + 6e-6)


def test_without_pairs_a_neighbor_is_assumed_and_said_to_be(price: Pricer) -> None:
    found = price(
        "  %x = f32[268435456]{0} broadcast(%p), dimensions={}\n"
        "  %it = f32[268435456]{0} collective-permute(%x), channel_id=1"
    )
    assert found.seconds == pytest.approx(NEIGHBOR_S)
    assert "which is assumed" in found.how


def test_a_product_without_an_estimate_takes_the_rate_of_a_plain_one(price: Pricer) -> None:
    """libtpu writes its estimates with the machine code; XLA estimates 70% of v6e's peak."""
    line = "  %it = bf16[8192,8192]{1,0} fusion(%p, %p), kind=kOutput, calls=%product"
    found = price(line, "v6e-8")
    assert found.seconds == pytest.approx(2 * 8192**3 / 646e12)
    assert found.source is PriceSource.ANALYTIC
    assert "a plain product" in found.how
    # Of float8, TPU7x multiplies twice as many.
    line = "  %x = f8e4m3fn[8192,8192]{1,0} convert(%p)\n" + line.replace("%p, %p", "%x, %x")
    narrow = price(line.replace("calls=%product", "calls=%narrow_product"), "tpu7x-8")
    assert narrow.seconds == pytest.approx(2 * 8192**3 / (2 * 802e12))


def test_a_layer_of_an_array_in_another_layout_is_all_that_is_read() -> None:
    """Llama 3.1 70B on TPU7x: fusions that copy 80 layers on paper, and read one of them."""
    text = """HloModule test, is_scheduled=true, num_partitions=8

%laid_out (all: f32[80,1024,1024]) -> f32[80,1024,1024] {
  %all = f32[80,1024,1024]{2,1,0} parameter(0)
  ROOT %same = f32[80,1024,1024]{2,1,0} copy(%all)
}

%one_layer (layers: f32[80,1024,1024], at: s32[]) -> f32[1,1024,1024] {
  %layers = f32[80,1024,1024]{2,1,0} parameter(0)
  %at = s32[] parameter(1)
  %zero = s32[] constant(0)
  %fused = f32[80,1024,1024]{2,1,0} fusion(%layers), kind=kLoop, calls=%laid_out
  ROOT %layer = f32[1,1024,1024]{2,1,0} dynamic-slice(%fused, %at, %zero, %zero),
    dynamic_slice_sizes={1,1024,1024}
}

ENTRY %main (p: f32[80,1024,1024], n: s32[]) -> f32[1,1024,1024] {
  %p = f32[80,1024,1024]{2,1,0} parameter(0)
  %n = s32[] parameter(1)
  ROOT %it = f32[1,1024,1024]{2,1,0} fusion(%p, %n), kind=kLoop, calls=%one_layer
}
"""
    found = priced(program_from_text(text), parse_target("tpu7x-8", tpus=True))
    assert found.seconds == pytest.approx(2 * 4 * 1024**2 / (0.8 * 3.69e12), rel=0.01)
