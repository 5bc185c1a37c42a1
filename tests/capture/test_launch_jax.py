"""`launch` with real JAX programs on the CPU: steps, profile and HLO of one rank and of two."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import counterpoint
from command_line import in_process
from counterpoint.capture.interpreter import find_interpreter, named_interpreter
from counterpoint.capture.launch import launch
from counterpoint.capture.request import ProfileSchedule, RunRequest
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.reports import effective_flags
from counterpoint.runs.run import Run

pytest.importorskip("jax")

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
}
STEPS = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: x @ x / 1000)
x = jnp.ones((64, 64))
for i in range(8):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        x = step(x).block_until_ready()
"""
DISTRIBUTED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
jax.distributed.initialize()
count = jax.device_count()
over = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))
x = jax.make_array_from_callback(
    (count,), over, lambda at: np.full((1,), at[0].start + 1, np.float32))
total = jax.jit(lambda x: jax.numpy.sum(x))
for i in range(6):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        told = total(x).block_until_ready()
print(jax.process_index(), jax.process_count(), jax.local_device_count(), float(told))
"""


def run(path: Path, program: str, **options: object) -> Run:
    window = ProfileSchedule(start_step=2, steps=3)
    return launch(
        RunRequest(
            (sys.executable, "-c", program),
            path / "run",
            window=window,
            echo=False,
            environment=ENVIRONMENT,
            timeout_s=120,
            **options,  # pyright: ignore[reportArgumentType]
        )
    )


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("one"), STEPS)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("two"), DISTRIBUTED, ranks=2)


@pytest.mark.system
@pytest.mark.smoke
class TestOneRank:
    def test_steps_are_seen_by_their_annotations(self, one: Run) -> None:
        assert one.outcome.ok, one.ranks[0].stderr.read_text()
        assert one.ranks[0].step_source == "annotation"
        assert [step.step for step in one.ranks[0].steps] == list(range(8))
        assert len(one.ranks[0].step_seconds) == 7

    def test_the_profile_is_read_through_the_run(self, one: Run) -> None:
        timeline = counterpoint.read(one.path)
        assert timeline.steps["step"].n_unique() == 4  # the third ends where the fourth begins
        assert counterpoint.read(*one.profiles).steps.equals(timeline.steps)

    def test_the_step_s_module_is_kept_before_and_after(self, one: Run) -> None:
        rank = one.ranks[0]
        names = [path.name for path in (*rank.hlo, *rank.unoptimized, *rank.lowered)]
        assert sum("lambda" in name for name in names) == 3
        program = counterpoint.read_program(next(p for p in rank.hlo if "lambda" in p.name))
        assert program.name == "jit__lambda"
        assert {path.suffix for path in (rank.path / "xla").iterdir()} == {".pb", ".debug_options"}

    def test_the_flags_are_told_as_the_compiler_reports_them(self, one: Run) -> None:
        flags = effective_flags(one.ranks[0])
        assert flags["xla_force_host_platform_device_count"] == "2"
        assert flags["xla_dump_to"] == str(one.ranks[0].path / "xla")

    def test_versions_devices_and_compilations_are_told(self, one: Run) -> None:
        (process,) = one.ranks[0].processes
        assert process.platform == "cpu"
        assert len(process.devices) == 2
        assert process.versions["jax"]
        assert process.peak_memory["host"] > 1 << 20
        assert any(compile_.kind == "backend" for compile_ in one.ranks[0].compiles)


@pytest.mark.system
class TestTwoRanks:
    @pytest.mark.smoke
    def test_jax_sets_itself_up(self, two: Run) -> None:
        assert two.outcome.ok, two.ranks[0].stderr.read_text()
        last = [rank.stdout.read_text().splitlines()[-1] for rank in two.ranks]
        assert last == ["0 2 2 10.0", "1 2 2 10.0"]  # behind what Gloo says

    def test_explain_takes_them_for_two_hosts(self, two: Run) -> None:
        explanation = counterpoint.explain(counterpoint.read(two.path))
        assert (len(explanation.hosts), explanation.device_count) == (2, 4)
        assert len(explanation.collectives) > 0


@pytest.mark.system
class TestFailures:
    def test_memory_that_there_is_not(self, tmp_path: Path) -> None:
        program = "import jax.numpy as jnp; print(jnp.ones((1 << 24, 1 << 20))[0, 0])"
        outcome = run(tmp_path, program).outcome
        assert outcome.kind is OutcomeKind.OUT_OF_MEMORY
        assert "RESOURCE_EXHAUSTED" in outcome.detail

    def test_a_flag_that_the_program_itself_sets_wrong(self, tmp_path: Path) -> None:
        program = (
            "import os; os.environ['XLA_FLAGS'] += ' --xla_no_such_flag=1'\n"
            "import jax; jax.devices()"
        )
        outcome = run(tmp_path, program).outcome
        assert outcome.kind is OutcomeKind.UNKNOWN_FLAG
        assert "xla_no_such_flag" in outcome.detail

    def test_why_there_is_no_profile(self, tmp_path: Path) -> None:
        made = run(tmp_path, STEPS.replace("range(8)", "range(2)"))
        with pytest.raises(counterpoint.InputError, match="has no profile") as refused:
            counterpoint.read(made.path)
        assert refused.value.why is not None
        assert "only 2 steps began" in refused.value.why

    def test_the_calls_of_python_are_recorded_where_that_is_asked(self, tmp_path: Path) -> None:
        program = STEPS.replace("        x =", "        load_batch()\n        x =").replace(
            "step =", "import time\ndef load_batch():\n    time.sleep(0.01)\nstep ="
        )
        found: list[tuple[bool, bool]] = []
        for name, more in (("plain", ()), ("python", ("--profile-python",))):
            words = ("run", "--profile-start-step", "2", *more, "-o", tmp_path / name)
            done = in_process(*words, "--", sys.executable, "-c", program, environment=ENVIRONMENT)
            assert done.returncode == 0, done.stderr
            profile = read_run(tmp_path / name).profiles[0].read_bytes()
            found.append((b"load_batch" in profile, b"counterpoint sample" in profile))
        assert found == [(True, True), (True, False)]

    def test_a_program_that_is_killed_before_its_profile(self, tmp_path: Path) -> None:
        killed = STEPS.replace("range(8)", "range(2)") + "import os, time; time.sleep(1.5);"
        made = run(tmp_path, killed + "os.kill(os.getpid(), 9)")
        assert made.outcome.signal == "SIGKILL"
        assert "before the steps" in str(made.why_no_profile)


@pytest.mark.system
def test_the_interpreter_behind_a_command(tmp_path: Path) -> None:
    found = find_interpreter((sys.executable, "x.py"), ENVIRONMENT)
    assert found is not None
    assert found.path == Path(sys.executable)
    assert {"python", "jax", "jaxlib"} <= set(found.versions)
    script = tmp_path / "trainer"
    script.write_text(f"#!{sys.executable}\nprint('hi')\n")
    script.chmod(0o755)
    assert find_interpreter((str(script),), ENVIRONMENT) == found


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("python3", "x.py"), True),
        (("nsys", "profile", "venv/bin/python", "x.py"), True),
        (("bash", "train.sh"), False),
        (("uv", "run", "python", "x.py"), False),
    ],
)
def test_whether_the_command_names_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("venv/bin").mkdir(parents=True)
    Path("venv/bin/python").symlink_to(sys.executable)
    assert (named_interpreter(command, ENVIRONMENT) is not None) == named


@pytest.mark.system
def test_flags_of_a_wrapper_are_doubted_and_not_refused(tmp_path: Path) -> None:
    said: list[str] = []
    flags = "--xla_gpu_enable_async_collectives=true"
    environment = ENVIRONMENT | {
        "XLA_FLAGS": flags,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = ("sh", "-c", "echo hi")
    request = RunRequest(
        command, tmp_path / "run", echo=False, environment=environment, window=None
    )
    assert launch(request, say=said.append).outcome.ok
    assert "would reject" in said[0]
    assert "xla_gpu_enable_async_collectives" in said[0]


def test_no_interpreter_at_all() -> None:
    assert find_interpreter(("ls",), {"PATH": "/nowhere"}) is None
