"""Requested settings count in a program, whatever it writes to its environment itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from command_line import in_process
from counterpoint.capture.environment import child_environment
from counterpoint.capture.launch import launch
from counterpoint.capture.ranks import local_world
from counterpoint.capture.request import RunRequest
from counterpoint.core import parse_json
from counterpoint.core.injection import PROGRAM, KeptVariables, flags_in, is_noted
from counterpoint.flags.settings import Settings
from counterpoint.report.flags.settings_document import counting
from counterpoint.runs.run import Run, RunSettings
from counterpoint.runs.setting_history import (
    INHERITED,
    REQUESTED,
    SCRIPT,
    SettingHistory,
    SettingWrite,
    histories_of,
    setting_histories,
)

ASKED = ("xla_a", "1", "--xla_a=1")


@pytest.fixture(autouse=True)
def environ() -> Generator[None]:
    before = dict(os.environ)
    for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "NCCL_ALGO"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ('--a=1  --b=\'x y\'\t--c="q\\"z" -d --a=3', {"a": "3", "b": "x y", "c": 'q"z', "d": ""}),
        ("--a= --b", {"a": "", "b": ""}),
        ("--a=1 stray --b=2", {"a": "1"}),
        ("", {}),
        (" \n", {}),
    ],
)
def test_flags_are_read_as_xla_reads_them(text: str, flags: dict[str, str]) -> None:
    assert flags_in(text) == flags


def test_libtpu_reads_on_after_a_stray_word() -> None:
    assert flags_in("--a=1 stray --b=2", "LIBTPU_INIT_ARGS") == {"a": "1", "b": "2"}


def test_flags_that_a_script_exports_stay_and_the_requested_ones_come_last() -> None:
    os.environ["XLA_FLAGS"] = "--xla_b=2 --xla_a=0"
    KeptVariables({"XLA_FLAGS": [ASKED]}).install()
    assert os.environ["XLA_FLAGS"] == "--xla_b=2 --xla_a=0 --xla_a=1"


@pytest.mark.parametrize(
    ("written", "restored"),
    [
        ("--xla_a=1 --xla_b=2", "--xla_a=1 --xla_b=2"),  # nothing was overridden
        ("--xla_b=2 --xla_a=0", "--xla_b=2 --xla_a=0 --xla_a=1"),
        ("--xla_c=3", "--xla_c=3 --xla_a=1"),
        (None, "--xla_a=1"),
    ],
)
def test_a_program_that_replaces_or_removes_flags_gets_them_again(
    written: str | None, restored: str
) -> None:
    kept = KeptVariables({"XLA_FLAGS": [ASKED]})
    kept.install()
    assert os.environ["XLA_FLAGS"] == "--xla_a=1"
    if written is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = written
    kept.restore()
    assert os.environ["XLA_FLAGS"] == restored
    changed = [] if written == "--xla_a=1" else [written]
    assert [write["value"] for write in kept.writes] == changed
    kept.restore()
    assert len(kept.writes) == len(changed)  # what is put back is no change of the program


def test_flags_come_before_a_word_at_which_xla_stops() -> None:
    os.environ["XLA_FLAGS"] = "--xla_b=2 stray"
    KeptVariables({"XLA_FLAGS": [ASKED]}).install()
    assert flags_in(os.environ["XLA_FLAGS"]) == {"xla_a": "1", "xla_b": "2"}


def test_a_file_of_flags_is_replaced_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "flags.txt"
    file.write_text("--xla_b=2\n--xla_c=3\n")
    os.environ["XLA_FLAGS"] = str(file)
    KeptVariables({"XLA_FLAGS": [ASKED]}).install()
    assert os.environ["XLA_FLAGS"] == "--xla_b=2 --xla_c=3 --xla_a=1"


def test_an_optional_flag_is_the_programs_to_set() -> None:
    dump = ("xla_dump_to", "/run", "--xla_dump_to=/run")
    os.environ["XLA_FLAGS"] = "--xla_dump_to=/own"
    KeptVariables({"XLA_FLAGS": [dump]}, optional=("xla_dump_to",)).install()
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=/own"


def test_variables_are_put_back_even_of_an_environment_that_is_cleared() -> None:
    kept = KeptVariables({"XLA_FLAGS": [ASKED]}, variables={"NCCL_ALGO": "Tree"})
    kept.install()
    os.environ["NCCL_ALGO"] = "Ring"
    kept.restore()
    assert os.environ["NCCL_ALGO"] == "Tree"
    os.environ.clear()
    kept.restore()
    assert dict(os.environ) == {"XLA_FLAGS": "--xla_a=1", "NCCL_ALGO": "Tree"}


def test_of_flags_those_count_that_xla_has_read() -> None:
    """Of variables those that the process has: NCCL reads its own later."""
    kept = KeptVariables({"XLA_FLAGS": [ASKED]}, variables={"NCCL_ALGO": "Tree"})
    kept.install()
    kept.restore_last()
    os.environ.update({"XLA_FLAGS": "--xla_a=0", "NCCL_ALGO": "Ring"})
    assert kept.facts()["values"] == {"XLA_FLAGS": "--xla_a=1", "NCCL_ALGO": "Ring"}
    assert [write["name"] for write in kept.writes] == ["NCCL_ALGO"]


def hiding(own: dict[str, str], passed: str) -> KeptVariables:
    os.environ.update(own)
    os.environ["XLA_FLAGS"] = passed
    kept = KeptVariables({"XLA_FLAGS": [ASKED]}, passed={"XLA_FLAGS": passed}, before=own)
    kept.install()
    return kept


def test_a_default_that_the_program_sets_counts_as_it_does_without_us() -> None:
    kept = hiding({}, "--xla_a=1")
    os.environ.setdefault("XLA_FLAGS", "--xla_b=2")
    kept.restore()
    assert os.environ["XLA_FLAGS"] == "--xla_b=2 --xla_a=1"
    (write,) = kept.writes
    assert write["value"] == "--xla_b=2 --xla_a=1"  # the one that was hidden stays


def test_until_jax_is_there_the_program_finds_its_own_flags() -> None:
    own = {"XLA_FLAGS": "--xla_b=2"}
    kept = hiding(own, "--xla_b=2 --xla_a=1")
    assert os.environ["XLA_FLAGS"] == "--xla_b=2"
    # In a process that the program starts, they are hidden already.
    passed = {**os.environ, "XLA_FLAGS": "--xla_b=2 --xla_a=1"}
    child = KeptVariables({"XLA_FLAGS": [ASKED]}, passed=passed, before=own)
    child.install()
    assert os.environ["XLA_FLAGS"] == "--xla_b=2"
    assert child.at_start == {}
    kept.restore()
    assert os.environ["XLA_FLAGS"] == "--xla_b=2 --xla_a=1"
    assert kept.writes == []


def test_a_value_of_a_hidden_flag_that_the_program_sets_is_noted() -> None:
    kept = hiding({}, "--xla_a=1")
    os.environ["XLA_FLAGS"] = "--xla_a=0"
    kept.restore()
    assert os.environ["XLA_FLAGS"] == "--xla_a=0 --xla_a=1"
    assert [write["value"] for write in kept.writes] == ["--xla_a=0"]


def test_without_settings_nothing_is_set() -> None:
    KeptVariables({"XLA_FLAGS": []}).install()
    assert "XLA_FLAGS" not in os.environ


def test_changes_are_noted_with_who_made_them() -> None:
    kept = KeptVariables()
    kept.install()
    os.environ.update({"NCCL_ALGO": "Ring", "UNRELATED": "1"})
    kept.restore()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "7"
    kept.compare("jax")
    assert kept.writes == [
        {"name": "NCCL_ALGO", "value": "Ring", "by": PROGRAM},
        {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "7", "by": "jax"},
    ]


def test_what_the_shell_has_anyway_is_the_scripts_to_change(tmp_path: Path) -> None:
    settings = Settings((("xla_a", "1"), ("xla_b", "2")), (("NCCL_ALGO", "Tree"), ("FREE", "1")))
    inherited = {"PATH": os.environ["PATH"], "XLA_FLAGS": "--xla_a=1", "NCCL_ALGO": "Tree"}
    request = RunRequest(("true",), tmp_path, settings=settings)
    seat = local_world(1, 0).seats[0]
    made = child_environment(request, inherited, seat, tmp_path).variables
    kept = parse_json(made["COUNTERPOINT_AGENT_SETTINGS"])
    names = [name for name, _, _ in kept["flags"]["XLA_FLAGS"]]
    assert names == ["xla_b", "xla_dump_to", "xla_dump_hlo_as_proto"]
    assert kept["variables"] == {}
    assert kept["optional"] == ["xla_dump_to", "xla_dump_hlo_as_proto"]


OVERRIDDEN = """
import os, sys
sys.path.insert(0, os.environ["PLACE"])
import easydel
import jax
jax.jit(lambda x: x + 1)(1.0)
"""
TRAINER = """
import os
os.environ["XLA_FLAGS"] = os.getenv("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
os.environ.update({"NCCL_PROTO": "LL"})
"""


@pytest.fixture(scope="module")
def overridden(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A program under a script that exports flags, with a trainer that sets more of them."""
    place = tmp_path_factory.mktemp("overridden")
    packages = place / "site-packages" / "easydel"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text(TRAINER)
    (place / "train.py").write_text(OVERRIDDEN)
    (place / "run.sh").write_text(
        "export XLA_FLAGS='--xla_cpu_enable_fast_math=true --xla_gpu_enable_triton_gemm=true'\n"
        f"exec '{sys.executable}' '{place / 'train.py'}'\n"
    )
    settings = Settings((("xla_gpu_enable_triton_gemm", "false"),), (("NCCL_ALGO", "Tree"),))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "JAX_PLATFORMS": "cpu",
        "PLACE": str(packages.parent),
        "XLA_FLAGS": "--xla_gpu_graph_min_graph_size=2 --xla_gpu_graph_min_graph_size=3",
        "NCCL_PROTO": "Simple",
        "NCCL_ALGO": "Ring",
    }
    return launch(
        RunRequest(
            ("bash", str(place / "run.sh")),
            place / "run",
            settings=settings,
            window=None,
            echo=False,
            environment=environment,
        )
    )


@pytest.mark.system
@pytest.mark.smoke
def test_a_script_that_exports_flags_does_not_keep_ours_out(overridden: Run) -> None:
    process = overridden.ranks[0].processes[0]
    flags = flags_in(str(process.facts["xla_flags"]))
    assert flags["xla_gpu_enable_triton_gemm"] == "false"
    assert flags["xla_cpu_enable_fast_math"] == "true"  # the script's own stays
    assert overridden.ranks[0].hlo
    assert not any("did not reach" in note for note in overridden.notes)


LATE = """
import os
os.environ["JAX_ENABLE_X64"] = "0"
import jax
os.environ["XLA_FLAGS"] = "--xla_gpu_enable_triton_gemm=true --xla_gpu_autotune_level=0"
os.environ["NCCL_ALGO"] = "Ring"
jax.devices()
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=1"
os.environ["NCCL_ALGO"] = "CollnetChain"
jax.jit(lambda x: x + 1)(1.0)
"""


@pytest.mark.system
def test_flags_that_a_program_sets_between_jax_and_its_first_device_do_not_keep_ours_out(
    tmp_path: Path,
) -> None:
    """Those that it sets later are read by nobody; a variable of NCCL is, and is told."""
    (tmp_path / "train.py").write_text(LATE)
    settings = Settings(
        (("xla_gpu_enable_triton_gemm", "false"),),
        (("NCCL_ALGO", "Tree"), ("JAX_ENABLE_X64", "1")),
    )
    run = launch(
        RunRequest(
            (sys.executable, str(tmp_path / "train.py")),
            tmp_path / "run",
            settings=settings,
            window=None,
            echo=False,
            environment={"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"},
        )
    )
    (process,) = run.ranks[0].processes
    assert process.facts["failures"] == []
    flags = flags_in(str(process.facts["xla_flags"]))
    assert flags["xla_gpu_enable_triton_gemm"] == "false"
    assert flags["xla_gpu_autotune_level"] == "0"
    assert run.ranks[0].hlo
    facts: Any = process.facts["settings"]
    assert facts["options"] == {"JAX_ENABLE_X64": True}
    missing = [note for note in run.notes if "did not reach" in note]
    assert missing == [
        "NCCL_ALGO=Tree did not reach the program: it sets NCCL_ALGO=CollnetChain itself"
    ]
    (late,) = [note for note in run.notes if "in vain" in note]
    assert late.startswith("--xla_gpu_autotune_level=1: set by the program after XLA had read")


@pytest.mark.system
def test_each_flag_has_its_history(overridden: Run) -> None:
    process = overridden.ranks[0].processes[0]
    rank = overridden.ranks[0]
    found = {
        history.name: history for history in setting_histories(overridden.settings, process, rank)
    }
    triton = found["xla_gpu_enable_triton_gemm"]
    assert [(write.by, write.value) for write in triton.writes] == [
        (REQUESTED, "false"),
        (SCRIPT, "true"),
        (REQUESTED, "false"),
    ]
    assert found["xla_cpu_enable_fast_math"].last.by == SCRIPT
    assert found["xla_gpu_autotune_level"].last.by == PROGRAM
    assert [(write.by, write.value) for write in found["xla_gpu_graph_min_graph_size"].writes] == [
        (INHERITED, "2"),
        (INHERITED, "3"),
        (SCRIPT, None),
    ]
    assert [(write.by, write.value) for write in found["NCCL_ALGO"].writes] == [
        (INHERITED, "Ring"),
        (REQUESTED, "Tree"),
    ]
    assert found["NCCL_PROTO"].last.value == "LL"
    assert "xla_dump_to" not in found


def writes(passed: str, settings: RunSettings, variable: str = "XLA_FLAGS") -> dict[str, list[Any]]:
    """The writes of each flag of a program that changes nothing, after an inherited --a=0."""
    facts = {"passed": {variable: passed}}
    found = histories_of(facts, settings, None, {variable: "--a=0 --gone=1"})
    return {it.name: [(write.by, write.value) for write in it.writes] for it in found}


def test_a_flag_that_the_shell_or_the_command_repeats_is_there_each_time() -> None:
    settings = RunSettings((("a", "2"), ("a", "3"), ("b", "1")))
    passed = "--a=0 --gone=1 --a=1 --b=1 --a=2 --a=3 --b=1"
    assert writes(passed, settings) == {
        "a": [(INHERITED, "0"), (INHERITED, "1"), (REQUESTED, "2"), (REQUESTED, "3")],
        "gone": [(INHERITED, "1")],
        "b": [(INHERITED, "1"), (REQUESTED, "1")],
    }


def test_flags_of_libtpu_that_the_command_replaces_are_there() -> None:
    settings = RunSettings((), (("LIBTPU_INIT_ARGS", "--a=1 --a=2"),))
    assert writes("--a=1 --a=2", settings, "LIBTPU_INIT_ARGS") == {
        "a": [(INHERITED, "0"), (REQUESTED, "1"), (REQUESTED, "2")],
        "gone": [(INHERITED, "1"), (REQUESTED, None)],
    }


@pytest.mark.parametrize(
    ("name", "values", "counts"),
    [
        ("xla_gpu_autotune_level", ["1", "2", "3"], [False, False, True]),
        ("xla_disable_hlo_passes", ["cse", "dce"], [True, True]),
        ("xla_disable_hlo_passes", ["cse", None, "dce"], [False, False, True]),
        ("xla_gpu_enable_command_buffer", ["FUSION", "CUBLAS"], [False, True]),
        ("xla_gpu_enable_command_buffer", ["FUSION", "+CUBLAS"], [True, True]),
    ],
)
def test_values_that_xla_combines_count_all(
    name: str, values: list[str | None], counts: list[bool]
) -> None:
    history = SettingHistory(name, "XLA_FLAGS", tuple(SettingWrite(it, "x") for it in values))
    assert counting(history) == counts


@pytest.mark.system
def test_a_setting_of_the_user_that_does_not_count_is_noted_with_its_remedy(
    overridden: Run,
) -> None:
    notes = "\n".join(overridden.notes)
    proto, graph = (
        next(note for note in overridden.notes if note.startswith(name))
        for name in ("NCCL_PROTO=Simple ", "--xla_gpu_graph_min_graph_size=3 ")
    )
    assert "the program sets it to LL" in proto
    assert "--env" in proto
    assert "the launch script" in graph
    assert "--set" in graph
    assert "flags in XLA_FLAGS: 1 from requested" not in notes
    assert "1 from the program" in notes


@pytest.mark.system
def test_effective_flags_say_who_set_them(overridden: Run) -> None:
    done = in_process("flags", "effective", str(overridden.path), "--json")
    found = parse_json(done.stdout)
    by = {flag["name"]: flag["set_by"] for flag in found["flags"]}
    assert by["xla_cpu_enable_fast_math"] == SCRIPT
    assert by["xla_gpu_enable_triton_gemm"] == REQUESTED
    triton = [write for write in found["writes"] if write["name"] == "xla_gpu_enable_triton_gemm"]
    assert [write["counts"] for write in triton] == [False, False, True]
    shown = in_process("flags", "effective", str(overridden.path)).stdout
    assert "Set more than" in shown
    assert "the program" in shown


@pytest.mark.parametrize(
    ("name", "value", "noted"),
    [
        ("NCCL_ALGO", "Ring", True),
        ("JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY", "1", True),
        ("TF_CPP_MIN_LOG_LEVEL", "1", True),
        ("TF_VAR_db", "x", False),  # Terraform's
        ("TPU_API_KEY", "x", False),
        ("NCCL_TOKEN", None, False),
        ("JAX_COORDINATOR", "http://me:word@host:7", False),
        ("JAX_COORDINATOR", "http://host:7", True),
        ("XLA_NOTE", "ghp_0123456789abcdef", False),
        ("HOME", "/me", False),
    ],
)
def test_secrets_are_not_noted(name: str, value: str | None, noted: bool) -> None:
    assert is_noted(name, value) is noted
