"""What a flag takes as its value: each claim is put to jaxlib's own parser, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.jaxlib import find_interpreter
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.values import as_option, refusal

Parser = Callable[[str], "dict[int, tuple[int | bytes, ...]] | None"]

INSTALLED = find_interpreter(None)
RELEASE = release(INSTALLED.jaxlib if INSTALLED else None)
UNTOLD = {
    "xla_fuel",
    "xla_gpu_device_execution_terminate_timeout",
    "xla_gpu_enable_libnvptxcompiler",
    "xla_gpu_execution_terminate_timeout",
    "xla_gpu_experimental_max_unroll_factor",
    "xla_gpu_experimental_thunk_buffer_debug_filter_by_thunk_id_ranges",
}
"""Flags whose values have a syntax or a range of their own, which only the compiler knows."""

FLAGS = [
    flag
    for name, flag in sorted(RELEASE.flags.items())
    if flag.xla_flags and name not in UNTOLD and (flag.values or not flag.type.startswith("enum"))
]


def taken(flag: Flag, value: str | None) -> bool:
    return refusal(flag, value, Channel.XLA_FLAGS) is None


def words_of(flag: Flag) -> st.SearchStrategy[str]:
    """Values near those that a flag takes, good ones and bad."""
    plain = [
        "true",
        "FALSE",
        "1",
        "0",
        "-1",
        "+4",
        "4.0",
        "1e3",
        " 4",
        "4 ",
        "",
        "yes",
        "nan",
        "0x1p3",
    ]
    far = ["2147483648", "-2147483649", "9223372036854775808", "1GiB", "4,", "'4'", "inf", "1_000"]
    names = [*flag.values, *flag.enum]
    forms = [
        form
        for name in names
        for form in (name, name.lower(), name.title(), f"{name},", f"+{name}")
    ]
    forms += [name.rpartition("_")[2] for name in names]
    lists = st.lists(st.sampled_from(forms or plain), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.sampled_from(plain + far), lists, st.text("x1,+-. e", max_size=4))


@given(st.data())
def test_the_same_values_are_taken_as_by_the_compilers_parser(
    xla: Parser, data: st.DataObject
) -> None:
    flag = data.draw(st.sampled_from(FLAGS), label="flag")
    value = data.draw(words_of(flag), label="value")
    text = render_xla_flags([(flag.name, value)])
    assert taken(flag, value) == (xla(text) is not None), text


def test_the_defaults_of_flags_are_taken(xla: Parser) -> None:
    spelt = [flag for flag in FLAGS if flag.default and taken(flag, flag.default)]
    assert len(spelt) > 0.95 * sum(bool(flag.default) for flag in FLAGS)
    text = render_xla_flags((flag.name, flag.default) for flag in spelt)
    assert xla(text) is not None


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("xla_gpu_all_gather_combine_threshold_bytes", "1GiB", "1073741824"),
        ("xla_gpu_all_gather_combine_threshold_bytes", "1e9", "1000000000"),
        ("xla_gpu_all_gather_combine_threshold_bytes", "1_000", "1000"),
        ("xla_gpu_all_gather_combine_threshold_bytes", "1GB", "1073741824"),
        ("xla_gpu_enable_triton_gemm", "off", "false"),
        ("xla_gpu_enable_triton_gemm", "2", None),
        ("xla_gpu_pgle_accuracy_checker", "error", "PGLE_STRICTNESS_LEVEL_ERROR"),
        ("xla_gpu_disable_async_collectives", "all_reduce,AllGather", "ALLREDUCE,ALLGATHER"),
        ("xla_gpu_enable_command_buffer", "1", None),
    ],
)
def test_what_was_meant_is_told_where_it_is_plain(name: str, value: str, meant: str | None) -> None:
    refused = refusal(release("0.10.2").flags[name], value, Channel.XLA_FLAGS)
    assert refused
    assert refused.meant == meant


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("xla_gpu_enable_triton_gemm", "1", "True"),
        ("xla_gpu_detect_nan", "warning", "DETECTION_MODE_WARNING"),
        ("xla_gpu_disable_async_collectives", "allreduce,allgather", "ALLREDUCE,ALLGATHER"),
        ("xla_gpu_autotune_level", "4", "4"),
    ],
)
def test_a_compile_option_is_spelt_in_another_way(name: str, value: str, option: str) -> None:
    flag = release("0.10.2").flags[name]
    assert as_option(flag, value) == option
    assert refusal(flag, option, Channel.COMPILER_OPTIONS) is None


@pytest.mark.parametrize("value", ["true", "1", ""])
def test_a_compile_takes_no_bool_but_true_and_false(value: str) -> None:
    flag = release("0.10.2").flags["xla_gpu_enable_triton_gemm"]
    assert refusal(flag, value, Channel.COMPILER_OPTIONS)
