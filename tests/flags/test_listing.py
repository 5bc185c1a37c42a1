"""`flags list` and `flags diff` through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from counterpoint.cli.app import main
from counterpoint.flags.jaxlib import chosen_release, installed_version

Data = dict[str, Any]
Ask = Callable[..., Data]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*arguments: str) -> Data:
        assert main(["flags", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return asked


def names(data: Data) -> set[str]:
    return {flag["name"] for flag in data["flags"]}


def test_the_ordinary_list_is_what_a_gpu_reads(ask: Ask) -> None:
    data = ask("list", "--jaxlib", "0.10.2")
    listed = names(data)
    assert data["schema"] == "counterpoint.flags.list/1"
    assert data["jaxlib"] == "0.10.2"
    assert "xla_gpu_enable_latency_hiding_scheduler" in listed
    assert not {name for name in listed if name.startswith("xla_cpu_") or name.isupper()}
    assert "xla_gpu_enable_cudnn_fmha" not in listed  # it does nothing
    everything = names(ask("list", "--jaxlib", "0.10.2", "--all"))
    assert {"xla_gpu_enable_cudnn_fmha", "JAX_ENABLE_PGLE", "xla_gpu_graph_level"} <= everything
    assert listed < everything


def test_a_text_is_looked_for_in_names_and_in_what_they_do(ask: Ask) -> None:
    assert "xla_gpu_all_gather_combine_threshold_bytes" in names(ask("list", "--grep", "COMBINE"))
    assert names(ask("list", "--grep", "no-such-words")) == set()


def test_what_changed_since_a_release(ask: Ask) -> None:
    data = ask("list", "--jaxlib", "0.12.0", "--changed-since", "0.10.2")
    changed = {flag["name"]: flag["changes"] for flag in data["flags"]}
    assert [c["what"] for c in changed["xla_gpu_pipeline_all_gather"]] == ["added"]
    (default,) = changed["xla_gpu_enable_dynamic_slice_fusion"]
    assert (default["before"], default["after"]) == ("false", "true")
    gone = {flag["name"]: flag["until"] for flag in data["flags"] if flag["until"]}
    assert gone["xla_gpu_experimental_enable_nvshmem"] == "0.10.2"


@pytest.mark.parametrize("channel", ["XLA_FLAGS", "compiler_options", "environment"])
def test_the_ways_differ(channel: str, ask: Ask) -> None:
    data = ask("list", "--jaxlib", "0.12.0.1", "--channel", channel, "--all")
    assert all(channel in flag["channels"] for flag in data["flags"])
    alone = {
        "XLA_FLAGS": "xla_gpu_enable_pipelined_all_gather",
        "compiler_options": "xla_gpu_libnvjitlink_mode",
        "environment": "JAX_PGLE_PROFILING_RUNS",
    }
    for way, name in alone.items():
        assert (name in names(data)) == (way == channel), name


def test_a_diff_tells_what_will_break_and_what_is_new(ask: Ask) -> None:
    data = ask("diff", "0.10.2", "0.12")
    assert (data["before"], data["after"]) == ("0.10.2", "0.12.0.1")
    renamed = {one["before"]: (one["after"], one["taken"]) for one in data["renamed"]}
    assert renamed["xla_gpu_enable_pipelined_all_gather"] == ("xla_gpu_pipeline_all_gather", True)
    assert "xla_gpu_use_inprocess_lld" in {one["name"] for one in data["removed"]}
    changed = {(one["name"], one["what"]) for one in data["changed"]}
    assert ("xla_gpu_enable_command_buffer", "default") in changed
    assert ("xla_gpu_unsupported_use_all_reduce_one_shot_kernel", "no_op") in changed


def test_the_removed_say_what_to_use(ask: Ask) -> None:
    data = ask("diff", "0.4.26", "0.4.27")
    use = {one["name"]: one["use"] for one in data["removed"]}
    assert use["xla_gpu_enable_async_all_gather"] == ["xla_gpu_disable_async_collectives"]


def test_both_are_drawn_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "list", "--jaxlib", "0.8.3", "--changed-since", "0.8.2"]) == 0
    assert main(["flags", "list", "--grep", "while_loop", "--jaxlib", "0.7.1"]) == 0
    assert "crashes XLA" in capsys.readouterr().out
    assert main(["flags", "diff", "0.10.2", "0.10.2"]) == 0
    assert ": no differences" in capsys.readouterr().out
    assert main(["flags", "diff", "0.6.2", "0.10.2"]) == 0
    out = capsys.readouterr().out
    assert all(title in out for title in ("Removed", "Renamed", "Changed", "Added"))


@pytest.mark.parametrize("version", ["0.13", "0.10.3", "newest", "1"])
def test_an_unknown_release_is_told_with_its_neighbors(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flags", "diff", "0.6.2", version]) == 2
    told = capsys.readouterr().err
    assert "unknown release" in told
    assert "nearest known: 0." in told


def test_changes_after_a_later_release_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "list", "--jaxlib", "0.10.2", "--changed-since", "0.12.0"]) == 2
    told = capsys.readouterr().err
    assert "--changed-since 0.12.0: " in told
    assert "--changed-since 0.10.2 --jaxlib 0.12.0" in told  # the other way round


def test_unasked_it_is_the_jaxlib_that_is_installed() -> None:
    version = installed_version()
    if version is None:
        pytest.skip("jaxlib is not here")
    assert chosen_release().asked == version
    assert chosen_release("0.12").version == "0.12.0.1"
    assert chosen_release("0.12.0").version == "0.12.0"
    assert chosen_release("v0.8.3").version == "0.8.3"


def test_a_short_version_as_a_lower_bound_is_the_first_of_its_series(ask: Ask) -> None:
    short, full = (
        ask("list", "--jaxlib", "0.10.2", "--changed-since", it) for it in ("0.9", "0.9.0")
    )
    assert short == full
    assert short != ask("list", "--jaxlib", "0.10.2", "--changed-since", "0.9.2")


@pytest.mark.parametrize(
    ("text", "name", "reader"),
    [
        ("P2P_LEVEL", "NCCL_P2P_LEVEL", "NCCL"),
        ("premap", "megascale_grpc_premap_memory_bytes", "libtpu"),
        ("profiler_num", "trainer.profiler_num_steps", "Levanter"),
        ("pgle_profiling", "JAX_PGLE_PROFILING_RUNS", "JAX"),
        ("graph_level", "xla_gpu_graph_level", "XLA"),
        ("tcp_rmem", "net.ipv4.tcp_rmem", "the Linux kernel"),
        ("PREALLOCATE", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA's GPU client"),
    ],
)
def test_a_text_is_looked_for_in_all_that_show_knows(
    text: str, name: str, reader: str, ask: Ask
) -> None:
    others = {it["name"]: it["reader"] for it in ask("list", "--grep", text)["others"]}
    assert others[name] == reader
    for other in others:
        assert main(["flags", "show", other]) == 0


def test_other_settings_are_shown_where_a_text_is_looked_for_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["flags", "list", "--grep", "NCCL_P2P"]) == 0
    told = capsys.readouterr().out
    assert "NCCL_P2P_LEVEL" in told
    assert main(["flags", "list", "--grep", "NCCL_P2P", "--channel", "XLA_FLAGS"]) == 0
    assert "NCCL_P2P_LEVEL" not in capsys.readouterr().out
