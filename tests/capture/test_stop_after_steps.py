"""A workload that would run for days is ended after some steps, and that is a good end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.capture.launch import launch
from counterpoint.capture.request import ProfileSchedule, RunRequest
from counterpoint.capture.steps import StepCount, StepGoal
from counterpoint.core.errors import UsageError
from counterpoint.runs import layout
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"}
FOREVER = """
import itertools, sys, time
for i in itertools.count():
    print(f"step {i} loss {LOSS}", flush=True)
    time.sleep(0.02)
"""
ANNOTATED = """
import itertools, time, jax
for i in itertools.count():
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        time.sleep(0.01)
"""
AS_ASKED = "ended after 5 steps, as requested"


def run(path: Path, program: str, **options: object) -> Run:
    command = (sys.executable, "-c", program)
    asked = RunRequest(
        command,
        path / "run",
        echo=False,
        environment=PLAIN,
        window=None,
        timeout_s=100,
        stop_after_steps=5,
    )
    return launch(replace(asked, **options))  # pyright: ignore[reportArgumentType]


def wrote(agent: Path, *steps: int | None, source: str = "log", file: str = "log") -> None:
    with (agent / f"steps-{file}.jsonl").open("a") as lines:
        for step in steps:
            lines.write(json.dumps({"step": step, "start_s": 1.0, "source": source}) + "\n")


class TestCount:
    def test_steps_are_counted_from_one_start_to_the_next(self, tmp_path: Path) -> None:
        count = StepCount(tmp_path)
        assert count.seen() == 0
        wrote(tmp_path, 0)
        assert count.seen() == 0
        wrote(tmp_path, 1, 2, 3)
        assert count.seen() == 3

    def test_a_line_every_tenth_step_stands_for_ten(self, tmp_path: Path) -> None:
        wrote(tmp_path, 0, 10, 20, 30, 1000)
        assert StepCount(tmp_path).seen() == 40

    def test_a_line_that_is_half_there_counts_when_it_is_whole(self, tmp_path: Path) -> None:
        count = StepCount(tmp_path)
        wrote(tmp_path, 0, 1)
        file = tmp_path / "steps-log.jsonl"
        with file.open("a") as lines:
            lines.write('{"step": 2, "start_s"')
        assert count.seen() == 1
        with file.open("a") as lines:
            lines.write(': 1.0, "source": "log"}\n')
        assert count.seen() == 2

    def test_annotations_count_before_lines(self, tmp_path: Path) -> None:
        wrote(tmp_path, *range(50))
        wrote(tmp_path, None, None, None, source="annotation", file="77")
        assert StepCount(tmp_path).seen() == 2

    def test_damage_is_passed_over(self, tmp_path: Path) -> None:
        wrote(tmp_path, 0)
        with (tmp_path / "steps-log.jsonl").open("ab") as lines:
            lines.write(b"\xff\xfe{\n[]\n\n")
        wrote(tmp_path, 1)
        assert StepCount(tmp_path).seen() == 1


class TestGoal:
    def test_others_hear_of_it_by_a_mark_in_the_run(self, tmp_path: Path) -> None:
        here, there = tmp_path / "a", tmp_path / "b"
        here.mkdir()
        there.mkdir()
        mine, theirs = (StepGoal(3, tmp_path, [it], others=True) for it in (here, there))
        assert not mine.is_reached()
        wrote(here, 0, 1, 2, 3)
        assert not theirs.is_reached()
        assert mine.is_reached()
        assert theirs.is_reached()
        assert theirs.is_near()

    def test_who_dies_a_step_before_died_of_the_end_of_others(self, tmp_path: Path) -> None:
        wrote(tmp_path, 0, 1)
        assert not StepGoal(3, tmp_path, [tmp_path], others=True).is_near()
        wrote(tmp_path, 2)
        assert StepGoal(3, tmp_path, [tmp_path], others=True).is_near()
        assert not StepGoal(3, tmp_path, [tmp_path], others=False).is_near()
        assert not StepGoal(1, tmp_path / "none", [tmp_path / "none"], others=True).is_near()


class TestAsked:
    def test_too_few_for_the_profile_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="--stop-after-steps 5 ends"):
            run(tmp_path, "1", window=ProfileSchedule(start_step=3, steps=3))
        with pytest.raises(UsageError, match="--stop-after-steps 0"):
            run(tmp_path, "1", stop_after_steps=0)
        assert not (tmp_path / "run").exists()


@pytest.mark.system
class TestEnd:
    @pytest.mark.parametrize(
        "how",
        [
            "",  # KeyboardInterrupt
            "import signal; signal.signal(signal.SIGINT, lambda *_: sys.exit(7))",
            "import signal; signal.signal(signal.SIGINT, lambda *_: sys.exit(0))",
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",  # then SIGTERM ends it
        ],
    )
    def test_it_is_well_however_the_program_takes_it(self, tmp_path: Path, how: str) -> None:
        made = run(tmp_path, f"import sys\n{how}\n{FOREVER.replace('LOSS', '1.5')}")
        assert (made.outcome.kind, made.outcome.detail) == (OutcomeKind.OK, AS_ASKED)
        assert made.outcome.status == 0
        assert len(made.ranks[0].steps) > 5

    def test_who_ends_before_is_just_well(self, tmp_path: Path) -> None:
        made = run(tmp_path, "for i in range(3): print('step', i, flush=True)")
        assert (made.outcome.kind, made.outcome.detail) == (OutcomeKind.OK, "")

    def test_a_failure_before_stays_one(self, tmp_path: Path) -> None:
        program = "for i in range(5): print('step', i, flush=True)\nraise ValueError('so')"
        made = run(tmp_path, program)
        assert made.outcome.kind is OutcomeKind.ERROR

    def test_losses_that_are_no_numbers_are_told_all_the_same(self, tmp_path: Path) -> None:
        made = run(tmp_path, FOREVER.replace("LOSS", "float('nan')"))
        assert made.outcome.kind is OutcomeKind.NAN

    def test_annotated_steps_count_and_all_ranks_are_ended(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        made = run(tmp_path, ANNOTATED, ranks=2)
        assert (made.outcome.kind, made.outcome.detail) == (OutcomeKind.OK, AS_ASKED)
        assert [rank.outcome.kind for rank in made.ranks] == [OutcomeKind.OK] * 2
        assert {rank.step_source for rank in made.ranks} == {"annotation"}
        assert max(len(rank.steps) for rank in made.ranks) > 5


LOCKSTEP = """
import itertools, time, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
over = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
x = jax.make_array_from_callback(
    (jax.device_count(),), over, lambda at: np.full((1,), at[0].start + 1, np.float32))
total = jax.jit(lambda x: jnp.sum(x))
for i in itertools.count():
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        total(x).block_until_ready()
        time.sleep(0.01)
"""


@pytest.mark.system
def test_under_a_launcher_each_rank_ends_its_own_and_none_is_a_failure(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun (Debian: apt-get install openmpi-bin)")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = ("mpirun", "--oversubscribe", "-n", "2")
    ours = (sys.executable, "-m", "counterpoint", "run", "--no-profile", "-o", "run")
    limits = ("--stop-after-steps", "5", "--timeout", "120")
    done = subprocess.run(
        [*mpirun, *ours, *limits, "--", sys.executable, "-c", LOCKSTEP],
        cwd=tmp_path,
        env={**os.environ, **root, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    made = read_run(tmp_path / "run")
    assert [rank.outcome.kind for rank in made.ranks] == [OutcomeKind.OK] * 2
    assert (tmp_path / "run" / layout.STOPPED).exists()
