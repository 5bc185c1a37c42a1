"""Many compiles at once: results as they come, and errors that stay with their candidate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.compile.capacity import usual_jobs
from counterpoint.compile.compiler import CompiledProgram, compile_on
from counterpoint.compile.failures import CompileFailed
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.compile.worker_slot import WorkerSlot
from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.hardware.targets import parse_target
from lowered import H100, Lowered

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("compiled_anew")]

COMBINE = "xla_gpu_all_gather_combine_threshold_bytes"
CRASH = {"xla_gpu_experimental_parallel_collective_overlap_limit": "0"}
MOCKED = """
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
    %0 = stablehlo.custom_call @my_attention(%arg0) {backend_config = "", mhlo.backend_config = {}}
        : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}
"""


@pytest.fixture(scope="module")
def workload(lowered: Lowered) -> Workload:
    return load_workload(lowered.ir)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers have their files, and nobody else."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def schedule(result: object) -> list[str]:
    assert isinstance(result, CompiledProgram), result
    return [it.name for it in result.program.instructions]


def workers(directory: Path) -> list[int]:
    """Workers of this machine that have files in a directory."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "counterpoint.compile.worker" in words and str(directory) in words:
            found.append(int(process.parent.name))
    return found


def waited(for_what: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not for_what() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(for_what())


def test_each_task_is_answered_and_an_error_is_that_of_its_candidate_alone(
    lowered: Lowered, workload: Workload, scratch: Path
) -> None:
    progress: list[str] = []
    options = [{}, {"xla_gpu_no_such": "1"}, CRASH, {COMBINE: "0"}, {COMBINE: "much"}, {}]
    tasks = [CompileTask(workload=workload, target=H100, options=it) for it in options]
    tasks.append(CompileTask(workload=workload, target=parse_target("4xH100")))
    results = dict(compile_all(tasks, jobs=2, say=progress.append))
    assert sorted(results) == list(range(7))
    plain = lowered.compile()
    assert schedule(results[0]) == schedule(results[5]) == schedule(plain)
    assert schedule(results[3]) != schedule(plain)
    kinds = {index: type(results[index]) for index in (1, 2, 4, 6)}
    assert kinds == {1: UsageError, 2: CompileFailed, 4: UsageError, 6: UsageError}
    assert "xla_gpu_no_such" in str(results[1])
    assert "Check failed" in str(results[2])
    assert progress[-1].startswith("compiled 7 of 7")
    assert list(scratch.iterdir()) == []
    assert workers(scratch) == []


def test_a_worker_that_stays_compiles_as_a_fresh_one_does(
    lowered: Lowered, workload: Workload, scratch: Path
) -> None:
    """One worker, three compiles; the last one is like the first, and nobody started anew."""
    seen: set[int] = set()
    values = ({}, {COMBINE: "0"}, {"xla_gpu_enable_triton_gemm": "0"}, {COMBINE: "1"})
    tasks = [CompileTask(workload=workload, target=H100, options=it) for it in values]
    results: dict[int, object] = {}
    for index, result in compile_all(tasks, jobs=1):
        results[index] = result
        seen.update(workers(scratch))
    assert len(seen) == 1
    assert schedule(results[0]) == schedule(lowered.compile())
    assert schedule(results[1]) == schedule(lowered.compile({COMBINE: "0"}))
    # Kernels of earlier compiles change no byte of a program, and a damaged file changes nothing.
    with WorkerSlot(shares_kernels=True) as slot:
        shared = [compile_on(slot, task) for task in tasks[:2]]
        kernels = slot.kernels(None)
        assert kernels is not None
        assert kernels.stat().st_size > 0
        kernels.write_bytes(b"damaged")
        damaged = compile_on(slot, tasks[0])
    with WorkerSlot() as slot:
        alone = [compile_on(slot, task) for task in tasks[:2]]
    assert [it.hlo for it in shared] == [it.hlo for it in alone]
    assert [it.memory for it in shared] == [it.memory for it in alone]
    assert schedule(damaged) == schedule(alone[0])


def test_a_task_whose_worker_dies_of_something_else_is_tried_again_alone(
    lowered: Lowered, workload: Workload, scratch: Path
) -> None:
    tasks = [
        CompileTask(workload=workload, target=H100, options={COMBINE: str(it)}) for it in (0, 1)
    ]
    results = compile_all(tasks, jobs=1)
    _, first = next(results)
    (worker,) = workers(scratch)
    os.kill(worker, signal.SIGKILL)
    _, second = next(results)
    assert schedule(first) == schedule(lowered.compile({COMBINE: "0"}))
    assert schedule(second)
    assert list(results) == []


def test_killed_beside_others_it_is_tried_again_when_nothing_else_runs(
    workload: Workload, scratch: Path
) -> None:
    """What the kernel does where memory runs out."""
    tasks = [
        CompileTask(workload=workload, target=H100, options={COMBINE: str(it)}) for it in (0, 1)
    ]

    def kill_one() -> None:
        if waited(lambda: workers(scratch)):
            os.kill(workers(scratch)[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    results = dict(compile_all(tasks, jobs=2))
    killer.join()
    assert [type(it) for it in results.values()] == [CompiledProgram, CompiledProgram]


def test_time_is_up_for_one_and_not_for_the_others(workload: Workload, scratch: Path) -> None:
    slow = CompileTask(workload=workload, target=H100, timeout_s=0.05)
    tasks = [slow, replace(slow, timeout_s=300.0, options={COMBINE: "0"})]
    results = dict(compile_all(tasks, jobs=2))
    assert "more than 0.05 s" in str(results[0])
    assert isinstance(results[1], CompiledProgram)
    assert list(scratch.iterdir()) == []


def test_who_stops_listening_ends_all_workers(workload: Workload, scratch: Path) -> None:
    tasks = [
        CompileTask(workload=workload, target=H100, options={COMBINE: str(it)}) for it in range(6)
    ]
    for _ in compile_all(tasks, jobs=2):
        break
    assert waited(lambda: not workers(scratch))
    assert list(scratch.iterdir()) == []


MANY = """
import sys
from counterpoint.compile.pool import compile_all
from counterpoint.compile.task import CompileTask
from counterpoint.compile.inputs.workload import load_workload
from counterpoint.hardware.targets import parse_target
workload, target = load_workload(sys.argv[1]), parse_target("8xH100")
name = "xla_gpu_all_gather_combine_threshold_bytes"
tasks = [CompileTask(workload=workload, target=target, options={name: str(it)}) for it in range(50)]
try:
    for _ in compile_all(tasks, jobs=2):
        print("one", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_all_workers_and_leaves_nothing(lowered: Lowered, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", MANY, str(lowered.ir)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == "one\n"
            parent.send_signal(signal.SIGINT)
            printed = parent.communicate(timeout=100)[0]
        finally:
            parent.kill()
    assert printed.splitlines()[-1] == "interrupted"
    assert workers(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_code_that_is_not_here_is_no_hindrance_to_a_schedule(
    lowered: Lowered,
) -> None:
    """A custom call of Transformer Engine, of one's own: its library need not be here."""
    path = lowered.directory / "mocked.mlir"
    path.write_text(MOCKED)
    ((_, compiled),) = compile_all(
        [CompileTask(workload=load_workload(path), target=parse_target("1xH100"))]
    )
    assert isinstance(compiled, CompiledProgram), compiled
    targets = {it.custom_call_target for it in compiled.program.instructions}
    assert "my_attention" in targets
    assert any("without code" in note for note in compiled.notes)


def test_no_tasks_give_no_results_and_no_worker_is_refused(workload: Workload) -> None:
    assert list(compile_all([])) == []
    with pytest.raises(CounterpointError, match="--jobs 0"):
        compile_all([CompileTask(workload=workload, target=H100)], jobs=0)
    assert usual_jobs() >= 1
