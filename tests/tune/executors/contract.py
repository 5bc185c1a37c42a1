"""What holds of every executor, as tests that a subclass runs in a real place.

A subclass names the place: how an executor is constructed, and how many processes `two` starts. An
executor with several places keeps `Contract` in one of them and `PlacementContract` in the others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from counterpoint.capture.request import ProfileSchedule
from counterpoint.core.errors import UsageError
from counterpoint.flags import Settings
from counterpoint.runs import OutcomeKind, Run, read_run
from counterpoint.runs.outcomes import TIMED_OUT
from counterpoint.tune.executors.executor import (
    Allocation,
    Executor,
    Gang,
    GangEnd,
    GangEndKind,
    ProcessShape,
    TrialJob,
    TrialLimits,
    wait_for,
)
from counterpoint.tune.executors.process_supervisor import EndingTimes

LONG_S = 180.0
"""Machines are busy: what takes longer than this is a hang."""
MARK = "CONTRACT_MARK"
SOON = EndingTimes(apart_s=1.0, patience_s=20.0)
"""What is asked to end is asked again soon. Only the patience must be enough for a busy machine."""

HOLD_NONE = ("slurm-batch", "kubernetes")
"""Executors that get nodes for one trial only."""
WORLD = """
import os
def rank():
    names = ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "JAX_PROCESS_ID")
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))
"""
# Flags are put into the variable when a program writes it, or imports jax.
TELL_ENVIRONMENT = """
import json, os
os.environ.setdefault("XLA_FLAGS", "--xla_own")
print(json.dumps(dict(os.environ)))
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
if len(sys.argv) < 3:
    deeper = [sys.executable, __file__, sys.argv[1], "grandchild"]
    subprocess.Popen(deeper, start_new_session=True)
    subprocess.Popen(deeper)
else:
    open(os.path.join(sys.argv[1], f"up-{os.getpid()}"), "w").close()
time.sleep(3600)
"""
"""A rank with two grandchildren, one of them in a session of its own; none minds SIGTERM."""
DISTRIBUTED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
count = jax.device_count()
over = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
x = jax.make_array_from_callback(
    (count,), over, lambda at: np.full((1,), at[0].start + 1, np.float32))
total = jax.jit(lambda x: jnp.sum(x))
for i in range(8):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        told = total(x).block_until_ready()
print("sum", jax.process_index(), jax.process_count(), float(told))
"""

Start = Callable[..., tuple[TrialJob, Gang]]


class PlacementContract:
    """What the place of a job can break: subclass it as `Test...`, and say where jobs run."""

    construct: ClassVar[str]
    """Python text that leaves an Executor in the name `executor`, also in another process.

    It should pass `ending=SOON`, or else whatever is killed takes longer.
    """
    two: ClassVar[ProcessShape]
    """A shape of two processes, which every allocation of `executor` has room for."""
    other: ClassVar[tuple[ProcessShape, int]]
    """Another shape with room, and how many processes it starts."""
    inherits: ClassVar[bool] = True
    """Whether processes get all of the tuner's environment, or settings in it alone."""
    node: ClassVar[str] = "socket.gethostname()"
    """Python text that tells a process of a job on which node it is."""

    @pytest.fixture(scope="class")
    @classmethod
    def executor(cls) -> Executor:
        names: dict[str, Executor] = {}
        exec(cls.construct, names)  # noqa: S102 - the subclass's own words
        return names["executor"]

    @pytest.fixture(scope="class")
    @classmethod
    def allocation(cls, executor: Executor) -> Iterator[Allocation]:
        made = executor.open()
        yield made
        made.close()

    @pytest.fixture
    def start(
        self, allocation: Allocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Start]:
        """Start a Python program, in a directory of the test's own; what is left is killed."""
        monkeypatch.chdir(tmp_path)
        gangs: list[Gang] = []

        def started(program: str, **fields: object) -> tuple[TrialJob, Gang]:
            job = self.job(tmp_path, program, **fields)
            gangs.append(allocation.start(job))
            return job, gangs[-1]

        yield started
        for gang in gangs:
            gang.kill()

    def job(self, directory: Path, program: str, **fields: object) -> TrialJob:
        name = f"trial-{uuid.uuid4().hex[:8]}"
        job = TrialJob(
            name=name,
            command=(sys.executable, "-c", program),
            directory=directory / "runs" / name,
            shape=ProcessShape(nodes=self.two.nodes, ranks_per_node=self.two.ranks_per_node),
            environment={"JAX_PLATFORMS": "cpu"},
        )
        return replace(job, **fields)  # pyright: ignore[reportArgumentType]

    def test_a_job_runs_and_its_run_is_complete(self, start: Start) -> None:
        job, gang = start(
            WORLD + "print('rank', rank()); print('aside', file=__import__('sys').stderr)"
        )
        assert ended(gang) == GangEnd(kind=GangEndKind.EXITED, exit_code=0)
        run = read_run(job.directory)
        assert (run.outcome.kind, run.world_size, run.name) == (OutcomeKind.OK, 2, job.name)
        assert printed(run) == ["rank 0\n", "rank 1\n"]
        assert all("aside" in rank.stderr.read_text() for rank in run.ranks)

    def test_the_environment_arrives_exactly(
        self, start: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CONTRACT_INHERITED", "1")
        monkeypatch.setenv("NCCL_CONTRACT", "1")
        monkeypatch.setenv("CONTRACT_UNSET", "1")
        exactly: dict[str, str | None] = {
            "JAX_PLATFORMS": "cpu",
            "CONTRACT_TRICKY": "a  b 'c' \"d\"\n$HOME `id` \\ ü €; * %t",
            "CONTRACT_LIST": "a=1,b=2,ALL,NONE",
            "CONTRACT_EMPTY": "",
            "CONTRACT_UNSET": None,
        }
        settings = Settings(
            (("xla_force_host_platform_device_count", "2"),),
            (("CONTRACT_SETTING", "x, y = 'z'"),),
        )
        job, gang = start(TELL_ENVIRONMENT, environment=exactly, settings=settings)
        assert ended(gang).exit_code == 0
        run = read_run(job.directory)
        for text in printed(run):
            told = json.loads(text)
            assert {name: told.get(name) for name in exactly} == exactly
            assert told.get("CONTRACT_INHERITED") == ("1" if self.inherits else None)
            assert told["NCCL_CONTRACT"] == "1"
            assert told["CONTRACT_SETTING"] == "x, y = 'z'"
            requested = "--xla_own --xla_force_host_platform_device_count=2 "
            assert told["XLA_FLAGS"].startswith(requested)
        assert run.settings.xla == settings.xla

    def test_the_shape_is_kept(self, start: Start) -> None:
        shape, count = self.other
        job, gang = start(WORLD + "print(rank())", shape=shape)
        assert ended(gang).exit_code == 0
        run = read_run(job.directory)
        assert run.world_size == count
        assert printed(run) == [f"{rank}\n" for rank in range(count)]

    def test_an_exit_code_is_handed_on_and_a_rank_s_death_is_the_gang_s(self, start: Start) -> None:
        program = "import time\nif rank() == 1: raise SystemExit(7)\ntime.sleep(3600)"
        job, gang = start(WORLD + program, environment={MARK: (mark := uuid.uuid4().hex)})
        told = ended(gang)
        assert (told.kind, told.exit_code) == (GangEndKind.EXITED, 7)
        assert alive(mark) == []
        run = read_run(job.directory)
        assert (run.outcome.kind, run.outcome.exit_code) == (OutcomeKind.ERROR, 7)

    def test_killing_is_thorough_and_may_be_repeated(self, start: Start, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        job, gang = start("", command=stubborn(tmp_path), environment={MARK: mark})
        wait_until(lambda: len(list(tmp_path.glob("up-*"))) == 4, "the grandchildren never came")
        assert gang.poll() is None
        assert alive(mark)
        gang.kill()
        assert alive(mark) == []
        gang.kill()
        told = gang.poll()
        assert told is not None
        assert told.kind is GangEndKind.KILLED
        assert read_run(job.directory).outcome.kind is not OutcomeKind.RUNNING

    def test_jobs_of_one_allocation_get_the_same_nodes(self, start: Start) -> None:
        told: list[list[str]] = []
        for _ in range(2):
            job, gang = start(f"import os, socket; print({self.node})")
            assert ended(gang).exit_code == 0
            told.append(printed(read_run(job.directory)))
        assert told[0] == told[1]

    def test_what_a_dead_tuner_left_is_swept(self, executor: Executor, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        (tmp_path / "tuner.py").write_text(self._tuner(tmp_path, mark))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, tmp_path / "tuner.py"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as tuner:
            assert tuner.stdout is not None
            identities: list[str] = json.loads(tuner.stdout.readline())
            wait_until(lambda: bool(list(tmp_path.glob("up-*"))), "the gang never came up")
            tuner.kill()
        for _ in range(2):
            for identity in identities:
                executor.sweep(identity)
            assert alive(mark) == []

    def _tuner(self, directory: Path, mark: str) -> str:
        """A program that starts a stubborn gang, says by what it can be found, and waits."""
        return (
            "import json, sys, time\nfrom pathlib import Path\n"
            "from counterpoint.tune.executors.executor import ProcessShape, TrialJob\n"
            f"{self.construct}\n"
            "allocation = executor.open()\n"
            f"job = TrialJob(name='left', command={stubborn(directory)!r}, "
            f"directory=Path({str(directory)!r}) / 'runs' / 'left', shape={self.two!r}, "
            f"environment={{{MARK!r}: {mark!r}}})\n"
            "gang = allocation.start(job)\n"
            "print(json.dumps([gang.identity, allocation.identity]), flush=True)\n"
            "while True:\n    gang.poll()\n    time.sleep(0.2)\n"
        )

    @pytest.mark.parametrize("identity", ["", "nonsense", "a:b:c", "local:", "slurm-job:x:y"])
    def test_sweeping_what_never_was_is_no_error(self, executor: Executor, identity: str) -> None:
        executor.sweep(identity)

    def test_people_are_told_where(self, executor: Executor) -> None:
        assert executor.describe().startswith(executor.name)


class Contract(PlacementContract):
    """All of it: once for each executor, in one of its places.

    What is added here is done by the program that watches a rank, wherever that is.
    """

    def test_it_runs_where_the_tuner_does(self, start: Start, tmp_path: Path) -> None:
        job, gang = start("import os; print(os.getcwd())")
        assert ended(gang).exit_code == 0
        assert printed(read_run(job.directory)) == [f"{tmp_path}\n"] * 2

    def test_a_signal_is_told_as_a_shell_does(self, start: Start) -> None:
        job, gang = start(WORLD + "if rank() == 0: os.kill(os.getpid(), 9)")
        told = ended(gang)
        assert (told.kind, told.exit_code) == (GangEndKind.EXITED, 128 + signal.SIGKILL)
        assert read_run(job.directory).outcome.signal == "SIGKILL"

    def test_a_time_limit_ends_all_of_a_stubborn_gang(self, start: Start, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        command = stubborn(tmp_path)
        limits = TrialLimits(timeout_s=2)
        _, gang = start("", command=command, limits=limits, environment={MARK: mark})
        told = ended(gang, limits)
        assert told.exit_code == TIMED_OUT
        assert alive(mark) == []

    def test_who_waits_can_be_stopped(self, start: Start, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        _, gang = start("", command=stubborn(tmp_path), environment={MARK: mark})
        told = wait_for(gang, TrialLimits(), lambda: bool(list(tmp_path.glob("up-*"))))
        assert told.kind is GangEndKind.KILLED
        assert alive(mark) == []

    def test_a_profile_that_was_asked_for_is_here(self, start: Start) -> None:
        pytest.importorskip("jax")
        job, gang = start(DISTRIBUTED, window=ProfileSchedule(start_step=2, steps=3))
        told = ended(gang)
        run = read_run(job.directory)
        assert told.exit_code == 0, (told, [rank.stderr.read_text()[-2000:] for rank in run.ranks])
        last = [text.splitlines()[-1] for text in printed(run)]
        assert last == ["sum 0 2 3.0", "sum 1 2 3.0"]
        assert len(run.profiles) == 2

    def test_a_command_that_is_not_there_is_no_riddle(self, start: Start) -> None:
        name = "there-is-no-such-command"
        try:
            _, gang = start("", command=(name,))
            told = ended(gang)
        except UsageError as refused:
            told = GangEnd(
                kind=GangEndKind.EXITED, exit_code=refused.exit_code, detail=str(refused)
            )
        assert told.exit_code not in (0, None)
        assert name in told.detail

    def test_much_output_does_not_block(self, start: Start) -> None:
        program = "import sys\nfor i in range(10): sys.stdout.write(('x' * 1023 + chr(10)) * 1024)"
        job, gang = start(program)
        assert ended(gang).exit_code == 0
        assert {rank.stdout.stat().st_size for rank in read_run(job.directory).ranks} == {10 << 20}

    def test_steps_end_a_job(self, start: Start) -> None:
        pytest.importorskip("jax")
        program = DISTRIBUTED.replace("range(8)", "range(10**9)")
        job, gang = start(program, limits=TrialLimits(steps=20, timeout_s=LONG_S))
        assert ended(gang).exit_code == 0
        assert read_run(job.directory).outcome.ok


class FreshContract:
    """Of allocations themselves: mixed in where nobody else holds one meanwhile."""

    construct: ClassVar[str]
    two: ClassVar[ProcessShape]

    def test_a_second_allocation_works_after_the_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        names: dict[str, Executor] = {}
        exec(self.construct, names)  # noqa: S102
        for number in range(2):
            mark = uuid.uuid4().hex
            allocation = names["executor"].open()
            assert allocation.nodes or names["executor"].name in HOLD_NONE
            job = TrialJob(
                name=f"trial-{number}",
                command=(sys.executable, "-c", "print('hi')"),
                directory=tmp_path / f"run{number}",
                shape=self.two,
            )
            assert ended(allocation.start(job)).exit_code == 0
            left = replace(
                job,
                name=f"left-{number}",
                command=(sys.executable, "-c", "import time; time.sleep(3600)"),
                directory=tmp_path / f"left{number}",
                environment={MARK: mark},
            )
            gang = allocation.start(left)
            wait_until(lambda mark=mark: bool(alive(mark)), "nothing was started")
            allocation.close()
            allocation.close()
            assert alive(mark) == []
            gang.kill()


def stubborn(directory: Path) -> tuple[str, ...]:
    """The command of a gang that has to be killed; its grandchildren say that they are up."""
    script = directory / "stubborn.py"
    script.write_text(STUBBORN)
    return (sys.executable, str(script), str(directory))


def ended(gang: Gang, limits: TrialLimits | None = None) -> GangEnd:
    """How it ended; what hangs is killed in the end, and then is no match for what is expected."""
    return wait_for(gang, limits or TrialLimits(timeout_s=LONG_S), lambda: False)


def printed(run: Run) -> list[str]:
    return [rank.stdout.read_text() for rank in run.ranks]


def alive(mark: str) -> list[str]:
    """Processes whose environment has the mark, as command lines."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def wait_until(true: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + LONG_S
    while not true():
        assert time.monotonic() < until, otherwise
        time.sleep(0.1)
