"""Compiles that are kept: what makes two the same, and that no damage comes of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.compile import cache as kept
from counterpoint.compile.cache import fingerprint
from counterpoint.compile.compiler import compile_workload
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.job import ProgramForm
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.core.cache import cache_directory
from counterpoint.hardware.targets import parse_target
from lowered import H100, Lowered

TRITON_GEMM = "xla_gpu_enable_triton_gemm"
TASK = CompileTask(
    workload=Workload(
        name="jit_step", form=ProgramForm.MLIR, program=b"module {}", origin="step.mlir"
    ),
    target=H100,
)
"""What is never compiled: only its fingerprint is looked at."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "compile"


@pytest.fixture
def plain(lowered: Lowered) -> CompileTask:
    return CompileTask(workload=load_workload(lowered.ir), target=H100)


def entries(cache: Path) -> list[Path]:
    return [it for it in cache.rglob("*") if it.is_file()]


def test_the_second_time_it_is_there_with_all_that_was_told(
    cache: Path, plain: CompileTask
) -> None:
    loud = {"TF_CPP_MIN_LOG_LEVEL": "0"}
    first = compile_workload(plain.workload, H100, {TRITON_GEMM: "false"}, loud)
    again = compile_workload(plain.workload, H100, {TRITON_GEMM: "false"}, loud)
    assert (first.from_cache, again.from_cache) == (False, True)
    assert again.hlo == first.hlo
    assert again.log == first.log != ""
    assert (again.memory, again.notes, again.options) == (first.memory, first.notes, first.options)
    assert (again.versions, again.seconds) == (first.versions, first.seconds)
    assert again.wall_s < first.wall_s
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    half = len(whole) // 2
    changed = whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]
    for damage in (b"", b"no zip", whole[:half], changed):
        entry.write_bytes(damage)
        assert kept.find(replace(plain, options={TRITON_GEMM: "false"}, environment=loud)) is None


@pytest.mark.usefixtures("cache")
def test_what_comes_from_the_cache_says_so_and_tells_nothing_of_the_rest(
    plain: CompileTask,
) -> None:
    compile_workload(plain.workload, H100)
    told: list[str] = []
    other = replace(plain, options={TRITON_GEMM: "false"})
    list(compile_all([plain, other], jobs=1, say=told.append))
    assert told[0] == "compiled 1 of 2 (from the cache)"
    assert re.fullmatch(r"compiled 2 of 2 \(\d+\.\d s\)", told[1])


def test_a_directory_that_cannot_be_written_is_done_without(
    tmp_path: Path, plain: CompileTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    monkeypatch.setenv("COUNTERPOINT_CACHE", str(blocked))
    assert not compile_workload(plain.workload, H100).from_cache
    assert blocked.read_text() == "no directory"


def test_everything_that_a_compile_depends_on_makes_another(tmp_path: Path) -> None:
    profile = tmp_path / "profile.pbtxt"
    profile.write_text("one")
    plain, workload = TASK, TASK.workload
    asked = {"xla_gpu_pgle_profile_file_or_directory_path": str(profile)}
    tasks = [
        plain,
        replace(plain, options={TRITON_GEMM: "false"}),
        replace(plain, options=asked),
        replace(plain, environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.9"}),
        replace(plain, environment={"TF_CPP_MIN_LOG_LEVEL": "0"}),
        replace(plain, target=parse_target("8xB200")),
        replace(plain, target=parse_target("2x4xH100")),
        replace(plain, workload=replace(workload, program=workload.program + b" ")),
        replace(plain, workload=replace(workload, options={TRITON_GEMM: "false"})),
    ]
    hashes = [fingerprint(task) for task in tasks]
    profile.write_text("another")
    hashes.append(fingerprint(replace(plain, options=asked)))
    assert None not in hashes
    assert len(set(hashes)) == len(tasks) + 1
    assert fingerprint(plain) == fingerprint(replace(plain, timeout_s=1.0)) == hashes[0]


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"xla_dump_to": "dump"}, {}),
        ({}, {"XLA_FLAGS": "--xla_dump_to=dump"}),
        ({}, {"PYTHONPATH": "/other"}),
    ],
    ids=["dump", "dump by XLA_FLAGS", "other code"],
)
def test_what_writes_files_or_runs_other_code_is_not_kept(
    options: Mapping[str, str], environment: Mapping[str, str]
) -> None:
    assert fingerprint(replace(TASK, options=options, environment=environment)) is None


def test_the_least_recently_used_go_first(
    cache: Path, plain: CompileTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_workload(plain.workload, H100)
    recorded = kept.find(plain)
    assert recorded is not None
    (entry,) = entries(cache)
    os.utime(entry, (1, 1))
    old = replace(plain, options={TRITON_GEMM: "true"})
    kept.keep(old, recorded)
    os.utime(next(it for it in entries(cache) if it != entry), (2, 2))
    assert kept.find(plain) is not None  # and so it is the younger one now
    monkeypatch.setattr(kept, "MOST_BYTES", int(2.5 * entry.stat().st_size))
    kept.keep(replace(plain, options={TRITON_GEMM: "false"}), recorded)
    assert kept.find(plain) is not None
    assert kept.find(old) is None


def test_where_compiles_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory("compile", {}) == tmp_path / ".cache/counterpoint/compile"
    assert cache_directory("compile", {"XDG_CACHE_HOME": "/x"}) == Path("/x/counterpoint/compile")
    assert cache_directory("compile", {"COUNTERPOINT_CACHE": "/y"}) == Path("/y/compile")
    assert cache_directory("compile", {"COUNTERPOINT_CACHE": "off"}) is None
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert cache_directory("compile", {}) is None


def test_a_workload_of_a_run_has_other_kernels() -> None:
    """The autotuner's choices count where they are used: on the very same kind of device."""
    tuned = replace(TASK.workload, autotuned=b"choices", config=H100.config)
    assert fingerprint(replace(TASK, workload=tuned)) != fingerprint(TASK)
    elsewhere = replace(tuned, config="another")
    assert fingerprint(replace(TASK, workload=elsewhere)) == fingerprint(TASK)
