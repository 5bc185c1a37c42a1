"""Benchmarks and kernels that users give: read, refused with a reason, used before ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import InputError
from counterpoint.cost.build import build_model
from counterpoint.cost.model import PriceSource
from counterpoint.cost.tables import read_gemm_csv, read_kernel_toml
from counterpoint.hardware.targets import parse_target
from prices import Build, known_scalars

DOT = "bf16[4096,4096]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
KERNEL = 'f32[8192,8192]{1,0} custom-call(%x), custom_call_target="my_kernel"'


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("m,n,k,dtype,tflops\n4096,4096,4096,bf16,500\n", 2 * 4096**3 / 500e12),
        ("M, N, K, dtype, time_us\n4096,4096,4096,bfloat16,300\n", 300e-6),
        ("b;m;n;k;ms\n1;4096;4096;4096;0.3\n", 300e-6),
        ("# a remark\nm\tn\tk\tGFLOPS\tnote\n4096\t4096\t4096\t500000\tx\n", 2 * 4096**3 / 500e12),
    ],
    ids=["tflops", "microseconds", "semicolons", "tabs"],
)
def test_benchmarks_are_read_in_many_spellings(text: str, seconds: float, tmp_path: Path) -> None:
    table = read_gemm_csv(written(tmp_path / "gemm.csv", text))
    assert table.seconds(1, 4096, 4096, 4096, "bf16") == pytest.approx(seconds)
    # A near shape takes the same rate, a far one none.
    assert table.seconds(1, 4096, 4096, 5000, "bf16") == pytest.approx(seconds * 5000 / 4096)
    assert table.seconds(1, 128, 4096, 4096, "bf16") is None
    assert table.seconds(1, 4096, 4096, 4096, "f8") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing"),
        ("m,n,k\n1,2,3\n", "a time or a rate"),
        ("m,n,tflops\n1,2,3\n", "k"),
        ("m,n,k,ms\n", "no benchmark"),
        ("m,n,k,ms\n1,2,x,3\n", "line 2"),
        ("m,n,k,ms\n1,2\n", "line 2"),
        ("m,n,k,ms\n1,2,3,-1\n", "line 2"),
        ("m,n,k,ms\n1,2,3,nan\n", "line 2"),
    ],
)
def test_what_is_no_benchmark_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_gemm_csv(written(tmp_path / "gemm.csv", text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for read in (read_gemm_csv, read_kernel_toml):
        with pytest.raises(InputError):
            read(tmp_path / "nothing")
        with pytest.raises(InputError):
            read(tmp_path)


def test_a_users_benchmark_goes_before_our_table(build: Build, tmp_path: Path) -> None:
    path = written(tmp_path / "gemm.csv", "m,n,k,dtype,ms\n4096,4096,4096,bf16,2\n")
    program = build(f"ROOT %it = {DOT}")
    model = build_model(
        parse_target("8xH100"), scalars=known_scalars(), tables=[read_gemm_csv(path)]
    )
    found = program.instruction("it")
    assert found
    price = model.price(program, found)
    assert price.source is PriceSource.USER_TABLE
    assert price.seconds == pytest.approx(2e-3)


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        ("us = 120", 120e-6),
        ('us = "arg0[0] / 8"', 1024e-6),
        ('flops = "2 * arg0[0]**2 * out[1]"\nefficiency = 0.5', 2 * 8192**3 / (989.4e12 / 2)),
        ("bytes = 3015000000", 1e-3),
    ],
    ids=["time", "formula of time", "flops", "bytes"],
)
def test_a_described_kernel_takes_what_its_file_says(
    entry: str, seconds: float, build: Build, tmp_path: Path
) -> None:
    path = written(tmp_path / "k.toml", f'[[kernel]]\nmatch = "^my_ker"\n{entry}\n')
    program = build(f"ROOT %it = {KERNEL}")
    model = build_model(
        parse_target("8xH100"), scalars=known_scalars(), tables=[read_kernel_toml(path)]
    )
    found = program.instruction("it")
    assert found
    price = model.price(program, found)
    assert price.source is PriceSource.USER_TABLE
    assert price.seconds == pytest.approx(seconds, rel=0.02)


def test_a_formula_that_does_not_fit_the_call_prices_nothing(build: Build, tmp_path: Path) -> None:
    text = '[[kernel]]\nmatch = "my_kernel"\nus = "arg7[0] + 9**9**9**9"\n'
    program = build(f"ROOT %it = {KERNEL}")
    tables = [read_kernel_toml(written(tmp_path / "k.toml", text))]
    model = build_model(parse_target("8xH100"), tables=tables)
    found = program.instruction("it")
    assert found
    assert model.price(program, found).source is PriceSource.BOUND


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "[[kernel]]\nus = 1",
        '[[kernel]]\nmatch = "("\nus = 1',
        '[[kernel]]\nmatch = "a"',
        '[[kernel]]\nmatch = "a"\nus = -1',
        '[[kernel]]\nmatch = "a"\nus = "__import__(1)"',
        '[[kernel]]\nmatch = "a"\nus = "arg0[0"',
        '[[kernel]]\nmatch = "a"\nus = 1\ncolour = 2',
        '[[kernel]]\nmatch = "a"\nflops = 1\nefficiency = 0',
        "kernel = 3",
        "kernel = [3]",
        "[[kernel",
    ],
)
def test_what_describes_no_kernel_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_kernel_toml(written(tmp_path / "k.toml", text))


@pytest.mark.parametrize("line", ["m,n,k,tflops\n{}", "{}\n1,1,1,5"])
def test_a_field_that_is_too_long_for_a_table(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "g.csv", line.format("9" * 140_000))
    with pytest.raises(InputError, match=r"line [12] "):
        read_gemm_csv(path)
