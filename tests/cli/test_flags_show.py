"""`counterpoint flags show`, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoint.cli.app import main
from golden_files import Golden
from transcripts import Transcript, next_command

SCHEDULER = "xla_gpu_enable_latency_hiding_scheduler"
PIPELINED = "xla_gpu_enable_pipelined_all_gather"
EFFORT = "JAX_EXEC_TIME_OPTIMIZATION_EFFORT"
OLD, NEW = ("--jaxlib", "0.10.2"), ("--jaxlib", "0.12")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, dict[str, Any]]:
    """The text, and all of it as data."""
    assert main(["flags", "show", *words]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert main(["flags", "show", *words, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def test_what_it_says(golden: Golden, tmp_path: Path) -> None:
    told = Transcript(tmp_path)
    for name, release in (
        (f"{SCHEDULER}=true", OLD),
        (PIPELINED, NEW),
        (EFFORT, NEW),
        ("xla_gpu_enable_nccl_comm_splitting", OLD),
        ("xla_gpu_enable_async_all_reduce=true", OLD),
        ("nccl_nvls_enable=1", OLD),
        ("jax_pgle_profiling_runs", OLD),
        ("megascale_grpc_premap_memory_bytes", OLD),
        ("--trainer.profiler", OLD),
        ("net.ipv4.tcp_rmem", OLD),
        ("xla_gpu_shape_checks", OLD),
        ("TF_CPP_MAX_LOG_LEVEL", OLD),
    ):
        told.run("flags", "show", name, *release)
    told.run("flags", "show", SCHEDULER, "--chip", "abacus", code=2)
    told.run("flags", "show", "xla_gpu_enable_triton_gem", *OLD, code=2)
    told.run("flags", "diff", "0.6.2", "9", code=2)
    golden("flags_show.txt", told.text)


def test_notes_of_other_releases_and_chips_are_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    noted: dict[tuple[str, ...], set[str]] = {}
    for words in (
        (PIPELINED, *OLD),
        (PIPELINED, *NEW),
        (SCHEDULER, *OLD, "--chip", "H100"),
        (SCHEDULER, *OLD, "--chip", "A100"),
    ):
        text, data = shown(capsys, *words)
        said = " ".join(text.split())
        noted[words] = {it["text"] for it in data["about"]["notes"] if it["holds"]}
        assert {it["text"] for it in data["about"]["notes"] if it["text"] in said} == noted[words]
    older, newer, hopper, ampere = noted.values()
    assert older != newer
    assert hopper - ampere
    assert ampere - hopper


def test_a_replacement_is_proposed_by_the_releases_that_have_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    older, newer = (shown(capsys, PIPELINED, *release) for release in (OLD, NEW))
    for text, data in (older, newer):
        assert data["use"] == ["xla_gpu_pipeline_all_gather"]
        assert "xla_gpu_pipeline_all_gather" in text
    assert "xla_gpu_pipeline_all_gather (from jaxlib 0.11.1 on)\n" in older[0]
    assert next_command(older[0]) == ["run", "--settings", "fsdp", "--", "python", "train.py"]
    assert next_command(newer[0]) == ["flags", "show", "xla_gpu_pipeline_all_gather"]


def test_a_setting_has_a_reader_and_a_state_in_each_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, release, reader, state in (
        (EFFORT, "0.10.2", "JAX", "taken"),
        (EFFORT, "0.12", "JAX", "gone"),
        (EFFORT, "0.4.35", "JAX", "newer"),
        ("xla_gpu_enable_async_all_reduce", "0.10.2", "XLA", "gone"),
        ("nccl_nvls_enable", "0.10.2", "NCCL", "taken"),
        ("TF_CPP_MAX_LOG_LEVEL", "0.10.2", "XLA's log", "unread"),
        ("net.ipv4.tcp_rmem", "0.10.2", "the Linux kernel", "taken"),
        ("--trainer.profiler", "0.10.2", "Levanter", "taken"),
        ("megascale_grpc_premap_memory_bytes", "0.10.2", "libtpu", "taken"),
        ("optimization_level", "0.10.2", "XLA, per compile", "taken"),
    ):
        _, data = shown(capsys, name, "--jaxlib", release)
        assert (name, data["reader"], data["state"]) == (name, reader, state)
    _, gone = shown(capsys, "xla_gpu_enable_async_all_reduce=true", *OLD)
    assert (gone["last"], gone["changes"][-1]["version"]) == ("0.4.26", "0.4.27")
    assert gone["verdicts"][0]["ends"], "XLA aborts"
    assert gone["use"] == ["xla_gpu_disable_async_collectives"]


def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, data = shown(capsys, "xla_gpu_memory_limit_slop_factor=95", *OLD)
    assert data["schema"] == "counterpoint.flags.show/1"
    assert data["jaxlib"] == {"asked": "0.10.2", "table": "0.10.2"}
    assert (data["reader"], data["state"], data["default"]) == ("XLA", "taken", "95")
    assert data["flag"]["type"] == "int32"
    assert [verdict["is_default"] for verdict in data["verdicts"]] == [True, True]
    assert data["about"]["sources"]
    assert {"since", "until", "chips", "holds", "text"} == set(data["about"]["notes"][0])
    _, nothing = shown(capsys, "xla_gpu_shape_checks", *OLD)
    assert nothing["about"] is None
    assert data.keys() == nothing.keys()


def test_an_error_names_the_argument_and_the_nearest_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, first, named in (
        (("show", SCHEDULER, "--chip", "abacus"), "abacus", ""),
        (("show", "xla_gpu_enable_triton_gem", *OLD), "", "xla_gpu_enable_triton_gemm"),
        (("diff", "0.6.2", "9"), "error: 9: ", ""),
    ):
        assert main(["flags", *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert first in err.splitlines()[0]
        assert named in err
        assert "--jaxlib" not in err
