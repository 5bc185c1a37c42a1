"""Categories, operation counts and memory traffic."""

# ruff: noqa: ISC004 (HLO has long lines)

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from counterpoint.hlo.category import Category, category
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.work import bytes_accessed, flops

Build = Callable[..., Program]


def one(program: Program, name: str = "it") -> Instruction:
    found = program.instruction(name)
    assert found
    return found


@pytest.mark.parametrize(
    ("image", "window", "result", "operations"),
    [  # as XLA's own cost analysis counts them
        ("f32[1,8,8,4]", "size=3x3 pad=1_1x1_1", "f32[1,8,8,6]", 23232),
        ("f32[2,9,7,4]", "size=3x2 stride=2x1 pad=1_2x0_1", "f32[2,5,7,6]", 16224),
        ("f32[1,8,8,4]", "size=3x3 pad=2_2x1_1 lhs_dilate=2x3", "f32[1,17,22,6]", 25344),
        (
            "f32[1,6,5,4]",
            "size=3x3 stride=2x3 pad=4_3x2_2 lhs_dilate=3x2 rhs_dilate=1x2",
            "f32[1,11,3,6]",
            2160,
        ),
        # A batch of products as libtpu writes it: each output of the window meets one input.
        (
            "f32[1,262144,1,4]",
            "size=262144x1 stride=262143x1 pad=0_0x0_0 lhs_dilate=262144x1",
            "f32[1,262144,1,6]",
            2 * 262144 * 4 * 6,
        ),
    ],
)
def test_a_kernels_taps_on_padding_are_no_arithmetic(
    module: Build, image: str, window: str, result: str, operations: int
) -> None:
    taps = window.removeprefix("size=").split()[0].replace("x", ",")
    program = module(
        f"  %a = {image} parameter(0)\n  %k = f32[{taps},4,6] parameter(1)\n"
        f"  ROOT %it = {result} convolution(%a, %k), window={{{window}}}, "
        "dim_labels=b01f_01io->b01f"
    )
    assert flops(program, one(program)) == operations


@pytest.mark.parametrize(
    ("line", "kind", "operations", "traffic"),
    [
        ("f32[4,16] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "matmul",
         2 * 4 * 8 * 16, 4 * (32 + 128 + 64)),
        ("f32[4,8] tanh(%a)", "elementwise", 32, 256),
        ("f32[8,4] transpose(%a), dimensions={1,0}", "copy", 0, 256),
        ("f32[4] reduce(%a, %zero), dimensions={1}, to_apply=%add", "reduction", 33, 4 * (33 + 4)),
        ("f32[1,8] dynamic-slice(%a, %i, %i), dynamic_slice_sizes={1,8}", "copy", 0, 64),
        ("f32[4,8] dynamic-update-slice(%a, %row, %i, %i)", "copy", 0, 2 * (32 + 8)),
        ("(f32[4,8], f32[4,8], u32[]) copy-start(%a)", "copy", 0, 256),
        ("f32[4,8]{1,0:S(5)} copy(%a)", "host", 0, 256),
        ("f32[4,8] sort(%a), dimensions={1}, to_apply=%add", "sort", None, 256),
        ("u32[8] rng-bit-generator(%i), algorithm=rng_default", "rng", 8, 36),
        ("((f32[4,8]), token[]) infeed(%t)", "host", 0, 128),
        ("f32[1,4,4,6] convolution(%image, %kernel), window={size=3x3 pad=1_1x1_1}, "
         "dim_labels=b01f_01io->b01f", "convolution", 2 * 6 * 3 * 10**2, 4 * (48 + 162 + 96)),
        ("f32[4,16] convolution(%a, %b), dim_labels=bf_io->bf", "matmul", 2 * 4 * 8 * 16,
         4 * (32 + 128 + 64)),
        ('(f32[4,16], s8[4096]) custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", '
         'backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
         '{"lhs_contracting_dimensions":["1"]}}}', "matmul", 1024, 4 * (32 + 128 + 64)),
        ('f32[4,16] custom-call(%a, %b), custom_call_target="__cudnn$fmhaSoftmax"', "attention",
         None, 4 * (32 + 128 + 64)),
        ('f32[4,16] custom-call(%a), custom_call_target="tpu_custom_call", '
         'metadata={op_name="jit(f)/flash_attention/pallas_call"}', "attention", None,
         4 * (32 + 64)),
        ('f32[4,8] custom-call(%a), custom_call_target="MyKernel"', "custom-call", None, 256),
        ('f32[4,8] custom-call(%a), custom_call_target="xla_ffi_python_cpu_callback"', "host",
         None, 256),
        ("f32[4,8] call(%a), to_apply=%identity", "control", None, None),
        ("f32[4,8] fusion(%a), kind=kLoop, calls=%identity", "copy", 0, 256),
        ("f32[2,8] gather(%a, %i), offset_dims={1}", "scatter/gather", 0, 128),
        ("f32[4,8] scatter(%a, %i, %row), update_window_dims={0,1}, to_apply=%add",
         "scatter/gather", 8, 4 + 3 * 32),
        ("f32[4,8] scatter(%a, %i, %row), update_window_dims={0,1}, to_apply=%second",
         "scatter/gather", 8, 4 + 2 * 32),
        ("c64[4,16] dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "matmul",
         8 * 4 * 8 * 16, 4 * (32 + 128) + 8 * 64),
        ('(f32[4,8], s8[64]) custom-call(%a, %b), custom_call_target="__cublas$triangularSolve"',
         "custom-call", None, 4 * (32 + 128 + 32)),
        ('(f32[4,8], u8[64]) custom-call(%a), custom_call_target="xla.gpu.ext.cub_sort_keys"',
         "sort", None, 4 * (32 + 32) + 64),
    ],
)  # fmt: skip
def test_what_one_instruction_is_and_costs(
    module: Build, line: str, kind: str, operations: int | None, traffic: int | None
) -> None:
    program = module(
        "  %a = f32[4,8] parameter(0)\n  %b = f32[8,16] parameter(1)\n"
        "  %row = f32[1,8] parameter(2)\n  %image = f32[1,4,4,3] parameter(3)\n"
        "  %kernel = f32[3,3,3,6] parameter(4)\n  %i = s32[] constant(0)\n"
        f"  %zero = f32[] constant(0)\n  %t = token[] after-all()\n  ROOT %it = {line}",
        before="""
%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}
%second (u: f32[], v: f32[]) -> f32[] {
  %u = f32[] parameter(0)
  ROOT %v = f32[] parameter(1)
}
%identity (q: f32[4,8]) -> f32[4,8] {
  %q = f32[4,8] parameter(0)
  ROOT %c = f32[4,8] copy(%q)
}
""",
    )
    it = one(program)
    if "dynamic" in line:
        # The two offsets are read as well, as operands.
        traffic = bytes_accessed(program, it)
    assert category(program, it) == kind
    assert flops(program, it) == operations
    assert bytes_accessed(program, it) == traffic


def test_a_fusion_reads_and_writes_only_the_slices_it_touches(module: Build) -> None:
    program = module(
        """
  %stack = f32[100,64] parameter(0)
  %i = s32[] parameter(1)
  ROOT %it = f32[100,64] fusion(%stack, %i), kind=kLoop, calls=%touch
""",
        before="""
%touch (s: f32[100,64], k: s32[]) -> f32[100,64] {
  %s = f32[100,64] parameter(0)
  %k = s32[] parameter(1)
  %z = s32[] constant(0)
  %row = f32[1,64] dynamic-slice(%s, %k, %z), dynamic_slice_sizes={1,64}
  %twice = f32[1,64] add(%row, %row)
  ROOT %put = f32[100,64] dynamic-update-slice(%s, %twice, %k, %z)
}
""",
    )
    # One row read, one written, and the index.
    assert bytes_accessed(program, one(program)) == 256 + 256 + 4
    assert flops(program, one(program)) == 64


def test_a_fusion_in_a_fusion_reads_only_its_slices_too(module: Build) -> None:
    """On TPUs, what is computed before a product is a fusion within its fusion."""
    program = module(
        """
  %stack = f32[100,64] parameter(0)
  %i = s32[] parameter(1)
  ROOT %it = f32[1,64] fusion(%stack, %i), kind=kOutput, calls=%outer
""",
        before="""
%inner (k: s32[], s: f32[100,64]) -> f32[1,64] {
  %k = s32[] parameter(0)
  %s = f32[100,64] parameter(1)
  %z = s32[] constant(0)
  ROOT %row = f32[1,64] dynamic-slice(%s, %k, %z), dynamic_slice_sizes={1,64}
}

%outer (t: f32[100,64], j: s32[]) -> f32[1,64] {
  %t = f32[100,64] parameter(0)
  %j = s32[] parameter(1)
  %read = f32[1,64] fusion(%j, %t), kind=kLoop, calls=%inner
  ROOT %twice = f32[1,64] add(%read, %read)
}
""",
    )
    # One row read, one written, and the index.
    assert bytes_accessed(program, one(program)) == 256 + 256 + 4


def test_a_library_call_in_a_fusion_does_not_write_its_workspace(module: Build) -> None:
    """From 0.11.1 on, XLA fuses a GEMM with the slice that it reads, by default."""
    program = module(
        """
  %a = f32[4,8] parameter(0)
  %stack = f32[3,8,16] parameter(1)
  ROOT %it = (f32[4,16], s8[4096]) fusion(%a, %stack), kind=kCustom, calls=%gemm
""",
        before="""
%gemm (x: f32[4,8], y: f32[3,8,16]) -> (f32[4,16], s8[4096]) {
  %x = f32[4,8] parameter(0)
  %y = f32[3,8,16] parameter(1)
  %layer = f32[1,8,16] slice(%y), slice={[1:2],[0:8],[0:16]}
  %plain = f32[8,16] bitcast(%layer)
  ROOT %o = (f32[4,16], s8[4096]) custom-call(%x, %plain), custom_call_target="__cublas$lt$matmul"
}
""",
    )
    assert bytes_accessed(program, one(program)) == 4 * (4 * 8 + 8 * 16 + 4 * 16)


def test_an_asynchronous_fusion_touches_no_more_than_one_that_is_not(module: Build) -> None:
    program = module(
        """
  %stack = f32[100,64] parameter(0)
  %i = s32[] parameter(1)
  %start = ((f32[100,64], s32[]), f32[100,64], u32[]) async-start(%stack, %i), calls=%later
  ROOT %done = f32[100,64] async-done(%start)
""",
        before="""
%touch (s: f32[100,64], k: s32[]) -> f32[100,64] {
  %s = f32[100,64] parameter(0)
  %k = s32[] parameter(1)
  %z = s32[] constant(0)
  %row = f32[1,64] dynamic-slice(%s, %k, %z), dynamic_slice_sizes={1,64}
  ROOT %put = f32[100,64] dynamic-update-slice(%s, %row, %k, %z)
}

%later (a: f32[100,64], b: s32[]) -> f32[100,64] {
  %a = f32[100,64] parameter(0)
  %b = s32[] parameter(1)
  ROOT %inner = f32[100,64] fusion(%a, %b), kind=kLoop, calls=%touch
}
""",
    )
    start = program.instruction("start")
    assert start is not None
    assert bytes_accessed(program, start) == 256 + 256 + 4


def test_a_fusion_with_a_dot_is_a_matmul(module: Build) -> None:
    program = module(
        """
  %p = bf16[8,8] parameter(0)
  ROOT %it = f32[8,8] fusion(%p), kind=kCustom, calls=%gemm
""",
        before="""
%gemm (g: bf16[8,8]) -> f32[8,8] {
  %g = bf16[8,8] parameter(0)
  %d = f32[8,8] dot(%g, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %t = f32[8,8] tanh(%d)
}
""",
    )
    assert category(program, one(program)) is Category.MATMUL
    assert flops(program, one(program)) == 2 * 8**3 + 64


def test_matmuls_of_the_step_add_up(gpu_step: Program) -> None:
    total = 0
    for computation in launched(gpu_step):
        times = loop_multiplier(gpu_step, computation.name)
        for it in computation.instructions:
            if launches(it) and category(gpu_step, it) is Category.MATMUL:
                total += (flops(gpu_step, it) or 0) * (times or 0)
    # Per device: 4 layers, 2 weights of 1024 x 4096 over tp=2, 4096 tokens over fsdp=4; forward,
    # two backward, and one of the two recomputed.
    assert total == 4 * 2 * (1024 * 4096 // 2) * (4096 // 4) * (2 + 4 + 1)


def test_the_zoo_has_every_kind(load: Callable[[str], Program]) -> None:
    program = load("gpu_zoo.hlo.pb.xz")
    kinds = Counter(
        category(program, it)
        for computation in launched(program)
        for it in computation.instructions
        if launches(it)
    )
    assert set(kinds) >= {
        Category.MATMUL, Category.CONVOLUTION, Category.COLLECTIVE, Category.COPY, Category.SORT,
        Category.REDUCTION, Category.ELEMENTWISE, Category.SCATTER_GATHER, Category.CONTROL,
    }  # fmt: skip


def test_a_done_costs_nothing_and_is_what_it_waits_for(gpu_step: Program) -> None:
    done = one(gpu_step, "all-gather-done")
    assert category(gpu_step, done) is Category.COLLECTIVE
    assert flops(gpu_step, done) == bytes_accessed(gpu_step, done) == 0
