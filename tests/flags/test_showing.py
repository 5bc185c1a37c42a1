"""What `flags show` finds of a setting, however it is written."""

from __future__ import annotations

import json

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.history import FlagState
from counterpoint.flags.settings import Channel
from counterpoint.flags.showing import show
from counterpoint.report.catalogue.flags_json import show_json
from counterpoint.report.catalogue.show_document import all_changes, show_document
from counterpoint.report.terminal import plain_text


@pytest.fixture(scope="module")
def today() -> Release:
    return release("0.10.2")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("xla_gpu_autotune_level", "xla_gpu_autotune_level"),
        ("--xla_gpu_autotune_level", "xla_gpu_autotune_level"),
        ("--xla-gpu-autotune-level=4", "xla_gpu_autotune_level"),
        ("XLA_GPU_AUTOTUNE_LEVEL", "xla_gpu_autotune_level"),
        ("nccl_proto", "NCCL_PROTO"),
        ("NCCL_PROTO=Simple", "NCCL_PROTO"),
        ("nccl_pat_enable", "NCCL_PAT_ENABLE"),
        ("jax_enable_pgle", "JAX_ENABLE_PGLE"),
        ("cuda_device_max_connections", "CUDA_DEVICE_MAX_CONNECTIONS"),
        ("--trainer.profiler_num_steps=10", "trainer.profiler_num_steps"),
        ("--megascale_grpc_premap_memory_bytes", "megascale_grpc_premap_memory_bytes"),
        ("xla_gpu_enable_async_collectives", "xla_gpu_enable_async_collectives"),
        ("optimization_level", "optimization_level"),
    ],
)
def test_a_name_is_found_however_it_is_written(typed: str, name: str, today: Release) -> None:
    assert show(typed, today).name == name


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("xla_gpu_enable_latency_hidng_scheduler", "xla_gpu_enable_latency_hiding_scheduler"),
        ("NCCL_NVSL_ENABLE=1", "NCCL_NVLS_ENABLE"),
        ("--xla_gpu_pipline_all_gather=on", "xla_gpu_pipeline_all_gather"),
        ("zzz", "no known name is similar"),
        ("", "no known name is similar"),
        ("=1", "no known name is similar"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_neighbors(
    typed: str, near: str, today: Release
) -> None:
    with pytest.raises(UsageError) as caught:
        show(typed, today)
    assert near in (caught.value.why or "")
    assert caught.value.next


@pytest.mark.parametrize("typed", ["xla_\x1b[31m", "x" * 100_000, "xla_a\nb", "\0", "--", "-"])
def test_a_name_that_is_none_is_told_fit_for_a_terminal(typed: str, today: Release) -> None:
    with pytest.raises(UsageError) as caught:
        show(typed, today)
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 200


def test_a_flag_has_its_machine_facts_its_text_and_what_refers_to_it(today: Release) -> None:
    shown = show("xla_gpu_all_gather_combine_threshold_bytes=256", today)
    assert shown.flag
    assert shown.about
    assert shown.history
    assert (shown.state, shown.default, shown.flag.type) == (FlagState.TAKEN, "31457287", "int64")
    assert shown.history.last is None
    assert [verdict.taken for verdict in shown.verdicts] == [True, True]
    assert not any(verdict.is_default for verdict in shown.verdicts)
    assert "combine-1GiB" in dict(shown.recipes)
    assert {title for title, _ in shown.pages} >= {"JAX: GPU performance tips"}


@pytest.mark.parametrize(
    ("typed", "channel", "taken", "is_default", "meant"),
    [
        ("xla_gpu_enable_triton_gemm=true", Channel.XLA_FLAGS, True, True, None),
        ("xla_gpu_enable_triton_gemm=true", Channel.COMPILER_OPTIONS, False, False, "True"),
        ("xla_gpu_enable_triton_gemm=maybe", Channel.XLA_FLAGS, False, False, None),
        ("xla_gpu_enable_command_buffer=1", Channel.XLA_FLAGS, False, False, None),
        ("xla_gpu_enable_command_buffer=", Channel.XLA_FLAGS, True, False, None),
        ("NCCL_LL_BUFFSIZE=-2", None, True, True, None),
        ("NCCL_NVLS_ENABLE=7", None, False, False, None),
        ("JAX_ENABLE_PGLE=0", None, True, True, None),
        ("xla_gpu_enable_async_collectives=true", Channel.XLA_FLAGS, False, True, None),
        ("xla_gpu_enable_command_buffer=''", Channel.XLA_FLAGS, True, False, None),
        ("xla_gpu_enable_command_buffer=''", Channel.COMPILER_OPTIONS, False, False, ""),
        ('xla_gpu_enable_triton_gemm="true"', Channel.XLA_FLAGS, True, True, None),
        ("TF_CPP_MAX_LOG_LEVEL=100", None, False, False, None),
    ],
)
def test_a_value_is_judged_for_each_channel(
    typed: str,
    channel: Channel | None,
    taken: bool,
    is_default: bool,
    meant: str | None,
    today: Release,
) -> None:
    (verdict,) = (one for one in show(typed, today).verdicts if one.channel is channel)
    assert (verdict.taken, verdict.is_default, verdict.meant) == (taken, is_default, meant)


@pytest.mark.parametrize(
    ("typed", "version", "told"),
    [
        ("xla_gpu_graph_level=0", "0.10.2", "use --xla_gpu_enable_command_buffer="),
        ("xla_gpu_pipeline_all_gather=on", "0.10.2", "XLA aborts"),
        ("xla_gpu_enable_async_all_reduce=true", "0.10.2", "remove it: this is now the default"),
        ("xla_gpu_enable_command_buffer=1", "0.10.2", "XLA aborts; it accepts"),
    ],
)
def test_a_value_that_ends_the_process_is_said_to(typed: str, version: str, told: str) -> None:
    shown = show(typed, release(version))
    (verdict,) = (one for one in shown.verdicts if one.channel is Channel.XLA_FLAGS)
    assert verdict.ends
    text = show_json(shown, tuple(all_changes(shown)))
    assert json.loads(text)["verdicts"][0]["ends"] is True
    rows = " ".join(plain_text(show_document(shown)).split())
    assert "XLA aborts" in rows
    assert told in rows


@pytest.mark.parametrize("name", ["XLA_FLAGS", "xla_flags", "LIBTPU_INIT_ARGS", "compiler_options"])
def test_what_holds_settings_is_explained(name: str, today: Release) -> None:
    with pytest.raises(UsageError, match="contains settings") as caught:
        show(name, today)
    assert "--name=value" in str(caught.value.why) or "jax.jit" in str(caught.value.why)


def test_what_nobody_reads_has_no_effect_and_ends_nothing(today: Release) -> None:
    for typed, known in (
        ("TF_CPP_MAX_LOG_LEVEL=1", today),
        ("JAX_EXEC_TIME_OPTIMIZATION_EFFORT=1", release("0.12.0")),
    ):
        shown = show(typed, known)
        assert not any(one.ends or one.taken for one in shown.verdicts)
        assert "no effect" in " ".join(plain_text(show_document(shown)).split())


def test_what_only_the_release_knows_is_shown_without_a_text(today: Release) -> None:
    shown = show("xla_gpu_shape_checks", today)
    assert shown.about is None
    assert shown.flag
    option = show("jax_debug_infs", today)
    assert option.about is None
    assert (option.reader, option.default) == (ReadingProgram.JAX, "false")
    assert show("NCCL_CHECK_POINTERS=1", today).verdicts == ()


def test_a_flag_that_is_gone_says_when_and_what_does_it_now(today: Release) -> None:
    shown = show("xla_gpu_graph_level", today)
    assert shown.flag is None
    assert shown.history
    assert (shown.history.last, shown.history.since) == ("0.7.1", "0.7.2")
    assert shown.use == ("xla_gpu_enable_command_buffer",)


def test_a_flag_that_is_not_there_yet_says_so(today: Release) -> None:
    shown = show("xla_gpu_pipeline_all_gather=on", today)
    assert shown.state is FlagState.NEWER
    assert shown.history
    assert shown.history.first == "0.11.1"


def test_rules_that_speak_of_a_setting_are_named(today: Release) -> None:
    assert "FLAG302" in dict(show("xla_gpu_enable_latency_hiding_scheduler", today).rules)
