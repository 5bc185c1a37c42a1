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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from counterpoint.capture.request import ProfileSchedule
from counterpoint.core.errors import UsageError
from counterpoint.flags.settings import Settings
from counterpoint.runs.outcomes import TIMED_OUT, OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
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
# Flags are put into the variable when a program imports jax.
TELL = """
import json, os, socket, sys
os.environ.setdefault("XLA_FLAGS", "--xla_own")
import jax
about = {"rank": rank(), "node": NODE, "cwd": os.getcwd(), "environment": dict(os.environ)}
print(json.dumps(about))
print("aside", file=sys.stderr)
"""
"""What a rank knows of itself; `NODE` is the contract's `node`."""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[2] != "minds":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
if sys.argv[2] != "grandchild":
    deeper = [sys.executable, __file__, sys.argv[1], "grandchild"]
    subprocess.Popen(deeper, start_new_session=True)
    subprocess.Popen(deeper)
else:
    open(os.path.join(sys.argv[1], f"up-{os.getpid()}"), "w").close()
time.sleep(3600)
"""
"""A rank with two children, one of them in a session of its own. None minds SIGTERM or SIGINT.

With "minds" the rank itself ends at SIGINT: else `counterpoint run` gives it 15 seconds.
"""
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

STEPS = """
import itertools, time
for step in itertools.count():
    print("step", step, flush=True)
    time.sleep(0.05)
"""

Start = Callable[..., tuple[TrialJob, Gang]]

EXACTLY: Final[Mapping[str, str | None]] = {
    "JAX_PLATFORMS": "cpu",
    "CONTRACT_TRICKY": "a  b 'c' \"d\"\n$HOME `id` \\ ü €; * %t",
    "CONTRACT_LIST": "a=1,b=2,ALL,NONE",
    "CONTRACT_EMPTY": "",
    "CONTRACT_UNSET": None,
}
SETTINGS: Final = Settings(
    (("xla_force_host_platform_device_count", "2"),),
    (("CONTRACT_SETTING", "x, y = 'z'"),),
)


@dataclass(frozen=True)
class Finished:
    """A job of `TELL` that is over: how it ended, what was recorded, what its ranks told."""

    job: TrialJob
    end: GangEnd
    run: Run
    told: list[dict[str, Any]]


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

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, allocation: Allocation, tmp_path_factory: pytest.TempPathFactory) -> Finished:
        """The job that most is asked of, since each costs seconds."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp("finished"))
            for name in ("CONTRACT_INHERITED", "NCCL_CONTRACT", "CONTRACT_UNSET"):
                patch.setenv(name, "1")
            return cls.finish(allocation, environment=dict(EXACTLY), settings=SETTINGS)

    @classmethod
    def finish(cls, allocation: Allocation, **fields: object) -> Finished:
        program = WORLD + TELL.replace("NODE", cls.node)
        job = cls.job(Path.cwd(), program, **fields)
        end = ended(allocation.start(job))
        run = read_run(job.directory)
        return Finished(job, end, run, [json.loads(text) for text in printed(run)])

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

    @classmethod
    def job(cls, directory: Path, program: str, **fields: object) -> TrialJob:
        name = f"trial-{uuid.uuid4().hex[:8]}"
        job = TrialJob(
            name=name,
            command=(sys.executable, "-c", program),
            directory=directory / "runs" / name,
            shape=ProcessShape(nodes=cls.two.nodes, ranks_per_node=cls.two.ranks_per_node),
            environment={"JAX_PLATFORMS": "cpu"},
        )
        return replace(job, **fields)  # pyright: ignore[reportArgumentType]

    def test_a_job_runs_and_its_run_is_complete(self, finished: Finished) -> None:
        assert finished.end == GangEnd(kind=GangEndKind.EXITED, exit_code=0)
        run = finished.run
        assert (run.outcome.kind, run.world_size) == (OutcomeKind.OK, 2)
        assert (run.name, run.settings.xla) == (finished.job.name, SETTINGS.xla)
        assert [it["rank"] for it in finished.told] == [0, 1]
        assert all("aside" in rank.stderr.read_text() for rank in run.ranks)

    def test_the_environment_arrives_exactly(self, finished: Finished) -> None:
        for it in finished.told:
            told = it["environment"]
            assert {name: told.get(name) for name in EXACTLY} == EXACTLY
            assert told.get("CONTRACT_INHERITED") == ("1" if self.inherits else None)
            assert told["NCCL_CONTRACT"] == "1"
            assert told["CONTRACT_SETTING"] == "x, y = 'z'"
            requested = "--xla_own --xla_force_host_platform_device_count=2 "
            assert told["XLA_FLAGS"].startswith(requested)

    def test_another_shape_is_kept_on_the_same_nodes(
        self,
        finished: Finished,
        allocation: Allocation,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        shape, count = self.other
        other = self.finish(allocation, shape=shape)
        assert other.end.exit_code == 0
        assert other.run.world_size == count
        assert [it["rank"] for it in other.told] == [*range(count)]
        assert {it["node"] for it in other.told} == {it["node"] for it in finished.told}

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

        def all_are_up() -> bool:
            return len(list(tmp_path.glob("up-*"))) == 4 and len(alive(mark)) >= 6

        told = wait_for(gang, TrialLimits(timeout_s=LONG_S), all_are_up)
        assert (told.kind, told.exit_code) == (GangEndKind.KILLED, None)
        assert alive(mark) == []
        gang.kill()
        again = gang.poll()
        assert again is not None
        assert again.kind is GangEndKind.KILLED
        assert read_run(job.directory).outcome.kind is not OutcomeKind.RUNNING

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

    def test_sweeping_what_never_was_is_no_error(self, executor: Executor) -> None:
        for identity in ("", "nonsense", "a:b:c", "local:", "slurm-job:x:y"):
            executor.sweep(identity)

    def test_people_are_told_where(self, executor: Executor) -> None:
        assert executor.describe().startswith(executor.name)


class Contract(PlacementContract):
    """All of it: once for each executor, in one of its places.

    What is added here is done by the program that watches a rank, wherever that is.
    """

    def test_it_runs_where_the_tuner_does(self, finished: Finished) -> None:
        tuner = finished.job.directory.parent.parent
        assert [it["cwd"] for it in finished.told] == [str(tuner)] * 2

    def test_a_signal_is_told_as_a_shell_does(self, start: Start) -> None:
        job, gang = start(WORLD + "if rank() == 0: os.kill(os.getpid(), 9)")
        told = ended(gang)
        assert (told.kind, told.exit_code) == (GangEndKind.EXITED, 128 + signal.SIGKILL)
        assert read_run(job.directory).outcome.signal == "SIGKILL"

    def test_a_time_limit_ends_all_of_a_stubborn_gang(self, start: Start, tmp_path: Path) -> None:
        mark = uuid.uuid4().hex
        command = stubborn(tmp_path, rank_minds=True)
        limits = TrialLimits(timeout_s=2)
        _, gang = start("", command=command, limits=limits, environment={MARK: mark})
        told = ended(gang, limits)
        assert told.exit_code == TIMED_OUT
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
        program = "import sys\nfor i in range(2): sys.stdout.write(('x' * 1023 + chr(10)) * 1024)"
        job, gang = start(program)
        assert ended(gang).exit_code == 0
        assert {rank.stdout.stat().st_size for rank in read_run(job.directory).ranks} == {2 << 20}

    def test_steps_end_a_job(self, start: Start) -> None:
        job, gang = start(STEPS, limits=TrialLimits(steps=20, timeout_s=LONG_S))
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
        executor, mark = names["executor"], uuid.uuid4().hex
        job = TrialJob(
            name="left",
            command=(sys.executable, "-c", "import time; time.sleep(3600)"),
            directory=tmp_path / "left",
            shape=self.two,
            environment={MARK: mark},
        )
        first = executor.open()
        assert first.nodes or executor.name in HOLD_NONE
        gang = first.start(job)
        wait_until(lambda: bool(alive(mark)), "nothing was started")
        first.close()
        first.close()
        assert alive(mark) == []
        gang.kill()
        second = executor.open()
        try:
            after = replace(job, name="after", command=("true",), directory=tmp_path / "after")
            assert ended(second.start(after)).exit_code == 0
        finally:
            second.close()


def stubborn(directory: Path, *, rank_minds: bool = False) -> tuple[str, ...]:
    """The command of a gang that has to be killed; its grandchildren say that they are up."""
    script = directory / "stubborn.py"
    script.write_text(STUBBORN)
    return (sys.executable, str(script), str(directory), "minds" if rank_minds else "deaf")


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
