"""What a trial tells, of real runs on the CPU and of what is left of them when things go wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.capture.launch import launch
from counterpoint.capture.request import RunRequest
from counterpoint.flags.probe import XLA_ABORTS
from counterpoint.flags.settings import Settings
from counterpoint.runs import layout
from counterpoint.tune.executors.executor import GangEnd, GangEndKind
from counterpoint.tune.executors.exit_report import exit_report, launcher_log
from counterpoint.tune.trial.measure import measure
from counterpoint.tune.trial.report import TrialFailure, TrialReport

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"}
EXITED = GangEnd(kind=GangEndKind.EXITED, exit_code=0)
PATIENCE_S = 100
STEPS = """
import sys
for i in range({count}):
    seconds = 5.0 if i < 8 else 1.0 + 0.001 * (i % 3)
    print(f"completed step: {{i}}, seconds: {{seconds}}, loss: {{10 - 0.1 * i}}", flush=True)
{end}
"""
TRAINS = """
import jax, jax.numpy as jnp
@jax.jit
def train_step(w, x):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((x @ w - 1) ** 2))(w)
    return w - 0.1 * grad, loss
w, x = jnp.zeros((32, 8)), jnp.ones((16, 32)) / 32
for i in range(40):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        w, loss = train_step(w, x)
        loss.block_until_ready()
    print(f"step {i} loss {float(loss):.4f}", flush=True)
"""
ONE_COMPILES_MORE = (
    TRAINS
    + """
import os
@jax.jit
def evaluate(x):
    for i in range(200):
        x = jnp.sin(x) @ jnp.cos(x).T @ x
    return x
if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
    evaluate(jnp.ones((32, 32))).block_until_ready()
"""
)


def run(path: Path, program: str, **options: object) -> TrialReport:
    asked = RunRequest(
        (sys.executable, "-c", program),
        path / "run",
        window=None,
        echo=False,
        environment=PLAIN,
        timeout_s=PATIENCE_S,
    )
    made = launch(replace(asked, **options))  # pyright: ignore[reportArgumentType]
    return measure(made.path, GangEnd(kind=GangEndKind.EXITED, exit_code=made.outcome.status))


def steps(count: int = 40, end: str = "") -> str:
    return STEPS.format(count=count, end=end)


def slower_unless_step(line: str) -> str:
    """A line of recorded compiles, ten times as long unless it is of `TRAINS`'s step."""
    told = json.loads(line)
    if told["module"] != "jit_train_step":
        told["seconds"] *= 10
    return json.dumps(told) + "\n"


def test_a_good_run_tells_its_step_after_the_warm_up(tmp_path: Path) -> None:
    told = run(tmp_path, steps())
    assert (told.failure, told.detail) == (None, "")
    assert told.steady is not None
    assert told.steady.median_s == pytest.approx(1.001)
    assert told.steady.warm_up in (7, 8)  # the first line only opens the series
    assert told.steady.source == "log"
    assert told.losses is not None
    assert told.losses.values[:2] == (10.0, 9.9)
    assert len(told.hosts) == 1
    assert told.steps_seen == 40
    assert told.program is None  # no XLA ran


@pytest.mark.parametrize(
    ("end", "failure", "says"),
    [
        ("raise ValueError('no such dataset')", TrialFailure.CRASH, "no such dataset"),
        ("sys.exit(3)", TrialFailure.CRASH, "exit code 3; see "),
        (
            "sys.exit('no shards in /data')",
            TrialFailure.CRASH,
            "exit code 1: no shards in /data; see",
        ),
        ("raise MemoryError('RESOURCE_EXHAUSTED: 9 GiB')", TrialFailure.OUT_OF_MEMORY, "9 GiB"),
        ("print('step 99 loss nan')", TrialFailure.NAN, "NaN"),
        ("print('step 99 loss inf')", TrialFailure.NAN, "the loss of step 99 is inf"),
        ("raise OSError(28, 'No space left on device')", TrialFailure.DISK_FULL, "No space left"),
        ("raise RuntimeError('CUDA_ERROR_ECC_UNCORRECTABLE: x')", TrialFailure.NODE_FAULT, "ECC"),
        (
            "sys.exit('parse_flags_from_env.cc:234] Unknown flags in XLA_FLAGS: --xla_x')",
            TrialFailure.UNKNOWN_FLAG,
            "--xla_x",
        ),
        (
            "raise RuntimeError('heartbeat timeout. This indicates that the remote task has so')",
            TrialFailure.CRASH,  # there is no task whose end is unknown
            "heartbeat",
        ),
    ],
)
def test_a_failure_has_its_name_and_the_file_to_read(
    tmp_path: Path, end: str, failure: TrialFailure, says: str
) -> None:
    told = run(tmp_path, steps(20, end))
    assert told.failure is failure, told.detail
    assert says in told.detail
    assert str(tmp_path / "run") in told.detail
    assert "\n" not in told.detail
    assert told.steady is None


def test_how_far_it_came_is_told_unless_it_was_to_end_there(tmp_path: Path) -> None:
    every_tenth = "for i in range(0, 200, 10): print(f'completed step: {i}, seconds: 1.0')"
    assert run(tmp_path / "a", every_tenth).steps_seen == 191
    told = run(tmp_path / "b", steps(20, "import time; time.sleep(600)"), stop_after_steps=15)
    assert (told.failure, told.steps_seen) == (None, None)


def test_an_error_of_ours_is_told_without_its_advice(tmp_path: Path) -> None:
    said = "error: x/rank0 can't be written to: No space left on device\n  next: -o a directory"
    told = measure(tmp_path / "x", GangEnd(kind=GangEndKind.EXITED, exit_code=3, detail=said))
    assert told.failure is TrialFailure.DISK_FULL
    assert told.detail.startswith("x/rank0 ")


def test_settings_of_nccl_may_bring_about_what_else_a_machine_does(tmp_path: Path) -> None:
    end = "raise RuntimeError('NCCL operation failed: unhandled system error')"
    assert run(tmp_path / "a", steps(20, end)).failure is TrialFailure.NODE_FAULT
    mine = Settings(env=(("NCCL_PROTO", "LL128"),))
    assert run(tmp_path / "b", steps(20, end), settings=mine).failure is TrialFailure.CRASH


def test_no_steps_and_too_few_are_said(tmp_path: Path) -> None:
    told = run(tmp_path / "a", "print('hello')")
    assert told.failure is TrialFailure.NO_STEPS
    assert told.detail.startswith("no steps")
    assert told.losses is None
    assert run(tmp_path / "b", steps(4)).failure is TrialFailure.NO_STEPS


BAR = """
import sys, time
for i in range(40):
    {more}
    bar = f"{{i / 40:4.0%}}|###| {{i}}/40 [00:02<00:00, 19it/s, loss={{9 - 0.1 * i}}]"
    print("\\r" + bar, end="", file=sys.stderr, flush=True)
    time.sleep(0.01)
"""


def test_a_progress_bar_counts_where_no_line_names_steps(tmp_path: Path) -> None:
    told = run(tmp_path / "a", BAR.format(more=""))
    assert told.steps_seen == 40
    assert told.losses is not None
    assert len(told.losses.steps) == 40
    named = 'print("step", i // 8, flush=True)'
    assert run(tmp_path / "b", BAR.format(more=named)).steps_seen == 5
    asked = run(tmp_path / "c", BAR.replace("40", "4000").format(more=""), stop_after_steps=20)
    assert asked.steps_seen is None
    assert asked.failure in (None, TrialFailure.NO_STEPS)  # a busy machine reads them in bursts


def test_steps_that_never_settle_are_no_figure(tmp_path: Path) -> None:
    program = "for i in range(60): print(f'completed step: {i}, seconds: {1 + 0.02 * i}')"
    told = run(tmp_path, program)
    assert told.failure is TrialFailure.UNSTEADY
    assert "settle" in told.detail


@pytest.mark.system
def test_time_limits_and_hangs(tmp_path: Path) -> None:
    sleeps = steps(3, "import time; time.sleep(600)")
    assert run(tmp_path / "a", sleeps, timeout_s=1).failure is TrialFailure.TIMEOUT
    assert run(tmp_path / "b", sleeps, hang_after_s=1.5).failure is TrialFailure.HANG


def test_what_made_no_step_in_time_may_have_been_compiling(tmp_path: Path) -> None:
    told = run(tmp_path / "a", "import time; time.sleep(600)", timeout_s=1)
    assert told.failure is TrialFailure.TIMEOUT
    assert told.detail.startswith("it made no step within --timeout, so it may still have been")
    late = run(tmp_path / "b", steps(9, "import time; time.sleep(600)"), timeout_s=3)
    assert late.failure is TrialFailure.TIMEOUT
    assert "compiling" not in late.detail


def test_a_log_that_the_disk_had_no_room_for_is_no_program_without_steps(tmp_path: Path) -> None:
    line = "counterpoint: stdout.log is incomplete: No space left on device"
    assert run(tmp_path, "print('hello')").failure is TrialFailure.NO_STEPS
    place = tmp_path / "run"
    launcher_log(place).write_text(f"starting\n{line}\n")
    ended = exit_report(place, 0)
    assert launcher_log(place).exists()
    told = measure(place, ended)
    assert (told.failure, told.detail) == (TrialFailure.DISK_FULL, line)


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        (GangEndKind.PREEMPTED, TrialFailure.PREEMPTED),
        (GangEndKind.NODE_FAULT, TrialFailure.NODE_FAULT),
    ],
)
def test_an_allocation_that_ended_comes_first(
    tmp_path: Path, kind: GangEndKind, failure: TrialFailure
) -> None:
    run(tmp_path, steps(20, "raise ValueError('so')"))
    ended = GangEnd(kind=kind, exit_code=1, detail="Slurm says so")
    told = measure(tmp_path / "run", ended)
    assert (told.failure, told.detail) == (failure, "Slurm says so")
    nowhere = measure(tmp_path / "nowhere", ended)
    assert (nowhere.failure, nowhere.detail) == (failure, "Slurm says so")


@pytest.mark.parametrize(
    ("ended", "failure"),
    [
        (
            GangEnd(kind=GangEndKind.KILLED, detail="the tuner was asked to stop"),
            TrialFailure.INTERRUPTED,
        ),
        (GangEnd(kind=GangEndKind.KILLED, exit_code=124), TrialFailure.TIMEOUT),
        (GangEnd(kind=GangEndKind.LOST, detail="the cluster is silent"), TrialFailure.NODE_FAULT),
        (GangEnd(kind=GangEndKind.EXITED, exit_code=137), TrialFailure.INTERRUPTED),
        (GangEnd(kind=GangEndKind.EXITED, exit_code=2, detail="error: so"), TrialFailure.CRASH),
        (
            GangEnd(
                kind=GangEndKind.EXITED,
                exit_code=2,
                detail=f"error: --set x=1: jaxlib does not accept 1 flag\n  why: {XLA_ABORTS}",
            ),
            TrialFailure.UNKNOWN_FLAG,
        ),
        (
            GangEnd(kind=GangEndKind.EXITED, exit_code=3, detail="No space left on device"),
            TrialFailure.DISK_FULL,
        ),
    ],
)
def test_what_left_no_run_is_told_by_its_end(
    tmp_path: Path, ended: GangEnd, failure: TrialFailure
) -> None:
    for place in (tmp_path / "none", tmp_path):
        told = measure(place, ended)
        assert told.failure is failure
        assert told.detail
        assert "\n" not in told.detail


@pytest.mark.system
def test_a_runner_that_was_killed_is_nobody_s_fault(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ours = (sys.executable, "-m", "counterpoint", "run", "--no-profile", "-o", str(path))
    endless = steps(9, "import time; time.sleep(600)")
    with subprocess.Popen(
        [*ours, "--", sys.executable, "-c", endless],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as runner:
        log = path / "rank0" / layout.AGENT / layout.STEPS_OF_LOG
        until = time.monotonic() + PATIENCE_S
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.05)
        pid = json.loads((path / "rank0" / layout.RANK_MANIFEST).read_text())["pid"]
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        os.killpg(pid, signal.SIGKILL)
    told = measure(path, GangEnd(kind=GangEndKind.EXITED, exit_code=-9))
    assert told.failure is TrialFailure.INTERRUPTED
    assert "without recording how" in told.detail
    assert not told.failure.blames_the_arm


class TestHalf:
    """A Run of which parts are missing or damaged."""

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        directory = tmp_path_factory.mktemp("whole")
        run(directory, steps(20))
        return directory / "run"

    @pytest.fixture
    def path(self, whole: Path, tmp_path: Path) -> Path:
        return shutil.copytree(whole, tmp_path / "run")

    def test_without_its_manifest_it_is_none(self, path: Path) -> None:
        (path / layout.MANIFEST).unlink()
        assert measure(path, EXITED).failure is TrialFailure.CRASH

    def test_a_damaged_manifest_is_none(self, path: Path) -> None:
        (path / layout.MANIFEST).write_text('{"schema": "counterpoint.run/1", "na')
        assert measure(path, EXITED).failure is TrialFailure.CRASH

    def test_without_its_ranks(self, path: Path) -> None:
        shutil.rmtree(path / "rank0")
        assert measure(path, EXITED).failure is not None

    def test_a_rank_that_a_dead_node_left_open(self, path: Path) -> None:
        file = path / "rank0" / layout.RANK_MANIFEST
        told = json.loads(file.read_text())
        told |= {"host": "elsewhere", "ended": None, "outcome": {"kind": "running"}}
        file.write_text(json.dumps(told))
        ended = GangEnd(kind=GangEndKind.EXITED, exit_code=1)
        assert measure(path, ended).failure is TrialFailure.INTERRUPTED
        lost = measure(path, replace(ended, kind=GangEndKind.LOST))
        assert lost.failure is TrialFailure.NODE_FAULT
        (path / "rank0" / layout.STDERR).write_text(
            "E coordination_service.cc:1170] Task 1 heartbeat timeout. This indicates that the"
            " remote task has failed, got preempted, or crashed unexpectedly.\n"
        )
        assert measure(path, ended).failure is TrialFailure.NODE_FAULT

    def test_logs_that_are_gone(self, path: Path) -> None:
        for name in (layout.STDOUT, layout.STDERR):
            (path / "rank0" / name).unlink()
        told = measure(path, EXITED)
        assert told.losses is None
        assert told.steady is not None


@pytest.mark.system
class TestJax:
    def test_the_program_of_the_step_is_told(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        cache = {
            **PLAIN,
            "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        one = run(tmp_path / "a", TRAINS, environment=cache)
        two = run(tmp_path / "b", TRAINS)
        other = run(tmp_path / "c", TRAINS.replace("(16, 32)", "(24, 32)"))
        assert one.program is not None
        assert one.program == two.program
        assert other.program not in (None, one.program)
        assert one.remat is False
        assert one.peak_bytes is None  # the CPU's allocator keeps no count
        assert dict(one.versions)["jax"]
        assert one.devices == ("cpu",)
        assert one.compile_s is not None
        assert one.start_s is not None
        assert 0 < one.compile_s < one.start_s  # it imports JAX, too
        assert one.losses is not None
        assert one.losses == two.losses
        assert len(one.losses.steps) == 40
        # 40 tiny steps on a busy machine may settle or not; how they were seen is sure.
        assert one.steady is None or one.steady.source == "annotation"
        # A program out of the cache is not taken for another.
        again = run(tmp_path / "d", TRAINS, environment=cache)
        assert again.program in (None, one.program)
        assert again.compiled in (None, one.compiled)
        # On a busy machine, the compile of any small program can take longer than that of the step.
        (compiles,) = (tmp_path / "a" / "run").glob("rank0/agent/compiles-*.jsonl")
        compiles.write_text("".join(map(slower_unless_step, compiles.read_text().splitlines())))
        assert measure(tmp_path / "a" / "run", EXITED).program == one.program

    def test_ranks_that_compile_more_than_their_step_run_no_other_program(
        self, tmp_path: Path
    ) -> None:
        pytest.importorskip("jax")
        told = run(tmp_path, ONE_COMPILES_MORE, ranks=2)
        assert told.program is not None
        assert not any("different programs" in it for it in told.notes)
