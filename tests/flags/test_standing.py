"""Every setting of the five pages, release by release, against a table checked by hand."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from counterpoint.flags.catalogue.about import ReadingProgram, documentation_of, pages
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.history import FlagState, default_of, is_default, state_of
from counterpoint.flags.probe import probe_flags
from counterpoint.flags.versions import version_number

RELEASES = ("0.6.2", "0.8.3", "0.10.2", "0.12.0")
LIVE = "0.10.2"
SETTINGS = {advice.name: None for page in pages() for advice in page.settings}
XLA = [name for name in SETTINGS if name.startswith("xla_")]

# y: taken, n: XLA ends the process, i: taken and ignored, o: a compile option only, a: an old name.
# What is not listed is taken by all four.
BY_HAND = {
    "xla_gpu_enable_async_collectives": "nnnn",
    "xla_gpu_enable_async_all_reduce": "nnnn",
    "xla_gpu_enable_async_all_gather": "nnnn",
    "xla_gpu_enable_async_reduce_scatter": "nnnn",
    "xla_gpu_enable_async_collective_permute": "nnnn",
    "xla_gpu_enable_pipelined_all_gather": "yyya",
    "xla_gpu_enable_pipelined_reduce_scatter": "yyya",
    "xla_gpu_enable_pipelined_all_reduce": "yyya",
    "xla_gpu_enable_pipelined_collectives": "ooon",
    "xla_gpu_lhs_enable_gpu_async_tracker": "nnnn",
    "xla_gpu_enable_custom_fusions": "ynnn",
    "xla_gpu_enable_nccl_per_stream_comms": "nnnn",
    "xla_gpu_enable_triton_softmax_fusion": "nnnn",
    "xla_gpu_cudnn_gemm_fusion": "nnnn",
    "xla_gpu_enable_cudnn_fmha": "iiii",
}
STATES = {
    "y": FlagState.TAKEN,
    "n": FlagState.GONE,
    "i": FlagState.NO_OP,
    "o": FlagState.OPTION,
    "a": FlagState.ALIAS,
}
DEFAULTS_TODAY = {
    "xla_gpu_enable_latency_hiding_scheduler": "false",
    "xla_gpu_all_gather_combine_threshold_bytes": "31457287",
    "xla_gpu_all_reduce_combine_threshold_bytes": "31457287",
    "xla_gpu_reduce_scatter_combine_threshold_bytes": "31457287",
    "xla_gpu_memory_limit_slop_factor": "95",
    "xla_gpu_enable_highest_priority_async_stream": "true",
    "xla_gpu_enable_all_gather_combine_by_dim": "false",
    "xla_gpu_enable_reduce_scatter_combine_by_dim": "false",
    "xla_gpu_multi_streamed_windowed_einsum": "true",
    "xla_gpu_threshold_for_windowed_einsum_mib": "100000",
    "xla_gpu_enable_nccl_comm_splitting": "true",
    "xla_gpu_triton_gemm_any": "true",
    "xla_gpu_enable_triton_gemm": "true",
    "xla_gpu_nccl_collective_max_nchannels": "0",
    "JAX_ENABLE_PGLE": "false",
    "JAX_PGLE_PROFILING_RUNS": "3",
    "JAX_PGLE_AGGREGATION_PERCENTILE": "90",
    "NCCL_LL_BUFFSIZE": "-2",
    "NCCL_NVLS_ENABLE": "2",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.75",
}
DEFAULT_ALREADY = {
    "xla_gpu_triton_gemm_any": "True",
    "xla_gpu_enable_highest_priority_async_stream": "true",
    "xla_gpu_enable_pipelined_reduce_scatter": "true",
    "xla_gpu_enable_all_gather_combine_by_dim": "false",
    "xla_gpu_enable_reduce_scatter_combine_by_dim": "false",
    "xla_gpu_multi_streamed_windowed_einsum": "true",
    "JAX_ENABLE_COMPILATION_CACHE": "yes",
    "NCCL_LL_BUFFSIZE": "-2",
    "NCCL_LL128_BUFFSIZE": "-2",
}


@pytest.mark.parametrize("version", RELEASES)
def test_each_setting_of_the_pages_is_classified_as_checked_by_hand(version: str) -> None:
    at = RELEASES.index(version)
    known = release(version)
    found = {name: state_of(name, known) for name in XLA}
    assert found == {name: STATES[BY_HAND.get(name, "yyyy")[at]] for name in XLA}


def test_what_is_no_flag_is_read_by_all_releases_or_by_nobody() -> None:
    others = [name for name in SETTINGS if name not in XLA]
    for version in RELEASES:
        states = {name: state_of(name, release(version)) for name in others}
        assert states.pop("TF_CPP_MAX_LOG_LEVEL", None) is FlagState.UNREAD
        assert set(states.values()) == {FlagState.TAKEN}


def test_options_of_jax_come_and_go_with_releases() -> None:
    expect = "JAX_COMPILATION_CACHE_EXPECT_PGLE"
    effort = "JAX_EXEC_TIME_OPTIMIZATION_EFFORT"
    assert state_of(expect, release("0.4.35")) is FlagState.NEWER
    assert state_of(expect, release("0.6.2")) is FlagState.TAKEN
    assert state_of(effort, release("0.10.2")) is FlagState.TAKEN
    assert state_of(effort, release("0.12.0")) is FlagState.GONE
    assert state_of("xla_gpu_pipeline_all_gather", release("0.10.2")) is FlagState.NEWER


@pytest.mark.parametrize(("name", "default"), DEFAULTS_TODAY.items())
def test_the_default_today_is_as_checked_by_hand(name: str, default: str) -> None:
    assert default_of(name, release("0.12.0")) == default


def test_the_pages_recommend_what_holds_anyhow_in_nine_cases() -> None:
    today = release("0.12.0")
    found = {
        advice.name: value
        for page in pages()
        for advice in page.settings
        for value in advice.values[:1]
        if is_default(advice.name, value, today) and len(advice.values) == 1
    }
    assert found == DEFAULT_ALREADY


def test_false_of_an_old_name_of_pipelining_is_default_and_not_off() -> None:
    today = release("0.12.0")
    assert is_default("xla_gpu_enable_pipelined_all_gather", "false", today)
    assert not is_default("xla_gpu_enable_pipelined_all_gather", "true", today)
    assert not is_default("xla_gpu_enable_pipelined_reduce_scatter", "false", today)
    assert not is_default("xla_gpu_executable_terminate_timeout", "30", today)


@pytest.fixture(scope="module")
def live() -> None:
    """The jaxlib that is here is the one that the table is about."""
    version = importlib.metadata.version("jaxlib")
    if version_number(version) != version_number(LIVE):
        pytest.skip(f"jaxlib {version} is here, not {LIVE}")


@pytest.mark.usefixtures("live")
def test_the_live_parser_takes_the_flags_that_the_table_calls_taken() -> None:
    known = release(LIVE)
    answer = probe_flags(sys.executable, " ".join(f"--{name}={_value(name)}" for name in XLA))
    assert answer.note is None
    refused = {flag.name for flag in answer.rejected}
    fatal = {FlagState.GONE, FlagState.NEWER, FlagState.OPTION}
    assert refused == {name for name in XLA if state_of(name, known) in fatal}


def test_every_setting_of_a_page_has_a_text() -> None:
    assert all(documentation_of(name) for name in SETTINGS)
    readers = {entry.kind for name in SETTINGS if (entry := documentation_of(name))}
    assert readers >= {
        ReadingProgram.XLA,
        ReadingProgram.JAX,
        ReadingProgram.NCCL,
        ReadingProgram.CUDA,
        ReadingProgram.LIBTPU,
    }


def _value(name: str) -> str:
    """Its default, where it has one: whether the name is taken is asked, not the value."""
    if name == "xla_gpu_disable_async_collectives":
        return "ALLREDUCE"
    default = default_of(name, release(LIVE))
    return default if default is not None else "true"
