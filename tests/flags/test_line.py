"""A line of settings: what nothing reads is refused, and its label can be typed again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.flags.catalogue.lookup import names_ever
from counterpoint.flags.catalogue.variable import nccl_names, variables
from counterpoint.flags.lines.line import parse_settings, read_line, write_line
from counterpoint.flags.lines.source import load_settings
from counterpoint.flags.settings import Settings

THRESHOLD = "xla_gpu_reduce_scatter_combine_threshold_bytes"
FLAGS = sorted(it for it in names_ever() if it.startswith("xla_"))
VARIABLES = sorted({*variables(), *nccl_names()})

values = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=12
) | st.sampled_from(["", "true", "a b", "Ring,Tree", "it's", '"', "a=b", "*.pb.gz", "$HOME", "#1"])
flags = st.tuples(st.sampled_from(FLAGS), values)
known = st.tuples(st.sampled_from(VARIABLES), values)
own = st.tuples(st.sampled_from(["MY_SWITCH", "lower", "A", THRESHOLD[8:]]), values)


@given(
    st.lists(flags, max_size=3),
    st.lists(known | own, max_size=3),
    st.sampled_from(["", "fsdp", "cublas-gemm + "]),
)
def test_a_label_stands_for_the_settings_that_it_names(
    xla: list[tuple[str, str]], env: list[tuple[str, str]], recipe: str
) -> None:
    assume(xla or env or recipe)
    assume(not any("xla_" in value for _, value in xla))
    line = f"{recipe} {write_line(Settings(tuple(xla), tuple(env)))}"
    once = read_line(line, version="0.10.2")
    again = read_line(once.label, version="0.10.2")
    assert again == once
    said = dict(once.settings.env)
    assert all(said[name] == value for name, value in dict(env).items())
    if not recipe:
        assert once.settings == Settings().merged(Settings(tuple(xla), tuple(env)))


@pytest.mark.parametrize(
    ("word", "near"),
    [
        (f"{THRESHOLD[8:]}=1", THRESHOLD),
        (f"--{THRESHOLD[8:]}=1", THRESHOLD),
        (f"gpu_{THRESHOLD[8:]}=1", THRESHOLD),
        (f"{THRESHOLD.upper()}=1", THRESHOLD),
        ("pipelined_all_gather=true", "xla_gpu_enable_pipelined_all_gather"),
        ("jax_enable_x64=1", "JAX_ENABLE_X64"),
        ("enable_x64=1", "JAX_ENABLE_X64"),
        ("NCCL_NVSL_ENABLE=0", "NCCL_NVLS_ENABLE"),
        ("nvls_enable=0", "NCCL_NVLS_ENABLE"),
        ("CUDA_DEVICE_MAX_CONNECTION=1", "CUDA_DEVICE_MAX_CONNECTIONS"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTON=.9", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
    ],
)
def test_a_name_that_nothing_reads_is_refused_with_the_nearest_ones(word: str, near: str) -> None:
    with pytest.raises(UsageError, match=re.escape(word.lstrip("-").partition("=")[0])) as refused:
        read_line(f"NCCL_ALGO=Ring {word}")
    assert near in str(refused.value.next)
    assert f"env:{word.lstrip('-')}" in str(refused.value.why)


def test_a_name_like_no_other_is_refused_and_env_lets_it_pass() -> None:
    with pytest.raises(UsageError, match=r"^nope: "):
        read_line("nope=1")
    line = read_line("env:nope=1")
    assert line.settings.env == (("nope", "1"),)
    assert line.label == "env:nope=1"


@pytest.mark.parametrize(
    "name", ["NCCL_ALGO", "JAX_PLATFORMS", "CUDA_MODULE_LOADING", "LD_PRELOAD"]
)
def test_variables_that_something_reads_need_no_mark(name: str) -> None:
    assert read_line(f"{name}=x").label == f"{name}=x"


def test_a_flag_set_as_a_variable_is_refused_and_ones_own_variable_is_not() -> None:
    assert parse_settings((), ["MY_SWITCH=1", "http_proxy=x"]).variables["MY_SWITCH"] == "1"
    for text in (f"{THRESHOLD[8:]}=1", f"{THRESHOLD}=1", "jax_enable_x64=1"):
        with pytest.raises(UsageError, match=r"not a variable|unknown flag"):
            parse_settings((), [text])
    assert parse_settings((), [f"env:{THRESHOLD}=1"]).variables == {THRESHOLD: "1"}
    with pytest.raises(UsageError, match="nope: unknown flag"):
        parse_settings(["nope=1"])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("mine", f"{THRESHOLD[8:]}=1\n"),
        ("mine.env", f"{THRESHOLD[8:]}=1\n"),
        ("mine.sh", f"export {THRESHOLD[8:]}=1\n"),
    ],
)
def test_a_file_that_sets_a_flag_as_a_variable_is_refused(
    tmp_path: Path, file: str, text: str
) -> None:
    path = tmp_path / file
    path.write_text(f"NCCL_ALGO=Ring\n{text}" if file != "mine.sh" else text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(THRESHOLD[8:])) as refused:
        load_settings(path)
    assert THRESHOLD in str(refused.value.next)


def test_only_a_flag_that_is_a_bool_stands_without_a_value() -> None:
    assert read_line("--xla_gpu_enable_pipelined_all_gather").label.endswith("=true")
    with pytest.raises(UsageError, match=f"--{THRESHOLD} has no value"):
        read_line(f"--{THRESHOLD}")


@pytest.mark.parametrize("text", ["JAX_PLATFORMS=cpu", "NCCL_DEBUG=INFO", "XLA_FLAGS=--xla_a=1"])
def test_a_variable_set_as_a_flag_is_refused_with_the_option_that_takes_it(text: str) -> None:
    with pytest.raises(UsageError, match=text.partition("=")[0]) as refused:
        parse_settings([text])
    assert refused.value.next == f"use --env {text}"
