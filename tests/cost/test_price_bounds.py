"""No price lies below what any kernel needs: bytes at the memory's rate, operations at the peak.

Bounds are written by hand, as on paper: bytes that must move, multiply-adds of the shapes.
"""

from __future__ import annotations

import pytest

from counterpoint.cost.build import build_model
from counterpoint.cost.compute.machine import ComputeDevice, machine_of
from counterpoint.cost.compute.pricing import price_compute
from counterpoint.cost.model import Price, PriceSource
from counterpoint.cost.scalars import default_scalars
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.text_reader import program_from_text

GB = 1e9
ADD = """\
%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %sum = f32[] add(%l, %r)
}
%add_bf16 (l: bf16[], r: bf16[]) -> bf16[] {
  %l = bf16[] parameter(0)
  %r = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%l, %r)
}
%put (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  ROOT %r = f32[] parameter(1)
}
%less (l: f32[], r: f32[]) -> pred[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %is_less = pred[] compare(%l, %r), direction=LT
}
%less_pair (l: f32[], r: f32[], i: s32[], j: s32[]) -> pred[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  %i = s32[] parameter(2)
  %j = s32[] parameter(3)
  ROOT %is_less = pred[] compare(%l, %r), direction=LT
}
%less_both (l: f32[], r: f32[], i: f32[], j: f32[]) -> pred[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  %i = f32[] parameter(2)
  %j = f32[] parameter(3)
  %first = pred[] compare(%l, %r), direction=LT
  %second = pred[] compare(%i, %j), direction=LT
  ROOT %either = pred[] or(%first, %second)
}
"""
WINDOW = "window={size=1x31x31x1 pad=0_0x15_15x15_15x0_0}"
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}"
TAKE = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}"


def program_of(line: str, *parameters: str, before: str = "") -> Program:
    """A module with one line, `%it = LINE`, of parameters %p0, %p1, ..."""
    given = "\n".join(f"  %p{at} = {shape} parameter({at})" for at, shape in enumerate(parameters))
    return program_from_text(
        f"HloModule test, is_scheduled=true\n\n{ADD}{before}\nENTRY %main (p: f32[]) -> f32[] {{\n"
        f"{given}\n  ROOT %it = {line}\n}}\n"
    )


def priced(program: Program, target: str = "1xH100") -> Price:
    it = program.instruction("it")
    assert it is not None
    where = parse_target(target, tpus=not target[0].isdigit())
    return build_model(where).price(program, it)


def formula(program: Program, target: str = "1xH100") -> Price:
    """The price before it is compared with the least time."""
    it = program.instruction("it")
    assert it is not None
    return price_compute(program, it, device(target))


def device(target: str) -> ComputeDevice:
    where = parse_target(target)
    return machine_of(where, default_scalars(where.gpu))


N = 1 << 26
CASES = {
    "elementwise": (program_of(f"f32[{N}] exponential(%p0)", f"f32[{N}]"), 8 * N, 0, ""),
    "copy": (program_of(f"f32[{N}]{{0}} copy(%p0)", f"f32[{N}]{{0}}"), 8 * N, 0, ""),
    "reduce": (
        program_of("f32[] reduce(%p0, %p1), dimensions={0}, to_apply=%add", f"f32[{N}]", "f32[]"),
        4 * N, 0, "",
    ),
    "reduce_window": (
        program_of(
            f"f32[16,512,512,8] reduce-window(%p0, %p1), {WINDOW}, to_apply=%add",
            "f32[16,512,512,8]", "f32[]",
        ),
        2 * 16 * 512 * 512 * 8 * 4, 16 * 512 * 512 * 8 * 961, "f32",
    ),
    "dot": (
        program_of(
            "bf16[8192,8192] dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "bf16[8192,8192]", "bf16[8192,8192]",
        ),
        3 * 2 * 8192**2, 2 * 8192**3, "bf16",
    ),
    "complex_dot": (
        program_of(
            "c64[4096,4096] dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "c64[4096,4096]", "c64[4096,4096]",
        ),
        3 * 8 * 4096**2, 8 * 4096**3, "tf32",
    ),
    "complex_double_dot": (
        program_of(
            "c128[2048,2048] dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "c128[2048,2048]", "c128[2048,2048]",
        ),
        3 * 16 * 2048**2, 8 * 2048**3, "f64",
    ),
    "convolution": (
        program_of(
            "bf16[64,56,56,256] convolution(%p0, %p1), window={size=3x3 pad=1_1x1_1},"
            " dim_labels=b01f_01io->b01f",
            "bf16[64,56,56,256]", "bf16[3,3,256,256]",
        ),
        2 * 2 * 64 * 56 * 56 * 256, 2 * 64 * 54 * 54 * 9 * 256**2, "bf16",
    ),
    "triangular": (
        program_of(
            '(f32[8192,8192], s8[64]) custom-call(%p0, %p1), custom_call_target='
            '"__cublas$triangularSolve"',
            "f32[8192,8192]", "f32[8192,8192]",
        ),
        3 * 4 * 8192**2, 8192**3, "f32",
    ),
    "cholesky": (
        program_of(
            '(f32[8192,8192], s32[]) custom-call(%p0), custom_call_target="cusolver_potrf_ffi"',
            "f32[8192,8192]",
        ),
        2 * 4 * 8192**2, 0, "",
    ),
    "eigh_many": (
        program_of(
            '(f32[65536,32,32], f32[65536,32], s32[65536]) custom-call(%p0), custom_call_target='
            '"cusolver_syevd_ffi"',
            "f32[65536,32,32]",
        ),
        2 * 4 * 65536 * 32**2, 0, "",
    ),
    "fft": (
        program_of(
            "c64[16384,4096] fft(%p0), fft_type=FFT, fft_length={4096}", "c64[16384,4096]"
        ),
        2 * 8 * 16384 * 4096, 5 * 16384 * 4096 * 12, "f32",
    ),
    "sort": (program_of(f"f32[{N}] sort(%p0), dimensions={{0}}, to_apply=%less", f"f32[{N}]"),
             8 * N, 0, ""),
    "sort_rows": (
        program_of("f32[8192,4096] sort(%p0), dimensions={1}, to_apply=%less", "f32[8192,4096]"),
        2 * 4 * 8192 * 4096, 0, "",
    ),
    "gather_rows": (
        program_of(
            f"f32[262144,768] gather(%p0, %p1), {TAKE}, index_vector_dim=1, slice_sizes={{1,768}}",
            "f32[500000,768]", "s32[262144,1]",
        ),
        2 * 4 * 262144 * 768, 0, "",
    ),
    "gather_elements": (
        program_of(
            f"f32[{N},1] gather(%p0, %p1), {TAKE}, index_vector_dim=1, slice_sizes={{1,1}}",
            f"f32[{N},1]", f"s32[{N},1]",
        ),
        4 * N * 2, 0, "",
    ),
    "scatter_rows": (
        program_of(
            f"f32[50304,768] scatter(%p0, %p1, %p2), {ROWS}, index_vector_dim=1, to_apply=%add",
            "f32[50304,768]", "s32[131072,1]", "f32[131072,768]",
        ),
        4 * 131072 * 768, 0, "",
    ),
    "update_slice": (
        program_of(
            "f32[32768,4096] dynamic-update-slice(%p0, %p1, %p2, %p2)",
            "f32[32768,4096]", "f32[8192,4096]", "s32[]",
        ),
        2 * 4 * 8192 * 4096, 0, "",
    ),
    "random": (
        program_of(f"(u64[2], u32[{N}]) rng-bit-generator(%p0), algorithm=rng_default", "u64[2]"),
        4 * N, 0, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["1xH100", "1xB200", "1xA100", "1xL40S"])
@pytest.mark.parametrize("name", CASES)
def test_no_price_is_below_what_the_work_needs(name: str, target: str) -> None:
    program, moved, operations, dtype = CASES[name]
    machine = device(target)
    least = max((moved - machine.l2_bytes) / machine.memory_bytes_per_s, 0.0)
    if operations:
        least = max(least, operations / machine.peak(dtype))
    for price in (formula(program, target), priced(program, target)):
        assert price.seconds >= least
    found = priced(program, target)
    assert least * 0.999 <= found.low <= found.seconds <= found.high


def test_what_a_formula_says_below_the_peak_is_raised_to_it() -> None:
    program, _, operations, dtype = CASES["dot"]
    least = operations / device("1xH100").peak(dtype)
    assert priced(program).at_least(9.0).low == 9.0
    assert priced(program).at_least(0.0) == priced(program)
    assert priced(program).low >= least


TPU_CASES = {
    "gather_rows": (CASES["gather_rows"][0], 2 * 4 * 262144 * 768),
    "scatter_rows": (CASES["scatter_rows"][0], 4 * 131072 * 768),
    "reduce_window": (CASES["reduce_window"][0], 2 * 16 * 512 * 512 * 8 * 4),
    "sort_rows": (CASES["sort_rows"][0], 2 * 4 * 8192 * 4096),
    "elementwise": (CASES["elementwise"][0], 8 * N),
    "impossible_estimate": (
        program_of(
            f'f32[{N}] exponential(%p0), backend_config={{"estimated_cycles":"7"}}', f"f32[{N}]"
        ),
        8 * N,
    ),
    "gather_in_a_reduction": (
        program_of(
            "f32[768] fusion(%p0, %p1, %p2), kind=kLoop, calls=%summed",
            "f32[500000,768]", "s32[262144,1]", "f32[]",
            before=f"""\
%summed (t: f32[500000,768], i: s32[262144,1], z: f32[]) -> f32[768] {{
  %t = f32[500000,768] parameter(0)
  %i = s32[262144,1] parameter(1)
  %z = f32[] parameter(2)
  %g = f32[262144,768] gather(%t, %i), {TAKE}, index_vector_dim=1, slice_sizes={{1,768}}
  %w = f32[262144,768] reduce-window(%g, %z), window={{size=1x8 pad=0_0x7_0}}, to_apply=%add
  ROOT %r = f32[768] reduce(%w, %z), dimensions={{0}}, to_apply=%add
}}
""",
        ),
        4 * 262144 * 768,
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["v5e-1", "v6e-1", "tpu7x-2"])
@pytest.mark.parametrize("name", TPU_CASES)
def test_no_price_on_a_tpu_is_below_its_bytes(name: str, target: str) -> None:
    program, moved = TPU_CASES[name]
    least = moved / parse_target(target, tpus=True).chip.hbm_bytes
    found = priced(program, target)
    assert least * 0.999 <= found.low <= found.seconds <= found.high


def test_what_lies_on_a_tpus_chip_is_no_traffic() -> None:
    """A slice of a large array in HBM that goes to VMEM is read once, and written nowhere."""
    program = program_of(
        'f32[1,8192,8192]{2,1,0:S(1)} dynamic-slice(%p0, %p1, %p1, %p1),'
        ' dynamic_slice_sizes={1,8192,8192}, backend_config={"estimated_cycles":"500000"}',
        "f32[32,8192,8192]{2,1,0}", "s32[]",
    )  # fmt: skip
    found = priced(program, "v5e-1")
    assert found.seconds == pytest.approx(max(500_000 / 1.5e9, 4 * 8192**2 / 0.819e12), rel=0.02)


def scatter(dtype: str, target: str, more: str = "", combine: str = "add") -> Price:
    """10.5 million updates in 16,384 rows, as in MaxText's step on four H100."""
    adds = combine if dtype == "f32" else f"{combine}_{dtype}"
    line = f"{dtype}[32000,640] scatter(%p0, %p1, %p2), {ROWS}, index_vector_dim=1{more}"
    program = program_of(
        f"{line}, to_apply=%{adds}", f"{dtype}[32000,640]", "s32[16384,1]", f"{dtype}[16384,640]"
    )
    return priced(program, target)


def test_the_indices_of_a_scatter_decide_and_its_range_says_so() -> None:
    """Measured on H100, of tokens that are all alike: 22 to 68 ms (NVIDIA/JAX-Toolbox)."""
    found = scatter("bf16", "1xH100")
    assert found.source is PriceSource.BOUND
    assert found.low < 0.1e-3
    assert 68e-3 < found.high < 0.2
    assert "if all meet" in found.how


def test_additions_in_hardware_hardly_wait_for_each_other() -> None:
    assert scatter("f32", "1xH100").high < 2e-3
    assert scatter("f32", "1xH100").source is PriceSource.ANALYTIC
    swapped = scatter("bf16", "1xA100")  # which has no such adders for this type
    assert swapped.high > 100 * scatter("f32", "1xA100").high


@pytest.mark.parametrize("promise", ["unique_indices=true", "indices_are_sorted=true"])
def test_a_promise_about_the_indices_narrows_the_range(promise: str) -> None:
    free, bound = scatter("bf16", "1xH100", f", {promise}"), scatter("bf16", "1xH100")
    assert free.high < bound.high / 20


def test_an_assignment_waits_for_nobody() -> None:
    assert scatter("f32", "1xA100", combine="put").high < 1e-3


def test_many_updates_of_few_places_queue() -> None:
    """10 million float32 in 100 places took 0.96 ms on GH200 (openxla/xla issue 26371)."""
    line = f"f32[100,1] scatter(%p0, %p1, %p2), {ROWS}, index_vector_dim=1, to_apply=%add"
    few = program_of(line, "f32[100,1]", "s32[10000000,1]", "f32[10000000,1]")
    found = priced(few)
    assert 0.5e-3 < found.seconds < 2e-3
    assert found.low < 0.96e-3 < found.high


FUSED_SCATTER = """\
%fused (t: f32[8192,50304], i: s32[8192,2], u: f32[8192,1,1]) -> f32[8192,50304] {
  %t = f32[8192,50304] parameter(0)
  %i = s32[8192,2] parameter(1)
  %u = f32[8192,1,1] parameter(2)
  ROOT %s = f32[8192,50304] scatter(%t, %i, %u), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=%add
}
"""
FUSED_GATHER = """\
%fused (t: bf16[8192,50304], m: f32[8192], i: s32[8192,2]) -> f32[8192,1,1] {
  %t = bf16[8192,50304] parameter(0)
  %m = f32[8192] parameter(1)
  %i = s32[8192,2] parameter(2)
  %wide = f32[8192,50304] convert(%t)
  %most = f32[8192,50304] broadcast(%m), dimensions={0}
  %less = f32[8192,50304] subtract(%wide, %most)
  ROOT %g = f32[8192,1,1] gather(%less, %i), offset_dims={1,2}, collapsed_slice_dims={},
    start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
}
"""


def test_a_fused_scatter_changes_its_array_in_place() -> None:
    """The gradient of a loss with integer labels: 8,192 updates of an array of 1.6 GB."""
    program = program_of(
        "f32[8192,50304] fusion(%p0, %p1, %p2), kind=kInput, calls=%fused",
        "f32[8192,50304]", "s32[8192,2]", "f32[8192,1,1]", before=FUSED_SCATTER,
    )  # fmt: skip
    assert priced(program).seconds < 20e-6


def test_a_fused_gather_computes_only_what_it_reads() -> None:
    program = program_of(
        "f32[8192,1,1] fusion(%p0, %p1, %p2), kind=kLoop, calls=%fused",
        "bf16[8192,50304]", "f32[8192]", "s32[8192,2]", before=FUSED_GATHER,
    )  # fmt: skip
    assert priced(program).seconds < 20e-6


def test_random_elements_move_whole_transactions() -> None:
    """64 million elements of 4 bytes anywhere in 268 MB: 64 bytes each, not 4."""
    found = priced(CASES["gather_elements"][0])
    assert found.seconds > N * 32 / 3.35e12
    assert found.low < found.seconds / 2  # neighbors, if the indices are counted up


def test_rows_outside_the_cache_are_read_again() -> None:
    """8 million rows of 512 bytes out of 268 MB are 4.3 GB, not 0.27."""
    program = program_of(
        f"f32[8000000,128] gather(%p0, %p1), {TAKE}, index_vector_dim=1, slice_sizes={{1,128}}",
        "f32[524288,128]", "s32[8000000,1]",
    )  # fmt: skip
    assert priced(program).seconds > (8e6 * 512 * 1.8) / 3.35e12


@pytest.mark.parametrize(
    ("line", "shapes", "cub"),
    [
        ("f32[1048576] sort(%p0), dimensions={0}, to_apply=%less", ("f32[1048576]",), True),
        ("f32[16384] sort(%p0), dimensions={0}, to_apply=%less", ("f32[16384]",), False),
        ("f32[128,16384] sort(%p0), dimensions={1}, to_apply=%less", ("f32[128,16384]",), True),
        ("f32[8192,4096] sort(%p0), dimensions={1}, to_apply=%less", ("f32[8192,4096]",), False),
        ("f32[1048576,2] sort(%p0), dimensions={0}, to_apply=%less", ("f32[1048576,2]",), False),
        (
            "(f32[1048576], s32[1048576]) sort(%p0, %p1), dimensions={0}, to_apply=%less_pair",
            ("f32[1048576]", "s32[1048576]"),
            True,
        ),
        (
            "(f32[1048576], f32[1048576]) sort(%p0, %p1), dimensions={0}, to_apply=%less_both",
            ("f32[1048576]", "f32[1048576]"),
            False,
        ),
    ],
)
def test_a_sort_is_priced_as_the_kernel_that_a_gpu_runs(
    line: str, shapes: tuple[str, ...], cub: bool
) -> None:
    """As jaxlib 0.10.2 chose for H100, with xla_gpu_deviceless_cub_mode=..._NO_FALLBACK."""
    assert ("cub" in priced(program_of(line, *shapes)).how) is cub


def test_cubs_sort_in_a_dump_of_a_gpu_is_a_sort() -> None:
    here = priced(program_of(f"s32[{N}] sort(%p0), dimensions={{0}}, to_apply=%less", f"s32[{N}]"))
    for target in ("xla.gpu.ext.cub_sort_keys", "__cub$DeviceRadixSort"):
        there = priced(
            program_of(
                f'(s32[{N}], u8[1024]) custom-call(%p0), custom_call_target="{target}"', f"s32[{N}]"
            )
        )
        assert there.seconds == pytest.approx(here.seconds, rel=0.05)
        assert there.seconds > 4 * 8 * N / 3.35e12  # four passes


@pytest.mark.parametrize(
    ("lengths", "shape", "passes"),
    [("4096", "16384,4096", 1), ("67108864", "67108864", 2), ("2048,2048", "16,2048,2048", 2),
     ("268435456", "268435456", 3), ("4099", "16384,4099", 6)],
)  # fmt: skip
def test_a_transform_takes_passes_by_its_length(lengths: str, shape: str, passes: int) -> None:
    program = program_of(
        f"c64[{shape}] fft(%p0), fft_type=FFT, fft_length={{{lengths}}}", f"c64[{shape}]"
    )
    found = priced(program)
    assert f"in {passes} passes" in found.how
    assert found.high < 4 * found.low


def test_many_small_matrices_share_the_chip() -> None:
    found = priced(CASES["eigh_many"][0])
    assert found.high < 20 * found.low
    large = priced(
        program_of(
            "(f32[8,4096,4096], f32[8,4096], s32[8]) custom-call(%p0), custom_call_target="
            '"cusolver_syevd_ffi"',
            "f32[8,4096,4096]",
        )
    )
    assert "one after another" in large.how


@pytest.mark.parametrize(
    "line",
    [
        "f32[8] scatter(), to_apply=%add",
        "f32[8] scatter(%p0), to_apply=%add",
        "f32[8] scatter(%p0, %p0), update_window_dims={7}, to_apply=%add",
        "f32[] gather(%p0, %p0), offset_dims={}",
        "f32[0] gather(%p0, %p0), offset_dims={3}, collapsed_slice_dims={9}",
        "f32[8] reduce-window(%p0, %p0), window={size=99999999999999999999999}, to_apply=%add",
        "f32[8] reduce-window(%p0, %p0), window={size=0}, to_apply=%add",
        "f32[8] sort(%p0), dimensions={5}, to_apply=%less",
        "f32[8] sort(), dimensions={}, to_apply=%less",
        "c64[8] fft(%p0), fft_type=FFT, fft_length={99999999999999999999999999}",
        "c64[8] fft(%p0), fft_type=FFT, fft_length={0}",
        "f32[8] select-and-scatter(%p0), select=%less, scatter=%add",
    ],
)
@pytest.mark.parametrize("target", ["1xH100", "v5e-1"])
def test_odd_lines_still_get_a_price(line: str, target: str) -> None:
    found = priced(program_of(line, "f32[8]"), target)
    assert 0 <= found.low <= found.seconds <= found.high
