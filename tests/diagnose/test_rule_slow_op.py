"""STEP506: ops that take many times what their bytes and FLOPs need."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from compute_step import made, priced, where

from counterpoint.core.basis import Range
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules.slow_op import check
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}
"""


def fusion(body: str, shape: str, called: str = "") -> str:
    """A fusion of two parameters, a and b, that takes most of a step."""
    return f"""{called}
fused {{
  a = f32[8192,3072]{{1,0}} parameter(0)
  b = s32[8192,1]{{1,0}} parameter(1)
{body}
}}

ENTRY main {{
  a = f32[8192,3072]{{1,0}} parameter(0)
  b = s32[8192,1]{{1,0}} parameter(1)
  ROOT slow = {shape} fusion(a, b), kind=kInput, calls=fused, {where("transpose(jvp(embed))", 7)}
}}
"""


SCATTER = fusion(
    """  zero = f32[] constant(0)
  table = f32[32000,3072]{1,0} broadcast(zero), dimensions={}
  rows = f32[8192,1,3072]{2,1,0} reshape(a)
  ROOT added = f32[32000,3072]{1,0} scatter(table, b, rows), update_window_dims={1,2}, \
inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "f32[32000,3072]{1,0}",
    ADD,
)
SORT = fusion(
    "  ROOT sorted = f32[8192,3072]{1,0} sort(a), dimensions={1}, to_apply=add",
    "f32[8192,3072]{1,0}",
    ADD,
)
EXP = fusion("  ROOT exp = f32[8192,3072]{1,0} exponential(a)", "f32[8192,3072]{1,0}")


@pytest.mark.parametrize(
    ("hlo", "kind", "remedy"),
    [
        (SCATTER, "scatters", "one-hot"),
        (SORT, "sorts", "top_k"),
        (EXP, "other ops", "source line"),
    ],
)
def test_an_op_far_above_its_roofline_is_named_with_its_kind(
    hlo: str, kind: str, remedy: str
) -> None:
    (finding,) = check(made(hlo, {"slow": 49_000}, step=125_000))
    assert finding.code == "STEP506"
    assert finding.title.startswith(kind)
    assert "slow (/home/me/model/mlp.py:7)" in finding.detail
    assert remedy in str(finding.remedy)
    saves = priced(finding)
    assert saves.low == 0
    assert 48 < saves.high < 49


def test_a_low_rate_has_digits() -> None:
    (slow,) = check(made(SORT, {"slow": 4_900_000}, step=5_000_000))
    assert slow.detail.endswith("it reaches 41.1 MB/s")


@pytest.mark.parametrize(
    ("us", "step"),
    [(150, 1_000), (45, 1_000), (49_000, 10_000_000)],
    ids=["near its roofline", "a short kernel", "a small part of the step"],
)
def test_silent(us: int, step: int) -> None:
    assert not list(check(made(SCATTER, {"slow": us}, step=step)))


def test_where_the_chip_is_not_known_other_ops_show_the_rate() -> None:
    others = "".join(
        f"\n  exp{n} = f32[8192,3072]{{1,0}} exponential(a), {where('exp', n)}" for n in range(3)
    )
    hlo = SCATTER.replace("\n  ROOT slow", f"{others}\n  ROOT slow")
    times = {"exp0": 100, "exp1": 100, "exp2": 110, "slow": 49_000}
    (finding,) = check(made(hlo, times, chip=None))
    assert "other ops of this profile" in finding.detail
    (virtual,) = check(made(hlo, times, chip=None, kind="cpu"))
    assert "best other ops of this profile" in virtual.detail


@pytest.mark.parametrize(("line", "ms"), [(7, 2.5), (8, 0.5)], ids=["its line", "another line"])
def test_what_prepares_the_indices_of_a_scatter_is_part_of_it(line: int, ms: float) -> None:
    """`table.at[ids].add`: negative ids count from the end, which takes another pass."""
    hlo = SCATTER.replace(
        "  ROOT slow",
        f"  wrapped = s32[8192,1]{{1,0}} negate(b), {where('embed', line)}\n  ROOT slow",
    ).replace("fusion(a, b)", "fusion(a, wrapped)")
    found = [*check(made(hlo, {"wrapped": 2_000, "slow": 500}, step=3_000))]
    scatter = next(it for it in found if it.title.startswith("scatters"))
    assert scatter.takes_ms == pytest.approx(ms)
    assert ("wrapped, which prepares its indices, take" in scatter.detail) == (line == 7)
    assert len(found) == (1 if line == 7 else 2)


def test_a_kernel_of_unknown_work_is_left_out() -> None:
    hlo = """
ENTRY main {
  a = bf16[8192,3072]{1,0} parameter(0)
  ROOT mine = bf16[8192,3072]{1,0} custom-call(a), custom_call_target="__gpu$xla.gpu.triton"
}
"""
    assert not list(check(made(hlo, {"mine": 49_000})))


def test_where_nothing_can_be_compared_a_large_sort_saves_at_most_what_it_takes() -> None:
    (finding,) = check(made(SORT, {"slow": 49_000}, step=125_000, chip=None))
    assert finding.title == "sorts take 49.00 ms per step, 39% of it"
    assert priced(finding) == Range(0.0, 49.0)
    assert "nothing in this profile" in finding.detail
    assert "top_k" in str(finding.remedy)
    assert not list(check(made(SORT, {"slow": 49_000}, step=1_250_000, chip=None)))
    assert not list(check(made(EXP, {"slow": 49_000}, step=125_000, chip=None)))


def test_a_large_op_with_a_better_form_is_named_near_its_roofline_another_op_is_not() -> None:
    """A sort at a third of the memory's rate: an exponential like that may not be worth a word."""
    (finding,) = check(made(SORT, {"slow": 180}, step=1_000))
    assert finding.title.startswith("sorts take 0.18 ms per step")
    assert not list(check(made(EXP, {"slow": 180}, step=1_000)))
    assert not list(check(made(SORT, {"slow": 62}, step=1_000)))  # at its roofline


def test_virtual_devices_show_only_large_ops_with_a_better_form() -> None:
    assert list(check(made(SORT, {"slow": 49_000}, step=125_000, chip=None, kind="cpu")))
    assert not list(check(made(SORT, {"slow": 5_000}, step=125_000, chip=None, kind="cpu")))
    assert not list(check(made(EXP, {"slow": 49_000}, step=125_000, chip=None, kind="cpu")))


def test_random_bits_are_recognised_by_the_mixing_of_bits() -> None:
    rounds = "".join(
        f"""
  l{n} = u32[8192,3072]{{1,0}} shift-left(v{n}, v{n})
  r{n} = u32[8192,3072]{{1,0}} shift-right-logical(v{n}, v{n})
  v{n + 1} = u32[8192,3072]{{1,0}} xor(l{n}, r{n})"""
        for n in range(4)
    )
    hlo = fusion(
        f"""  v0 = u32[8192,3072]{{1,0}} bitcast-convert(a){rounds}
  ROOT out = f32[8192,3072]{{1,0}} bitcast-convert(v4)""",
        "f32[8192,3072]{1,0}",
    )
    (finding,) = check(made(hlo, {"slow": 49_000}, step=125_000))
    assert finding.title.startswith("generators of random numbers")
    assert "rbg" in str(finding.remedy)


def test_ops_of_one_line_are_compared_by_what_the_profiler_recorded() -> None:
    """As of TPUs without HLO: 30 transposes at 300 GB/s where other ops reach 3,000."""
    slow = {f"copy_bitcast_fusion.{n}": 50 for n in range(30)}
    quick = {f"multiply_fusion.{n}": 20 for n in range(30)}
    case = made(None, {**slow, **quick}, chip=None, kind="tpu")
    moved = pl.when(pl.col("name").str.starts_with("copy")).then(15e6).otherwise(60e6)
    timeline = replace(case.timeline, ops=case.timeline.ops.with_columns(bytes_accessed=moved))
    (finding,) = check(StepData(selection=select(timeline), context=case.context))
    assert finding.title == "transposes far below the memory's rate take 1.50 ms per step"
    assert finding.detail.startswith("30 ops; copy_bitcast_fusion.")
    assert priced(finding).high == pytest.approx(1.5 * (1 - 5 / 50))
    moved = pl.when(pl.col("name").str.starts_with("copy")).then(150e6).otherwise(60e6)
    alike = case.timeline.ops.with_columns(bytes_accessed=moved)
    timeline = replace(case.timeline, ops=alike)
    assert not list(check(StepData(selection=select(timeline), context=case.context)))


@pytest.mark.parametrize(
    ("op", "kind"),
    [("sort.3", "sorts"), ("bitcast_gather_fusion", "gathers"), ("wrapped_scatter", "scatters")],
)
def test_without_hlo_and_bytes_a_large_op_is_named_by_its_name(op: str, kind: str) -> None:
    (finding,) = check(made(None, {op: 600, "loop_fusion": 400}, chip=None, kind="cpu"))
    assert finding.title == f"{kind} take 0.60 ms per step, 60% of it"
    assert priced(finding).high == pytest.approx(0.6)
    assert not list(check(made(None, {op: 50, "loop_fusion": 950}, chip=None, kind="cpu")))


def test_on_a_cpu_an_op_is_compared_with_ops_that_move_as_much() -> None:
    """Small ops run in the caches: a gather at the rate of large ones is no trouble."""
    times = {"wrapped_gather": 400, "add_fusion.1": 300, "mul.2": 100, "mul.3": 100, "mul.4": 100}
    case = made(None, times, chip=None, kind="cpu")
    large = pl.col("name").is_in(["wrapped_gather", "add_fusion.1"])

    def found(moved: float) -> list[Finding]:
        sizes = pl.when(pl.col("name") == "wrapped_gather").then(moved).when(large).then(3e6)
        ops = case.timeline.ops.with_columns(bytes_accessed=sizes.otherwise(9e5))
        quick = pl.col("name").str.starts_with("mul")
        spans = ops.with_row_index("row").filter(quick)["row"].to_list()
        shorter = pl.when(pl.col("op").is_in(spans)).then(10_000_000).otherwise("dur_ps")
        own = case.timeline.spans.with_columns(dur_ps=shorter.cast(pl.Int64))
        timeline = replace(case.timeline, ops=ops, spans=own)
        return list(check(StepData(selection=select(timeline), context=case.context)))

    assert not found(4e6)
    (finding,) = found(4e5)
    assert finding.title.startswith("gathers far below")


def remedy_of(hlo: str, kind: str = "gpu") -> str:
    """What STEP506 advises for an op that takes most of a step."""
    (finding,) = check(made(hlo, {"slow": 49_000}, step=125_000, kind=kind, chip=None))
    return str(finding.remedy)


def sorted_by(operands: str, dimension: int, name: str = "sort") -> str:
    """A sort of f32[8192,3072] that is an op by itself."""
    count = operands.count(",") + 1
    shape = (
        "f32[8192,3072]{1,0}" if count == 1 else f"({', '.join(['f32[8192,3072]{1,0}'] * count)})"
    )
    return f"""{ADD}
ENTRY main {{
  a = f32[8192,3072]{{1,0}} parameter(0)
  b = f32[8192,3072]{{1,0}} parameter(1)
  c = f32[8192,3072]{{1,0}} parameter(2)
  ROOT slow = {shape} sort({operands}), dimensions={{{dimension}}}, to_apply=add, {where(name, 7)}
}}
"""


def test_a_sort_is_not_told_to_do_what_it_does() -> None:
    plain = remedy_of(sorted_by("a", 1))
    assert "top_k" in plain
    assert "last axis" not in plain
    assert "several arrays" not in plain
    assert "approx_max_k" not in plain  # exact on a GPU
    assert "approx_max_k" in remedy_of(sorted_by("a", 1), "tpu")
    assert "last axis" in remedy_of(sorted_by("a", 0))
    assert "several arrays" in remedy_of(sorted_by("a, b, c", 1))


def test_what_takes_the_largest_already_is_told_to_take_fewer() -> None:
    remedy = remedy_of(sorted_by("a", 1, "top_k"))
    assert "take fewer" in remedy
    assert "jax.lax.top_k" not in remedy
    (finding,) = check(made(None, {"sort_top_k.3": 600, "fusion": 400}, chip=None, kind="cpu"))
    assert "take fewer" in str(finding.remedy)


def test_a_shuffle_needs_more_than_the_largest() -> None:
    remedy = remedy_of(sorted_by("a", 1, "jit(_shuffle)/sort"))
    assert "top_k" not in remedy
    assert "randint" in remedy


def test_a_scatter_is_asked_for_promises_that_it_lacks() -> None:
    assert "float32" not in remedy_of(SCATTER)
    assert "unique_indices=True or indices_are_sorted=True" in remedy_of(SCATTER)
    promised = SCATTER.replace(
        "index_vector_dim=1, to", "index_vector_dim=1, indices_are_sorted=true, to"
    )
    remedy = remedy_of(promised)
    assert "indices_are_sorted" not in remedy
    assert "unique_indices" in remedy
    half = SCATTER.replace("f32[32000", "bf16[32000").replace("f32[8192,1", "bf16[8192,1")
    assert "float32" in remedy_of(half.replace("f32[]", "bf16[]"))


def test_a_generator_of_hardware_is_not_told_to_be_one() -> None:
    hlo = fusion(
        """  state = u64[2]{0} constant({1, 2})
  bits = (u64[2]{0}, u32[8192,3072]{1,0}) rng-bit-generator(state), algorithm=rng_default
  ROOT out = u32[8192,3072]{1,0} get-tuple-element(bits), index=1""",
        "u32[8192,3072]{1,0}",
    )
    remedy = remedy_of(hlo)
    assert "rbg" not in remedy
    assert "fewer" in remedy


@pytest.mark.parametrize(("size", "advice"), [("1x16", "associative_scan"), ("2x2", "reshape")])
def test_a_pool_is_no_cumulative_sum(size: str, advice: str) -> None:
    hlo = fusion(
        f"""  zero = f32[] constant(0)
  ROOT out = f32[8192,3072]{{1,0}} reduce-window(a, zero), window={{size={size}}}, to_apply=add""",
        "f32[8192,3072]{1,0}",
        ADD,
    )
    assert advice in remedy_of(hlo)


@pytest.mark.parametrize(("length", "is_told"), [(3072, False), (3079, True)])
def test_a_transform_of_small_primes_is_not_told_to_be_one(length: int, is_told: bool) -> None:
    hlo = f"""
ENTRY main {{
  a = c64[8192,{length}]{{1,0}} parameter(0)
  ROOT slow = c64[8192,{length}]{{1,0}} fft(a), fft_type=FFT, fft_length={{{length}}}
}}
"""
    (finding,) = check(made(hlo, {"slow": 490_000}, step=500_000))
    assert ("small primes" in str(finding.remedy)) == is_told


@pytest.mark.parametrize(("dtype", "is_told"), [("f32", True), ("bf16", False)])
def test_a_convolution_in_bfloat16_is_not_told_to_be_one(dtype: str, is_told: bool) -> None:
    hlo = f"""
ENTRY main {{
  a = {dtype}[16,64,64,32]{{3,2,1,0}} parameter(0)
  w = {dtype}[3,3,32,32]{{3,2,1,0}} parameter(1)
  ROOT slow = {dtype}[16,64,64,32]{{3,2,1,0}} convolution(a, w), window={{size=3x3 pad=1_1x1_1}}, \
dim_labels=b01f_01io->b01f
}}
"""
    (finding,) = check(made(hlo, {"slow": 490_000}, step=500_000))
    assert ("bfloat16" in str(finding.remedy)) == is_told
