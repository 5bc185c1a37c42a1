"""What a user writes as a candidate, as Settings on top of a base."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.flags.settings import Settings
from counterpoint.workflow.variant import Variant, base_settings, candidate, with_unique_names

PIPELINED = "xla_gpu_enable_pipelined_all_gather"


@pytest.mark.parametrize(
    "text",
    [
        f"--{PIPELINED}=true",
        f"{PIPELINED}=true",
        f"XLA_FLAGS='--{PIPELINED}=true'",
        f"--{PIPELINED}",
    ],
    ids=["with dashes", "without dashes", "as a variable", "without a value"],
)
def test_a_flag_line_is_read_in_every_spelling(text: str) -> None:
    assert candidate(text, Settings()).settings.flags == {PIPELINED: "true"}


def test_a_candidate_stands_on_the_base_and_has_the_last_word() -> None:
    base = base_settings((), ["xla_gpu_a=1", "xla_gpu_b=1"], ["NCCL_ALGO=Ring"])
    made = candidate("xla_gpu_b=2 NCCL_ALGO=Tree", base)
    assert made.settings.flags == {"xla_gpu_a": "1", "xla_gpu_b": "2"}
    assert made.settings.variables == {"NCCL_ALGO": "Tree"}
    assert made.name == "--xla_gpu_b=2 NCCL_ALGO=Tree"


def test_files_and_recipes_are_candidates_too(tmp_path: Path) -> None:
    script = tmp_path / "mine.sh"
    script.write_text(f"export XLA_FLAGS=--{PIPELINED}=true\n")
    assert candidate(str(script), Settings()).settings.flags == {PIPELINED: "true"}
    assert candidate("pgle-recommended", Settings()).settings.flags


def test_what_is_written_out_has_the_last_word_over_recipes() -> None:
    flag = "xla_gpu_enable_triton_gemm"
    assert base_settings(["cublas-gemm"]).flags[flag] == "false"
    assert base_settings(["cublas-gemm"], [f"{flag}=true"]).flags[flag] == "true"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text is empty"),
        ("nosuch", "neither a file nor a recipe"),
        ("xla_gpu_a=1,xla_gpu_b=2", "several flags in one"),
        ("--xla_gpu_a=1 fast", "fast is neither a flag nor a variable"),
        ("--xla_gpu_a='1", "No closing quotation"),
        ("env:FOO", "env:FOO: it has no `=` and no value"),
        ("env:=1", "env:=1: no name before ="),
        ("env:a;b=1", "env:a;b=1: invalid variable name 'a;b'"),
        ("env:a;b", "env:a;b: it has no `=` and no value"),
    ],
)
def test_what_is_no_setting_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        candidate(text, Settings())


def test_two_candidates_of_one_name_are_told_apart() -> None:
    twice = [Variant("a", Settings()), Variant("a", Settings(xla=(("xla_gpu_a", "1"),)))]
    assert [it.name for it in with_unique_names(twice)] == ["a", "a (2)"]
