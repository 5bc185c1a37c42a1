"""What kernels cost that memory, arithmetic or the host decides, and custom calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counterpoint.cost.compute.machine import ComputeDevice
from counterpoint.cost.compute.pricing import price_compute
from counterpoint.cost.compute.user_kernel import register, unregister
from counterpoint.cost.model import FREE, Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.schedule import is_done
from prices import Build, PriceLine

MB = 8192 * 8192 * 4 / 1e6
RATE = 3.35e12 * 0.9
UPDATE = """\
%inner (p0: f32[8192,8192], p1: f32[1,8192], p2: s32[]) -> f32[8192,8192] {
  %p0 = f32[8192,8192]{1,0} parameter(0)
  %p1 = f32[1,8192]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  %e = f32[1,8192]{1,0} exponential(%p1)
  ROOT %d = f32[8192,8192]{1,0} dynamic-update-slice(%p0, %e, %p2, %p2)
}
"""
HEAVY = """\
%inner (p0: bf16[4096,4096]) -> bf16[4096,4096] {
  %p0 = bf16[4096,4096]{1,0} parameter(0)
  %s = bf16[4096,4096]{1,0} power(%p0, %p0)
  ROOT %c = bf16[4096,4096]{1,0} power(%s, %s)
}
"""
UNKNOWN = 'f32[8192,8192]{1,0} custom-call(%x), custom_call_target="MyKernel"'


def test_an_elementwise_kernel_moves_its_bytes(price: PriceLine, h100: ComputeDevice) -> None:
    found = price("f32[8192,8192]{1,0} negate(%x)", h100)
    assert (found.family, found.source) == (PriceFamily.MEMORY, PriceSource.ANALYTIC)
    assert found.seconds == pytest.approx(2 * MB * 1e6 / RATE, rel=0.05)


def test_a_tiny_kernel_costs_its_launch(price: PriceLine, h100: ComputeDevice) -> None:
    found = price("f32[8]{0} negate(%tiny)", h100)
    assert found.family is PriceFamily.LAUNCH
    assert 1e-6 < found.seconds < 5e-6


def test_walking_across_memory_costs_more(price: PriceLine, h100: ComputeDevice) -> None:
    plain = price("f32[8192,8192]{1,0} negate(%x)", h100).seconds
    turned = price("f32[8192,8192]{1,0} transpose(%x), dimensions={1,0}", h100).seconds
    relaid = price("f32[8192,8192]{0,1} copy(%x)", h100).seconds
    assert turned > 1.5 * plain
    assert plain < relaid < turned


def test_adding_up_across_rows_costs_more(price: PriceLine, h100: ComputeDevice) -> None:
    along, across = (
        price(f"f32[8192]{{0}} reduce(%x, %i), dimensions={{{dim}}}, to_apply=%add", h100)
        for dim in (1, 0)
    )
    assert along.seconds < 0.8 * across.seconds


def test_an_update_in_place_costs_what_changes(price: PriceLine, h100: ComputeDevice) -> None:
    line = "f32[8192,8192]{1,0} fusion(%x, %row, %i), kind=kLoop, calls=%inner"
    assert price(line, h100, before=UPDATE).seconds < 5e-6


def test_arithmetic_can_bound_a_kernel(price: PriceLine, h100: ComputeDevice) -> None:
    light = price("bf16[4096,4096]{1,0} negate(%a)", h100).seconds
    line = "bf16[4096,4096]{1,0} fusion(%a), kind=kLoop, calls=%inner"
    heavy = price(line, h100, before=HEAVY)
    assert heavy.seconds > light
    assert "arithmetic" in heavy.how


def test_a_copy_to_the_host_goes_over_its_link(price: PriceLine, h100: ComputeDevice) -> None:
    found = price("f32[8192,8192]{1,0:S(5)} copy(%x)", h100)
    assert found.family is PriceFamily.HOST
    assert 20e9 < MB * 1e6 / found.seconds < 64e9


def test_a_slice_of_what_is_offloaded_goes_over_the_hosts_link(
    build: Build, h100: ComputeDevice
) -> None:
    program = build(
        "%kept = f32[8,4096,4096]{2,1,0:S(5)} parameter(9)",
        "ROOT %it = f32[1,4096,4096]{2,1,0} dynamic-slice(%kept, %i, %i, %i), "
        "dynamic_slice_sizes={1,4096,4096}",
    )
    found = program.instruction("it")
    assert found
    price = price_compute(program, found, h100)
    assert price.family is PriceFamily.HOST
    assert 20e9 < 4 * 4096**2 / price.seconds < 64e9


@pytest.mark.parametrize(
    "line",
    [
        "(f32[8192,8192], u32[]) sort(%x, %x), dimensions={1}, to_apply=%add",
        "c64[8192,8192]{1,0} fft(%x), fft_type=FFT, fft_length={8192}",
        "f32[8192,8192]{1,0} cholesky(%x)",
        "u32[8192] rng-bit-generator(%i), algorithm=rng_default",
    ],
    ids=["sort", "fft", "cholesky", "rng"],
)
def test_rare_work_is_never_free(line: str, price: PriceLine, h100: ComputeDevice) -> None:
    assert price(line, h100).seconds > 1e-6


def test_an_unknown_kernel_gets_a_bound(price: PriceLine, h100: ComputeDevice) -> None:
    found = price(UNKNOWN, h100)
    assert found.source is PriceSource.BOUND
    assert found.low > 2 * MB * 1e6 / 3.36e12
    assert found.high > 10 * found.low


def test_a_kernel_of_pallas_is_priced_by_the_work_that_its_author_states(
    price: PriceLine, h100: ComputeDevice
) -> None:
    kernel = (
        'f32[8192,8192]{{1,0}} custom-call(%x), custom_call_target="mosaic_gpu_v2",'
        ' backend_config={{module = "ML\\EFR = 1", flops = {} : i64, bytes_accessed = {} : i64}}'
    )
    moving, computing = (
        price(kernel.format(flops, size), h100)
        for flops, size in ((10**9, 3 * 10**9), (10**12, 10**9))
    )
    assert {moving.source, computing.source} == {PriceSource.ANALYTIC}
    assert moving.low >= 3e9 / 3.36e12
    assert moving.seconds == pytest.approx(3e9 / h100.memory_rate, rel=0.01)
    assert computing.low >= 1e12 / h100.peak("f32")
    assert price(kernel.format(0, 0), h100).source is PriceSource.BOUND


@pytest.mark.parametrize(
    "target", ["te_norm_forward_ffi", "te_scaled_upper_triang_masked_softmax_forward",
               "__cudnn$norm", "te_dbias_quantize_ffi"]
)  # fmt: skip
def test_known_memory_bound_kernels_are_no_bound(
    target: str, price: PriceLine, h100: ComputeDevice
) -> None:
    line = f'f32[8192,8192]{{1,0}} custom-call(%x), custom_call_target="{target}"'
    found = price(line, h100)
    assert found.source is PriceSource.ANALYTIC
    assert found.seconds == pytest.approx(2 * MB * 1e6 / RATE, rel=0.1)


def test_a_mark_for_the_compiler_is_free(price: PriceLine, h100: ComputeDevice) -> None:
    line = 'f32[8192,8192]{1,0} custom-call(%x), custom_call_target="Sharding"'
    assert price(line, h100) is FREE


@pytest.fixture
def own_pricer() -> Iterator[None]:
    def mine(_program: Program, it: Instruction, _machine: ComputeDevice) -> Price | None:
        if it.shape.dims != (8192, 8192):
            return None
        return price_around(1e-3, 0.1, PriceSource.USER_TABLE, PriceFamily.CUSTOM, "mine")

    register("MyKern", mine)
    yield
    unregister(mine)


@pytest.mark.usefixtures("own_pricer")
def test_a_registered_pricer_is_asked_first(price: PriceLine, h100: ComputeDevice) -> None:
    assert price(UNKNOWN, h100).how == "mine"
    other = 'f32[8]{0} custom-call(%tiny), custom_call_target="MyKernel"'
    assert price(other, h100).source is PriceSource.BOUND


def test_convolutions_are_priced_by_their_work(build: Build, h100: ComputeDevice) -> None:
    program = build(
        "%image = bf16[64,56,56,256]{3,2,1,0} parameter(9)",
        "%kernel = bf16[3,3,256,256]{3,2,1,0} parameter(10)",
        "ROOT %it = bf16[64,56,56,256]{3,2,1,0} convolution(%image, %kernel), "
        "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    )
    found = program.instruction("it")
    assert found
    price = price_compute(program, found, h100)
    rate = 2 * 64 * 56 * 56 * 256 * 9 * 256 / price.seconds
    assert 300e12 < rate < 800e12


def test_every_instruction_of_a_real_step_has_a_price(
    gpu_step: Program, h100: ComputeDevice
) -> None:
    for computation in launched(gpu_step):
        for it in computation.instructions:
            if not launches(it) or is_done(it) or collective(gpu_step, it):
                continue
            price = price_compute(gpu_step, it, h100)
            assert price.source is not PriceSource.BOUND, it
            assert it.opcode in ("while", "conditional", "call") or price.seconds > 0, it


ODD = """\
bf16[0,64]{1,0} dot(%none, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
c64[64,64]{1,0} dot(%c, %c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
f32[] custom-call(%s), custom_call_target="__cublas$gemm"
bf16[64,64]{1,0} custom-call(%w, %w), custom_call_target="te_gemm_v2_ffi", backend_config="[1,2]"
bf16[64,64]{1,0} custom-call(%w, %w), custom_call_target="__cudnn$convForward"
f32[] custom-call(%s), custom_call_target="te_fused_attn_forward_ffi", backend_config="{head_dim=x}"
bf16[64,64]{1,0} custom-call(), custom_call_target="__cudnn$fmhaSoftmax", backend_config={"a":[}
bf16[2,0,16,128]{3,2,1,0} custom-call(%e, %e, %e), custom_call_target="__cudnn$fmhaSoftmax"
token[] custom-call(%tok), custom_call_target="xla_ffi_python_gpu_callback"
f32[] sort(%s), dimensions={}"""


@pytest.mark.parametrize("line", ODD.splitlines())
def test_odd_instructions_still_get_a_price(line: str, build: Build, h100: ComputeDevice) -> None:
    program = build(
        "%none = bf16[0,128]{1,0} parameter(9)",
        "%w = bf16[128,64]{1,0} parameter(10)",
        "%s = f32[] parameter(11)",
        "%c = c64[64,64]{1,0} parameter(12)",
        "%e = bf16[2,0,16,128]{3,2,1,0} parameter(13)",
        "%tok = token[] parameter(14)",
        f"ROOT %it = {line}",
    )
    found = program.instruction("it")
    assert found
    assert price_compute(program, found, h100).seconds > 0


def test_a_callback_waits_for_the_host_and_moves_nothing(build: Build, h100: ComputeDevice) -> None:
    program = build(
        "%s = f32[] parameter(11)",
        'ROOT %it = f32[] custom-call(%s), custom_call_target="xla_ffi_python_gpu_callback"',
    )
    found = program.instruction("it")
    assert found
    price = price_compute(program, found, h100)
    assert (price.source, price.family) == (PriceSource.BOUND, PriceFamily.CUSTOM)
    assert "waits for Python" in price.how
    assert price.low < 1e-4 < price.seconds < price.high


@pytest.mark.parametrize(
    ("target", "least_ms", "most_ms"),
    [
        ("cusolver_potrf_ffi", 1, 100),
        ("cusolver_geqrf_ffi", 10, 500),
        ("cusolver_syevd_ffi", 100, 5_000),
        ("cusolver_gesvd_ffi", 1_000, 50_000),
    ],
)
def test_a_decomposition_takes_far_longer_than_its_bytes(
    price: PriceLine, h100: ComputeDevice, target: str, least_ms: float, most_ms: float
) -> None:
    line = UNKNOWN.replace("MyKernel", target)
    found = price(line, h100)
    assert found.source is PriceSource.BOUND
    assert least_ms < found.seconds * 1e3 < most_ms
    assert found.low > 2 * price(UNKNOWN, h100).low
    assert found.high > 4 * found.seconds
    assert "8,192 columns" in found.how
