"""Other profilers are noticed before a run, from its environment and the machine's processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from counterpoint.pgle.making.contention import ProfilerConflict, conflicts, processes_here

NSYS = {"NSYS_PROFILING_SESSION_ID": "1234"}
INJECTED = {"CUDA_INJECTION64_PATH": "/opt/nvidia/nsight-systems/target-linux-x64/libToolsInj.so"}


def only(found: tuple[ProfilerConflict, ...]) -> ProfilerConflict:
    (conflict,) = found
    return conflict


def test_nothing_in_the_way_is_nothing_said() -> None:
    assert conflicts({"PATH": "/usr/bin", "CUDA_INJECTION64_PATH": ""}, ("bash", "python")) == ()


@pytest.mark.parametrize("environment", [NSYS, INJECTED, {**NSYS, **INJECTED}])
def test_nsight_systems_is_known_by_its_session_or_its_library(environment: dict[str, str]) -> None:
    conflict = only(conflicts(environment, ()))
    assert conflict.who == "Nsight Systems"
    assert conflict.certain
    assert "JAX_COMPILATION_CACHE_EXPECT_PGLE" in conflict.next


def test_from_jaxlib_0_12_on_two_may_subscribe() -> None:
    flag = "xla_gpu_enable_cupti_multi_subscriber"
    assert flag in only(conflicts(NSYS, (), jaxlib="0.12.0")).next
    assert not only(conflicts(NSYS, (), jaxlib="0.12.0")).certain
    assert flag not in only(conflicts(NSYS, (), jaxlib="0.10.2")).next


def test_another_injected_library_is_named() -> None:
    conflict = only(conflicts({"NVTX_INJECTION64_PATH": "/opt/tool.so"}, ()))
    assert "NVTX_INJECTION64_PATH=/opt/tool.so" in conflict.shown_by
    assert not conflict.certain


@pytest.mark.parametrize(
    "name", ["nv-hostengine", "dcgm-exporter", "dcgmproftester", "dcgmproftester12"]
)
def test_dcgm_is_to_be_paused(name: str) -> None:
    conflict = only(conflicts({}, ("bash", name)))
    assert conflict.who == "DCGM"
    assert "dcgmi profile --pause" in conflict.next


def test_a_name_that_the_kernel_cut_short_is_known() -> None:
    assert only(conflicts({}, ("compute-sanitiz",))).who == "compute-sanitizer"


def test_a_viewer_that_captures_is_told() -> None:
    assert "server" in only(conflicts({}, ("xprof",))).who


def test_each_has_a_remedy() -> None:
    everything = conflicts(NSYS, ("nv-hostengine", "compute-sanitizer", "tensorboard"))
    assert len(everything) == 4
    assert all(it.next and it.effect for it in everything)


def test_processes_of_this_machine_are_read(tmp_path: Path) -> None:
    for number, comm, command in (
        ("12", "compute-sanitiz", b"/opt/nvidia/compute-sanitizer\0--tool\0"),
        ("13", "kworker/0:1", b""),
    ):
        process = tmp_path / number
        process.mkdir()
        (process / "comm").write_text(f"{comm}\n")
        (process / "cmdline").write_bytes(command)
    (tmp_path / "14").mkdir()  # ended meanwhile
    (tmp_path / "sys").mkdir()
    names = processes_here(tmp_path)
    assert names == ("compute-sanitiz", "compute-sanitizer", "kworker/0:1")
    assert processes_here(tmp_path / "nowhere") == ()


@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="no /proc on this system")
def test_this_very_process_is_among_them() -> None:
    assert Path(f"/proc/{os.getpid()}/comm").read_text().strip() in processes_here()
