"""Flags that follow others without a blank: what is said, and how it is fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.cli.app import main
from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Remark
from counterpoint.flags.parse.source import read_text

A, B = "--xla_gpu_autotune_level=3", "--xla_gpu_enable_triton_gemm=false"
OS = "import os\n"


def remarks(name: str, text: str) -> list[Remark]:
    return list(check(read_text(text, name), version="0.10.2"))


BEFORE = "no blank separates it from the earlier value of XLA_FLAGS"


@pytest.mark.parametrize(
    ("name", "text", "severity", "what"),
    [
        ("a.sh", f'export XLA_FLAGS="{A}"\nXLA_FLAGS+="{B}"\n', "error", f"from {B}: XLA aborts"),
        ("a.sh", f'export XLA_FLAGS="{A}{B}"\n', "error", "XLA aborts"),
        ("a.sh", f'export XLA_FLAGS="--xla_dump_to=/a{B}"\n', "warning", "a part of the first"),
        ("a.sh", f'export XLA_FLAGS="--xla_gpu_enable_triton_gemm{A}"\n', "error", "XLA aborts"),
        ("a.sh", f'export XLA_FLAGS="${{XLA_FLAGS}}{A}"\n', "warning", BEFORE),
        ("a.sh", f'export XLA_FLAGS="$XLA_FLAGS{A}"\n', "warning", BEFORE),
        ("a.sh", f'export XLA_FLAGS+="{A}"\n', "warning", BEFORE),
        ("a.py", f'{OS}os.environ["XLA_FLAGS"] += "{A}"\n', "warning", BEFORE),
        (
            "a.py",
            f'{OS}old = os.environ.get("XLA_FLAGS", "")\nos.environ["XLA_FLAGS"] = old + "{A}"\n',
            "warning",
            BEFORE,
        ),
    ],
)
def test_two_flags_without_a_blank_are_one(name: str, text: str, severity: str, what: str) -> None:
    (found,) = remarks(name, text)
    assert (found.code, str(found.severity)) == ("FLAG212", severity)
    assert what in found.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sh", f'export XLA_FLAGS="{A}"\nXLA_FLAGS+=" {B}"\n'),
        ("a.sh", f'export XLA_FLAGS="{A} "\nXLA_FLAGS+="{B}"\n'),
        ("a.sh", f'export XLA_FLAGS="${{XLA_FLAGS:+$XLA_FLAGS }}{A}"\n'),
        ("a.sh", f'export XLA_FLAGS="${{XLA_FLAGS:-}} {A}"\n'),
        ("a.sh", f'export XLA_FLAGS="${{XLA_FLAGS:-{A}}}"\n'),
        ("a.sh", f'export XLA_FLAGS="$XLA_FLAGS\n{A}"\n'),
        ("a.sh", f'export XLA_FLAGS="--xla_dump_to=/a--b {A}"\n'),
        ("a.py", f'{OS}os.environ.setdefault("XLA_FLAGS", "{A}")\n'),
        ("a.py", f'{OS}os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "{A}")\n'),
        ("a.py", f'{OS}os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS") or "{A}"\n'),
        ("a.py", f'{OS}os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " {A}"\n'),
        (
            "a.py",
            (
                f'{OS}old = [os.environ.get("XLA_FLAGS", ""), "{A}"]\n'
                'os.environ["XLA_FLAGS"] = " ".join(old)\n'
            ),
        ),
    ],
)
def test_a_blank_of_any_kind_separates_them(name: str, text: str) -> None:
    assert [one for one in remarks(name, text) if one.code == "FLAG212"] == []


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        (
            f'export XLA_FLAGS="{A}"\nXLA_FLAGS+="{B}"\n',
            f'export XLA_FLAGS="{A}"\nXLA_FLAGS+=" {B}"\n',
        ),
        (f'export XLA_FLAGS="$XLA_FLAGS{A}"\n', f'export XLA_FLAGS="$XLA_FLAGS {A}"\n'),
        (
            f'F="{A}"\nF+="{B}"\nF+="--xla_gpu_triton_gemm_any=false"\nXLA_FLAGS=$F python a\n',
            f'F="{A}"\nF+=" {B}"\nF+=" --xla_gpu_triton_gemm_any=false"\nXLA_FLAGS=$F python a\n',
        ),
        (f"export XLA_FLAGS={A}\nXLA_FLAGS+={B}\n", None),  # a blank would end the value
        (f'export XLA_FLAGS="--xla_dump_to=/a{B}"\n', None),  # the second would begin to count
    ],
)
def test_the_blank_is_written_where_that_is_safe(
    text: str, fixed: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.sh"
    path.write_text(text)
    main(["flags", "check", str(path), "--fix", "--no-probe", "--jaxlib", "0.10.2"])
    assert path.read_text() == (text if fixed is None else fixed)
