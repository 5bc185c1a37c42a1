"""What a compiler reports, held against what was asked: by hand, and by compilers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.cli.app import main
from counterpoint.flags.catalogue.lookup import release
from counterpoint.flags.effective import EffectiveFlag, FlagOutcome, compare, differences
from counterpoint.flags.settings import Settings
from counterpoint.runs.reports import parse_debug_options
from xla_compiler import Compiler, why_none

Effective = Callable[..., tuple[int, str, str]]

STEP = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: (x @ x).sum())
other = jax.jit(lambda x: jnp.sin(x).sum(), compiler_options={"xla_cpu_enable_fast_math": True})
x = jnp.ones((64, 64))
step(x).block_until_ready()
other(x).block_until_ready()
"""


def used(
    asked: dict[str, str], reported: dict[str, str], version: str = "0.10.2"
) -> list[EffectiveFlag]:
    return [*compare(Settings(tuple(asked.items())), reported, release(version))]


def outcome(
    name: str, asked: str, reported: dict[str, str], version: str = "0.10.2"
) -> tuple[FlagOutcome, str | None]:
    (one, *_) = used({name: asked}, reported, version)
    return one.outcome, one.used


AUTOTUNE = "xla_gpu_autotune_level"
BUFFERS = "xla_gpu_enable_command_buffer"
SYNC = "xla_gpu_disable_async_collectives"
PASSES = "xla_disable_hlo_passes"
OPTIONS = "xla_gpu_analytical_latency_estimator_options"


@pytest.mark.parametrize(
    ("name", "asked", "reported", "expected", "value"),
    [
        (AUTOTUNE, "0", "0", FlagOutcome.APPLIED, "0"),
        (AUTOTUNE, "0", "2", FlagOutcome.ALTERED, "2"),
        (AUTOTUNE, "0", None, FlagOutcome.IGNORED, "4"),
        (AUTOTUNE, "4", None, FlagOutcome.DEFAULT, "4"),
        ("xla_gpu_autotune_gemm_rtol", "0.2", "0.200000", FlagOutcome.APPLIED, "0.200000"),
        (BUFFERS, "", None, FlagOutcome.UNSEEN, None),
        (BUFFERS, "fusion,cublas", "CUBLAS,FUSION", FlagOutcome.APPLIED, "CUBLAS,FUSION"),
        (BUFFERS, "FUSION", "FUSION,CUBLAS", FlagOutcome.ALTERED, "FUSION,CUBLAS"),
        (SYNC, "allreduce", "ALLREDUCE", FlagOutcome.APPLIED, "ALLREDUCE"),
        (SYNC, "allreduce", None, FlagOutcome.IGNORED, ""),
        (PASSES, "dce", "rematerialization", FlagOutcome.ALTERED, "rematerialization"),
        (PASSES, "dce", "dce,rematerialization", FlagOutcome.APPLIED, "dce,rematerialization"),
        (OPTIONS, "rtt_us=3", "gpus_per_node=-1,rtt_us=3", FlagOutcome.APPLIED, None),
        ("xla_gpu_executable_warn_stuck_timeout", "5", None, FlagOutcome.IGNORED, "10"),
        ("xla_fuel", "cse=3", None, FlagOutcome.UNSEEN, None),
        ("xla_gpu_enable_cudnn_fmha", "true", None, FlagOutcome.IGNORED, None),
        ("xla_gpu_no_such_flag", "true", None, FlagOutcome.UNSEEN, None),
    ],
)
def test_a_flag_that_was_asked(
    name: str, asked: str, reported: str | None, expected: FlagOutcome, value: str | None
) -> None:
    found, shown = outcome(name, asked, {} if reported is None else {name: reported})

    assert found is expected
    if value is not None:
        assert shown == value


def test_changes_of_a_list_are_held_against_its_default() -> None:
    default = release("0.10.2").flags[BUFFERS].default
    left = ",".join(name for name in default.split(",") if name != "CUDNN")

    assert outcome(BUFFERS, "-CUDNN", {BUFFERS: left})[0] is FlagOutcome.APPLIED
    assert outcome(BUFFERS, "+CUDNN", {})[0] is FlagOutcome.DEFAULT


@pytest.mark.parametrize(
    ("asked", "reported", "expected"),
    [
        ("true", "COLLECTIVE_PIPELINING_MODE_ON", FlagOutcome.APPLIED),
        ("true", "COLLECTIVE_PIPELINING_MODE_OFF", FlagOutcome.ALTERED),
        ("false", None, FlagOutcome.DEFAULT),
    ],
)
def test_an_old_name_is_looked_for_under_its_new_one(
    asked: str, reported: str | None, expected: FlagOutcome
) -> None:
    there = {} if reported is None else {"xla_gpu_pipeline_all_gather": reported}
    assert outcome("xla_gpu_enable_pipelined_all_gather", asked, there, "0.12.0")[0] is expected


def test_what_was_not_asked_is_told_with_who_may_have_set_it() -> None:
    reported = {AUTOTUNE: "0", "xla_detailed_logging": "false", "xla_gpu_enable_cublaslt": "x"}
    reported |= {PASSES: "rematerialization", "xla_gpu_memory_limit_slop_factor": "95"}
    found = {one.name: one for one in used({}, reported)}

    assert {one.outcome for one in found.values()} == {FlagOutcome.ELSEWHERE}
    assert found["xla_detailed_logging"].note == "JAX"
    assert "remat_pass" in found[PASSES].note
    assert "compiler_options" in found[AUTOTUNE].note
    assert "xla_gpu_memory_limit_slop_factor" not in found  # it has its default


def test_compiler_options_have_the_last_word_about_what_is_asked() -> None:
    asked = Settings(((AUTOTUNE, "0"),), options=((AUTOTUNE, "2"),))
    (one,) = compare(asked, {AUTOTUNE: "2"}, release("0.10.2"))
    assert one.outcome is FlagOutcome.APPLIED


def test_modules_that_differ() -> None:
    (one,) = differences({"a": {AUTOTUNE: "0", PASSES: "dce"}, "b": {PASSES: "dce"}})
    assert one.name == AUTOTUNE
    assert one.by_module == {"a": "0", "b": None}


def test_a_map_is_read_entry_by_entry() -> None:
    text = f'{OPTIONS}: {{\n  key: "rtt_us"\n  value: "3"\n}}\nxla_dump_to: "/d"\n'
    text += f'{OPTIONS} {{\n  key: "gpus_per_node"\n  value: "-1"\n}}\n'
    assert parse_debug_options(text) == {OPTIONS: "rtt_us=3,gpus_per_node=-1", "xla_dump_to": "/d"}


@pytest.fixture
def effective(capsys: pytest.CaptureFixture[str]) -> Effective:
    """The command line: exit code, result, talk."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["flags", "effective", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("effective")
    (place / "step.py").write_text(STEP)
    words = ["--set", "xla_disable_hlo_passes=dce", "--set", f"{AUTOTUNE}=4"]
    words += ["--set", "xla_gpu_enable_triton_gemm=false"]
    words += ["--env", "JAX_PLATFORMS=cpu", "--env", "JAX_COMPILER_ENABLE_REMAT_PASS=false"]
    command = ["run", "-o", place / "run", *words, "--", sys.executable, place / "step.py"]
    assert in_process(*command).returncode == 0
    return place / "run"


@pytest.mark.smoke
def test_a_run_tells_what_was_lost_and_who_took_it(a_run: Path, effective: Effective) -> None:
    code, out, _ = effective(str(a_run), "--module", "jit__lambda", "--json")
    told = json.loads(out)
    by_name = {one["name"]: one for one in told["flags"]}

    assert code == 1  # JAX took the list of passes away
    assert by_name["xla_disable_hlo_passes"]["outcome"] == "altered"
    assert by_name["xla_disable_hlo_passes"]["used"] == "rematerialization"
    assert by_name["xla_gpu_enable_triton_gemm"]["outcome"] == "applied"
    assert by_name[AUTOTUNE]["outcome"] == "default"
    assert by_name["xla_detailed_logging"]["note"] == "JAX"
    assert by_name["xla_cpu_enable_fast_math"]["outcome"] == "elsewhere"
    assert [one["name"] for one in told["differences"]] == ["xla_cpu_enable_fast_math"]
    assert len(told["modules"]) > 2


@pytest.mark.system
def test_a_dump_is_held_against_a_script(a_run: Path, tmp_path: Path, effective: Effective) -> None:
    (tmp_path / "job.sh").write_text(f"export XLA_FLAGS='--{AUTOTUNE}=2'\n")
    dump = str(a_run / "rank0" / "xla")
    lost = effective(dump, "--asked", str(tmp_path / "job.sh"))
    bare = effective(dump)
    quoted = effective(dump, "--asked", "--xla_disable_hlo_passes=dce")

    assert (lost[0], bare[0], quoted[0]) == (1, 0, 1)
    assert "ignored" in lost[1]
    assert "requested  unknown" in bare[1]
    assert "--asked" in bare[1]


@pytest.mark.parametrize(
    ("files", "words", "code", "said"),
    [
        ((), (), 3, ".debug_options"),
        (("module_0001.jit_x.before_optimizations.txt",), (), 3, "write their flags"),
        (("module_0001.jit_x.debug_options",), ("--module", "jit_y"), 2, "no module jit_y"),
    ],
    ids=["empty", "older", "module"],
)
def test_what_is_no_dump(
    files: tuple[str, ...],
    words: tuple[str, ...],
    code: int,
    said: str,
    tmp_path: Path,
    effective: Effective,
) -> None:
    for name in files:
        (tmp_path / name).write_text('xla_dump_to: "/d"\n')
    ended, _, err = effective(str(tmp_path), *words)

    assert ended == code
    assert said in err


def test_what_is_not_there(effective: Effective) -> None:
    code, _, err = effective("no/such/dump")
    assert code == 3  # as for a source that is missing in the other commands
    assert "no/such/dump" in err


@pytest.mark.parametrize("content", [b"garbage \xff{", b"garbage {", b"\x00\x01", b"xla_a = 1\n"])
def test_a_file_that_is_none_of_xlas_is_an_error(
    content: bytes, tmp_path: Path, effective: Effective
) -> None:
    path = tmp_path / "module_0001.jit_x.debug_options"
    path.write_bytes(content)
    code, _, err = effective(str(path))
    assert code == 3
    assert path.name in err


def test_the_main_module_is_the_one_of_which_xla_was_given_most(
    tmp_path: Path, effective: Effective
) -> None:
    """Its own compile may come to less than one of JAX's."""
    for name, before, after in (("jit__lambda", 2906, 3766), ("jit__multi_slice", 1735, 4374)):
        (tmp_path / f"module_1.{name}.debug_options").write_text(f'xla_dump_to: "/{name}"\n')
        (tmp_path / f"module_1.{name}.before_optimizations.hlo.pb").write_bytes(bytes(before))
        (tmp_path / f"module_1.{name}.cpu_after_optimizations.hlo.pb").write_bytes(bytes(after))
    _, out, _ = effective(str(tmp_path), "--json")
    assert json.loads(out)["module"] == "module_1.jit__lambda"


def test_a_compiler_option_has_an_effect_that_the_flag_of_its_name_has_not() -> None:
    name = "xla_cpu_enable_fast_min_max"
    reported, known = {name: "false"}, release("0.10.2")
    (option,) = compare(Settings(options=((name, "False"),)), reported, known)
    (flag,) = compare(Settings(((name, "false"),)), reported, known)
    assert (option.outcome, flag.outcome) == (FlagOutcome.APPLIED, FlagOutcome.IGNORED)


def test_where_all_of_xla_flags_is_known_it_is_not_named_as_the_one_that_set_more() -> None:
    reported, known = {"xla_gpu_autotune_level": "1"}, release("0.10.2")
    (one,) = compare(Settings(), reported, known)
    (of_a_run,) = compare(Settings(), reported, known, all_flags=True)
    assert one.note.startswith("XLA_FLAGS, ")
    assert of_a_run.note == one.note.removeprefix("XLA_FLAGS, ")


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Generator[Compiler]:
    reason = why_none()
    if reason:
        pytest.skip(reason)
    flags = {"XLA_FLAGS": "--xla_gpu_graph_min_graph_size=3"}
    made = Compiler(tmp_path_factory.mktemp("compiler"), flags)
    yield made
    made.close()


def test_the_compiler_for_gpus_reports_what_its_compile_was_told(
    compiler: Compiler, tmp_path: Path, effective: Effective
) -> None:
    dump = tmp_path / "dump"
    compiler.compile("small", xla_dump_to=str(dump), xla_gpu_enable_command_buffer="FUSION")
    asked = "--xla_gpu_graph_min_graph_size=3 --xla_gpu_enable_command_buffer=CUBLAS"
    code, out, _ = effective(str(dump), "--asked", asked, "--json")
    found = {one["name"]: one["outcome"] for one in json.loads(out)["flags"]}

    assert code == 1
    assert found["xla_gpu_graph_min_graph_size"] == "applied"
    assert found["xla_gpu_enable_command_buffer"] == "altered"
    assert found["xla_dump_to"] == "elsewhere"


def test_what_rules_say_of_pairs_of_flags_the_compiler_does(compiler: Compiler) -> None:
    """FLAG303, FLAG305 and FLAG407."""
    cublas = compiler.compile("small", xla_gpu_enable_triton_gemm=False)
    level = compiler.compile(
        "small", xla_gpu_enable_triton_gemm=False, xla_gpu_cudnn_gemm_fusion_level=3
    )
    assert level.program.fingerprint == cublas.program.fingerprint
    triton = compiler.compile("small", xla_gpu_enable_triton_gemm=True)
    assert triton.program.fingerprint != cublas.program.fingerprint

    assert compiler.compile("small", xla_disable_hlo_passes="no-such-pass").error is None

    unrolled = compiler.compile(
        "small",
        xla_gpu_enable_while_loop_double_buffering=True,
        xla_gpu_enable_while_loop_unrolling="WHILE_LOOP_UNROLLING_FULL_UNROLL",
    )
    assert "Overriding double buffering" in unrolled.log
