"""`counterpoint flags show`, through the command line."""

from __future__ import annotations

import json

import pytest

from counterpoint.cli.app import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["flags", "show", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_flag_is_shown_with_what_it_does_and_where_that_is_known_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(
        capsys, "--xla_gpu_enable_latency_hiding_scheduler=true", "--jaxlib", "0.10.2"
    )
    assert (code, err) == (0, "")
    assert "default           false (jaxlib 0.10.2)" in out
    assert "On Hopper and Blackwell, the scheduler runs by default" in out
    assert "  source     https://github.com/openxla/xla" in out
    assert "rule    FLAG302" in out
    assert out.splitlines()[-1].startswith("next: counterpoint run --settings ")


def test_notes_of_other_releases_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    older = run(capsys, "xla_gpu_enable_pipelined_all_gather", "--jaxlib", "0.10.2")[1]
    newer = run(capsys, "xla_gpu_enable_pipelined_all_gather", "--jaxlib", "0.12")[1]
    assert "false means default, not off" in newer
    assert "false is default and not off" not in older
    assert "no longer a compiler option" in newer


def test_a_replacement_that_the_release_lacks_says_since_when_and_is_not_proposed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    older = run(capsys, "xla_gpu_enable_pipelined_all_gather", "--jaxlib", "0.10.2")[1]
    newer = run(capsys, "xla_gpu_enable_pipelined_all_gather", "--jaxlib", "0.12")[1]
    assert "xla_gpu_pipeline_all_gather (from jaxlib 0.11.1 on)\n" in older
    assert "xla_gpu_pipeline_all_gather" not in older.splitlines()[-1]
    assert "xla_gpu_pipeline_all_gather\n" in newer
    assert newer.endswith("next: counterpoint flags show xla_gpu_pipeline_all_gather\n")


def test_notes_of_other_chips_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    name = "xla_gpu_enable_latency_hiding_scheduler"
    hopper = run(capsys, name, "--jaxlib", "0.10.2", "--chip", "H100")[1]
    ampere = run(capsys, name, "--jaxlib", "0.10.2", "--chip", "A100")[1]
    assert "On Hopper and Blackwell" in hopper
    assert "On chips before Hopper" not in hopper
    assert "On chips before Hopper" in ampere
    assert "On Hopper and Blackwell" not in ampere
    code, _, err = run(capsys, name, "--chip", "abacus")
    assert code == 2
    assert "unknown chip abacus" in err


def test_an_option_of_jax_comes_and_goes_with_releases(capsys: pytest.CaptureFixture[str]) -> None:
    name = "JAX_EXEC_TIME_OPTIMIZATION_EFFORT"
    assert "read by JAX\n" in run(capsys, name, "--jaxlib", "0.10.2")[1]
    assert "no longer read by JAX in jaxlib 0.12.0.1" in run(capsys, name, "--jaxlib", "0.12")[1]
    assert "not yet read by JAX in jaxlib 0.4.35" in run(capsys, name, "--jaxlib", "0.4.35")[1]


def test_a_value_that_changes_nothing_per_compile_is_said_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = run(capsys, "xla_gpu_enable_nccl_comm_splitting", "--jaxlib", "0.10.2")[1]
    assert "compiler_options  accepted without effect" in out


def test_a_removed_flag_says_what_happens_and_what_does_it_now(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "xla_gpu_enable_async_all_reduce=true", "--jaxlib", "0.10.2")
    assert code == 0
    assert "not in jaxlib 0.10.2" in out
    assert "unknown: XLA aborts. jaxlib 0.4.26 had it, 0.4.27 does not." in out
    assert "remove it: this is now the default" in out
    assert out.endswith("next: counterpoint flags show xla_gpu_disable_async_collectives\n")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nccl_nvls_enable=1", "read by NCCL"),
        ("jax_pgle_profiling_runs", 'jax.config.update("jax_pgle_profiling_runs", ...)'),
        ("megascale_grpc_premap_memory_bytes", "LIBTPU_INIT_ARGS="),
        ("--trainer.profiler", "read by Levanter"),
        ("net.ipv4.tcp_rmem", "read by the Linux kernel"),
        ("xla_gpu_shape_checks", "Counterpoint has no description of it"),
        ("TF_CPP_MAX_LOG_LEVEL", "not read by any program"),
        ("optimization_level", "only a compiler option in jaxlib 0.10.2"),
    ],
)
def test_settings_of_every_kind_are_shown(
    name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, name, "--jaxlib", "0.10.2")
    assert (code, err) == (0, "")
    assert told in out


def test_an_unknown_name_ends_with_2_and_the_nearest_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "xla_gpu_enable_triton_gem", "--jaxlib", "0.10.2")
    assert (code, out) == (2, "")
    assert "similar names: xla_gpu_enable_triton_gemm" in err


def test_json_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "xla_gpu_memory_limit_slop_factor=95", "--jaxlib", "0.10.2", "--json")[1]
    data = json.loads(out)
    assert data["schema"] == "counterpoint.flags.show/1"
    assert data["jaxlib"] == {"asked": "0.10.2", "table": "0.10.2"}
    assert (data["reader"], data["state"], data["default"]) == ("XLA", "taken", "95")
    assert data["flag"]["type"] == "int32"
    assert [verdict["is_default"] for verdict in data["verdicts"]] == [True, True]
    assert data["about"]["sources"]
    assert {"since", "until", "chips", "holds", "text"} == set(data["about"]["notes"][0])
    nothing = json.loads(run(capsys, "xla_gpu_shape_checks", "--jaxlib", "0.10.2", "--json")[1])
    assert nothing["about"] is None
    assert data.keys() == nothing.keys()


def test_an_unknown_release_of_diff_is_named_as_it_was_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["flags", "diff", "0.6.2", "9"])
    _, err = capsys.readouterr()
    assert code == 2
    assert err.startswith("error: 9: unknown release of jaxlib\n")
    assert "--jaxlib" not in err
