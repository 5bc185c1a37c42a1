"""What GEMMs cost: XLA's table where it has rows, the formula elsewhere."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from counterpoint.cost.compute.gemm import Gemm
from counterpoint.cost.compute.gemm_price import price_gemm, rates
from counterpoint.cost.compute.machine import ComputeDevice, machine_of
from counterpoint.cost.compute.pricing import price_compute
from counterpoint.cost.model import PriceFamily, PriceSource
from counterpoint.hardware.targets import parse_target
from extract_gemm_rates import GEMM_FILES, lines, read_rates
from prices import Build, PriceLine, known_scalars

DOT = "bf16[4096,4096]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CUBLAS = (
    "(bf16[4096,4096]{1,0}, s8[1024]{0}) custom-call(%a, %b), "
    'custom_call_target="__cublas$lt$matmul",'
    ' backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]},'
    '"precision_config":{"operand_precision":["DEFAULT","DEFAULT"],"algorithm":"ALG_UNSET"}}}'
)
FUSED = """\
%inner (p0: bf16[4096,4096], p1: bf16[4096,4096]) -> bf16[4096,4096] {
  %p0 = bf16[4096,4096]{1,0} parameter(0)
  %p1 = bf16[4096,4096]{1,0} parameter(1)
  ROOT %d = bf16[4096,4096]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def on(chip: str, matmul: float = 1.0) -> ComputeDevice:
    return machine_of(parse_target(f"8x{chip}"), known_scalars(matmul=matmul))


def rate(gemm: Gemm, machine: ComputeDevice) -> float:
    return gemm.flops / price_gemm(gemm, machine).seconds


def test_every_point_of_the_table_comes_back(shared: Path) -> None:
    with (shared / "data/hardware/xla_matmul_table.csv").open() as file:
        wanted = [row for row in csv.DictReader(file) if row["dtypes"] == "bf16xbf16->bf16"]
    assert len(wanted) == 750
    machines = {"sm_90": on("H100"), "sm_100_B200": on("B200")}
    for row in wanted:
        gemm = Gemm(int(row["b"]), int(row["m"]), int(row["n"]), int(row["k"]), "bf16")
        found = rate(gemm, machines[row["device"]])
        # We ship three digits; a data sheet's memory rate is not XLA's.
        assert found == pytest.approx(float(row["flops"]), rel=0.04), row


def test_what_we_ship_is_what_xla_has(shared: Path) -> None:
    with (shared / "data/hardware/xla_matmul_table.csv").open() as file:
        for row in csv.DictReader(file):
            kind = {"bf16xbf16->bf16": "bf16", "f32xf32->f32": "f32"}.get(row["dtypes"])
            if kind:
                table = GEMM_FILES[row["device"]]
                point = tuple(int(row[it]) for it in ("b", "m", "n", "k"))
                ours = rates(table)[kind][point]  # pyright: ignore[reportArgumentType]
                assert ours == pytest.approx(float(row["flops"]), rel=0.006)


def test_rates_above_the_chips_peak_are_not_taken_over() -> None:
    assert "f8" not in rates(GEMM_FILES["sm_90"])
    gemm = Gemm(1, 4096, 4096, 4096, "f8")
    assert 1000e12 < rate(gemm, on("H100")) < 1500e12


def test_the_table_is_read_out_of_xlas_source() -> None:
    source = b'x\n  entries {\n    key: "sm_90"\n    value {\n' + b"".join(
        b"      entries {\n        b: %d\n        m: %d\n        n: %d\n        k: %d\n"
        b'        flops { key: "bf16xbf16->bf16" value: %d }\n'
        b'        flops { key: "f8e4m3fnxf8e4m3fn->bf16" value: 9 }\n      }\n'
        % (b, m, n, k, 1_234_567_890_123)
        for b in (1, 2, 4)
        for m in (256, 512, 1024, 2048, 4096)
        for n in (256, 512, 1024, 2048, 4096)
        for k in (256, 512, 1024, 2048, 4096)
    )
    found = read_rates(source)
    assert list(found) == [("sm_90", "bf16")]
    *_, last = lines(found, "sm_90", "0")
    assert last.split()[:2] == ["bf16", "1.23"]


@pytest.mark.parametrize("line", [DOT, CUBLAS], ids=["dot", "cublas"])
def test_a_gemm_is_the_same_however_it_is_written(
    line: str, price: PriceLine, h100: ComputeDevice
) -> None:
    found = price(line, h100)
    assert (found.family, found.source) == (PriceFamily.MATMUL, PriceSource.TABLE)
    assert 2 * 4096**3 / found.seconds == pytest.approx(780e12, rel=0.02)
    assert "4096x4096x4096 bf16" in found.how


def test_a_fusion_with_a_dot_is_priced_as_its_dot(price: PriceLine, h100: ComputeDevice) -> None:
    line = "bf16[4096,4096]{1,0} fusion(%a, %b), kind=kCustom, calls=%inner"
    fused = price(line, h100, before=FUSED)
    assert fused.seconds == pytest.approx(price(DOT, h100).seconds)


def test_types_choose_the_rate(price: PriceLine, h100: ComputeDevice) -> None:
    f32 = (
        "f32[4096,4096]{1,0} dot(%wide, %wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    f8 = "bf16[4096,4096]{1,0} dot(%f8, %f8), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    times = [price(line, h100).seconds for line in (f8, DOT, f32)]
    assert times == sorted(times)
    assert "tf32" in price(f32, h100).how


@pytest.mark.parametrize(
    ("chip", "low", "high"),
    [
        ("A100", 250, 305),  # 271, stas00/ml-engineering; up to 293 in a public profile
        ("H100", 720, 810),  # 795
        ("H200", 720, 810),
        ("B200", 1500, 1750),
        ("GB200", 1600, 1950),
        ("L40S", 200, 300),
        ("MI300X", 600, 790),  # 668 to 782
    ],
)
def test_large_gemms_reach_what_chips_are_known_to_reach(
    chip: str, low: float, high: float
) -> None:
    assert low < rate(Gemm(1, 8192, 8192, 8192, "bf16"), on(chip)) / 1e12 < high


def test_more_work_never_takes_less_time() -> None:
    machine = on("H100")
    for k in (512, 4096, 28672):
        sizes = [
            price_gemm(Gemm(1, m, 8192, k, "bf16"), machine).seconds
            for m in (2**i for i in range(17))
        ]
        assert sizes == sorted(sizes)


def test_clocks_under_load_lengthen_it() -> None:
    gemm = Gemm(1, 8192, 8192, 8192, "bf16")
    ratio = price_gemm(gemm, on("H100", 0.8)).seconds / price_gemm(gemm, on("H100")).seconds
    assert ratio == pytest.approx(1.25)


def test_few_rows_are_bound_by_reading_the_weights() -> None:
    price = price_gemm(Gemm(1, 8, 8192, 8192, "bf16"), on("H100"))
    assert price.seconds > 8192 * 8192 * 2 / 3.35e12


def test_a_last_wave_that_is_almost_empty_costs_a_wave() -> None:
    machine = on("A100")
    # 108 cores: 216 tiles of 256 x 128 are two waves, one more is three; k is too short to split.
    full = price_gemm(Gemm(1, 216 * 256, 128, 256, "bf16"), machine).seconds
    over = price_gemm(Gemm(1, 217 * 256, 128, 256, "bf16"), machine).seconds
    assert over > full + 1e-6


def test_full_precision_does_not_take_tf32s_rates() -> None:
    size = 4096
    assert rate(Gemm(1, size, size, size, "f32"), on("H100")) < 67e12
    assert rate(Gemm(1, size, size, size, "tf32"), on("H100")) > 300e12


NAMED = (
    'backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]}}}'
)


@pytest.mark.parametrize(
    ("line", "operands", "told"),
    [
        pytest.param(
            "(bf16[8192,14336]{1,0}, s8[1024]{0}) custom-call(%l, %r),"
            ' custom_call_target="__cublas$lt$matmul$f8", ' + NAMED,
            ("f8e4m3fn[8192,4096]", "f8e4m3fn[14336,4096]"),
            "8192x14336x4096 f8",
            id="f8",
        ),
        pytest.param(
            "(bf16[8192,14336]{1,0}, s8[1024]{0}) custom-call(%l, %r, %ls, %rs),"
            ' custom_call_target="__cublas$lt$matmul$mx", ' + NAMED,
            ("f8e4m3fn[8192,4096]", "f8e4m3fn[14336,4096]"),
            "8192x14336x4096 f8",
            id="mx",
        ),
        pytest.param(
            "(bf16[1,8192,14336]{2,1,0}, u8[0]{0}) custom-call(%l, %r, %ls, %rs),"
            ' custom_call_target="__cudnn$blockScaledDot"',
            ("f8e4m3fn[1,8192,4096]", "f8e4m3fn[1,14336,4096]"),
            "8192x14336x4096 f8",
            id="block-scaled",
        ),
        pytest.param(
            "(bf16[4,8192,14336]{2,1,0}, u8[0]{0}) custom-call(%l, %r, %ls, %rs),"
            ' custom_call_target="__cudnn$blockScaledDot"',
            ("f4e2m1fn[4,8192,4096]", "f4e2m1fn[4,14336,4096]"),
            "4x8192x14336x4096 f4",
            id="nvfp4-in-a-stack",
        ),
        pytest.param(
            "bf16[8192,14336]{1,0} custom-call(%l, %r, %ls, %rs),"
            ' custom_call_target="__op$block_scaled_dot"',
            ("f8e4m3fn[8192,4096]", "f8e4m3fn[14336,4096]"),
            "8192x14336x4096 f8",
            id="block-scaled-of-older-releases",
        ),
        pytest.param(
            "s32[8192,14336]{1,0} dot(%l, %r), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            ("s8[8192,4096]", "s8[14336,4096]"),
            "8192x14336x4096 s8",
            id="int8",
        ),
        pytest.param(
            "(bf16[8192,1792]{1,0}, s8[1024]{0}) custom-call(%l, %r, %ls),"
            ' custom_call_target="__cublas$lt$groupedMatmul", ' + NAMED,
            ("bf16[8192,4096]", "bf16[8,4096,1792]"),
            "8x1024x1792x4096 bf16",
            id="grouped",
        ),
        pytest.param(
            "bf16[8192,1792]{1,0} ragged-dot(%l, %r, %ls), lhs_contracting_dims={1},"
            " rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
            ("bf16[8192,4096]", "bf16[8,4096,1792]"),
            "8x1024x1792x4096 bf16",
            id="ragged",
        ),
    ],
)
@pytest.mark.parametrize("chip", ["H100", "B200"])
def test_what_libraries_call_a_product_is_priced_as_one(
    build: Build, chip: str, line: str, operands: tuple[str, str], told: str
) -> None:
    left, right = operands
    program = build(
        f"%l = {left} parameter(10)",
        f"%r = {right} parameter(11)",
        "%ls = f8e8m0fnu[8192,128] parameter(12)",
        "%rs = f8e8m0fnu[14336,128] parameter(13)",
        f"ROOT %it = {line}",
    )
    found = program.instruction("it")
    assert found
    price = price_compute(program, found, on(chip))
    assert price.family is PriceFamily.MATMUL
    assert price.how.startswith(told)


@pytest.mark.parametrize("chip", ["H100", "B200", "GB200", "B300"])
def test_eight_bit_floats_take_about_half_of_sixteen(chip: str) -> None:
    machine = on(chip)
    for m, n, k in ((8192, 14336, 4096), (4096, 4096, 8192), (16384, 8192, 28672)):
        wide = price_gemm(Gemm(1, m, n, k, "bf16"), machine).seconds
        narrow = price_gemm(Gemm(1, m, n, k, "f8"), machine).seconds
        assert 1.6 < wide / narrow < 2.4
    few = Gemm(1, 128, 4096, 4096, "f8")
    assert few.flops / price_gemm(few, machine).seconds < 0.4 * machine.peak("f8")
