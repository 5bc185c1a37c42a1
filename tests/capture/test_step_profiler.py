"""counterpoint.StepProfiler in real programs, alone and under the agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import counterpoint
from agent_process import SHARDED, Left, run
from counterpoint import StepProfiler, UsageError
from counterpoint.core.injection import SITE
from run_directory import RunDirectory

pytestmark = pytest.mark.system

pytest.importorskip("jax")

PROGRAM = "from counterpoint import CounterpointError, StepProfiler\n" + SHARDED


HOME = str(Path(counterpoint.__file__).parents[1])


def alone(directory: Path, program: str, **more: str) -> Left:
    """Run without the agent."""
    return run(directory, PROGRAM + program, more={"PYTHONPATH": HOME, **more})


def under_agent(directory: Path, program: str, window: dict[str, object]) -> Left:
    return run(directory, PROGRAM + program, window, more={"PYTHONPATH": f"{SITE}:{HOME}"})


def profile(directory: Path) -> counterpoint.Timeline:
    return counterpoint.read(str(directory))


LOOP = """
with StepProfiler(start_step=2, num_steps=3) as profiler:
    for i in range(8):
        profiler.on_step(i)
        step()
print(profiler.state, profiler.reason, profiler.path)
"""


# Each in a directory of its own, one after the other in one program.
LOOPS = {
    "context": LOOP,
    "callback": """
class Info:
    def __init__(self, step): self.step = step

as_callback = StepProfiler(start_step=1, num_steps=2, log_dir="mine")
for i in range(5):
    as_callback(Info(i))
    step()
print(as_callback.state)
""",
    "decorator": """
as_decorator = StepProfiler(start_step=1, num_steps=2, log_dir="mine")
@as_decorator
def decorated(times, *, word):
    "What it does."
    step()
    return word * times
print([decorated(2, word="a") for i in range(3)], decorated.__doc__, as_decorator.state)
""",
    "failing loop": """
try:
    with StepProfiler(start_step=1, num_steps=9) as profiler:
        for i in range(5):
            profiler.on_step(i)
            step()
            if i == 3: raise ValueError("diverged")
except ValueError as error:
    print(error, profiler.state, profiler.reason[-11:])
""",
    "no profile": """
with StepProfiler(start_step=5) as profiler:
    profiler.on_step(0)
with StepProfiler(): pass
""",
    "other processes": """
with StepProfiler(start_step=0, num_steps=1, processes=(1, 2)) as profiler:
    for i in range(3):
        profiler.on_step(i)
print(profiler.state, "[1, 2]" in profiler.reason)
""",
    "another profiler": """
jax.profiler.start_trace("own")
with StepProfiler(start_step=2, num_steps=3) as profiler:
    for i in range(8):
        profiler.on_step(i)
        step()
jax.profiler.stop_trace()
print("trained", profiler.state, profiler.reason[:16])
""",
    "failed write": """
import shutil
profiler = StepProfiler(start_step=0, num_steps=1, log_dir="gone")
profiler.on_step(0)
step()
shutil.rmtree("gone")
open("gone", "w").close()
profiler.on_step(1)
print(profiler.state)
with jax.profiler.trace("own"):
    step()
""",
    "nobody closes it": """
profiler = StepProfiler(start_step=1, num_steps=9)
for i in range(4):
    profiler.on_step(i)
    step()
""",
}
ALL_OF_THEM = """
import contextlib, io, json, warnings
for name, loop in json.load(open("loops.json")).items():
    os.mkdir(name)
    os.chdir(name)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(loop)
    said = [f"{it.category.__name__}: {it.message}" for it in warned]
    json.dump({"out": out.getvalue(), "warnings": said}, open("told.json", "w"))
    os.chdir("..")
"""


def run_loops(directory: Path) -> None:
    (directory / "loops.json").write_text(json.dumps(LOOPS))
    left = alone(directory, ALL_OF_THEM)
    assert (left.code, left.out, left.err) == (0, "", "")


@dataclass(frozen=True)
class Told:
    """What a loop printed, what it was warned of, and where it left its profiles."""

    directory: Path
    out: str
    warnings: list[str]


@pytest.fixture(scope="module")
def told(run_directory: RunDirectory) -> Callable[[str], Told]:
    directory = run_directory.once("step profiler", run_loops)
    return lambda name: Told(
        directory / name, **json.loads((directory / name / "told.json").read_text())
    )


@pytest.mark.smoke
def test_as_a_context(told: Callable[[str], Told]) -> None:
    loop = told("context")
    place = loop.directory / "counterpoint-profile"
    assert loop.out == f"done None {place}\n"
    timeline = profile(place)
    assert len(timeline.devices) == 8
    assert set(timeline.runs.filter(device=0)["index"]) >= {0, 1, 2}


def test_as_a_decorator_and_as_a_callback(told: Callable[[str], Told]) -> None:
    callback, decorator = told("callback"), told("decorator")
    assert callback.out == "done\n"
    assert decorator.out == "['aa', 'aa', 'aa'] What it does. done\n"
    for loop in (callback, decorator):
        assert len(profile(loop.directory / "mine").devices) == 8


def test_a_profile_is_kept_when_the_loop_fails(told: Callable[[str], Told]) -> None:
    loop = told("failing loop")
    assert loop.out == "diverged done step 3 of 9\n"
    assert len(profile(loop.directory / "counterpoint-profile").devices) == 8


def test_a_profile_is_kept_when_nobody_closes_it(told: Callable[[str], Told]) -> None:
    loop = told("nobody closes it")
    assert (loop.out, loop.warnings) == ("", [])
    assert len(profile(loop.directory / "counterpoint-profile").devices) == 8


def test_no_profile_is_a_warning(told: Callable[[str], Told]) -> None:
    late, unused = told("no profile").warnings
    assert late.startswith("UserWarning: StepProfiler ")
    assert ": only 1 step began" in late
    assert "step 5" in late
    assert ": on_step was never" in unused


def test_other_processes_are_left_in_peace(told: Callable[[str], Told]) -> None:
    loop = told("other processes")
    assert (loop.out, loop.warnings) == ("never True\n", [])


def test_another_profiler_does_not_end_the_training(told: Callable[[str], Told]) -> None:
    loop = told("another profiler")
    assert loop.out == "trained failed another profiler\n"
    (warning,) = loop.warnings
    assert ": another profiler is" in warning
    assert len(profile(loop.directory / "own").devices) == 8


def test_a_failed_write_leaves_the_profiler_to_the_program(told: Callable[[str], Told]) -> None:
    loop = told("failed write")
    assert loop.out == "failed\n"
    (warning,) = loop.warnings
    assert f" {loop.directory}/gone: " in warning
    assert len(profile(loop.directory / "own").devices) == 8


@pytest.mark.parametrize(
    ("before", "options", "env", "why", "next"),
    [
        (
            "open('file', 'w').close()",
            "log_dir='file/in/it'",
            {},
            "{cwd}/file/in/it can't be written: Not a directory",
            "name a writable directory",
        ),
        (
            "",
            "",
            {"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "1"},
            (
                "AutoPGLE profiles in this process (JAX_ENABLE_PGLE), and JAX refuses a second "
                "profile in the middle of the program"
            ),
            "profile a second run, with JAX_COMPILATION_CACHE_EXPECT_PGLE=true instead",
        ),
    ],
)
def test_what_speaks_against_a_profile_is_raised_before_the_first_step(
    tmp_path: Path, before: str, options: str, env: dict[str, str], why: str, next: str
) -> None:
    left = alone(
        tmp_path,
        f"""
{before}
profiler = StepProfiler(start_step=3, {options})
try:
    profiler.on_step(0)
except CounterpointError as error:
    print(error)
profiler.on_step(1)
print(profiler.state)
""",
        **env,
    )
    assert left.out.splitlines() == [
        "StepProfiler: no profile",
        f"  why: {why.format(cwd=tmp_path)}",
        f"  next: {next}",
        "failed",
    ], left.err


def test_under_the_agent_the_window_is_handed_over(tmp_path: Path) -> None:
    left = under_agent(tmp_path, LOOP, {"quiet_s": 0, "seconds": 0.01})
    assert left.out == f"done None {left.rank}/profile\n", left.err
    assert (left.window["state"], left.window["start_step"], left.window["steps"]) == ("done", 2, 3)
    assert not (tmp_path / "counterpoint-profile").exists()
    assert [line["step"] for line in left.steps] == list(range(8))
    assert {line["source"] for line in left.steps} == {"api"}
    assert len(left.profiles) == 1
    assert left.process["failures"] == []


def test_the_command_line_goes_before_the_program(tmp_path: Path) -> None:
    left = under_agent(tmp_path, LOOP, {"start_step": 4, "steps": 2})
    assert (left.window["start_step"], left.window["steps"]) == (4, 2), left.err
    assert len(left.profiles) == 1


def test_a_run_without_profile_has_none(tmp_path: Path) -> None:
    left = under_agent(tmp_path, LOOP, {"profile": False})
    assert left.out.startswith("never no profile "), left.err
    assert left.out.endswith(" None\n")
    assert (left.err, left.profiles) == ("", [])
    assert len(left.steps) == 8


def test_a_directory_of_its_own_holds_under_the_agent_too(tmp_path: Path) -> None:
    loop = LOOP.replace("num_steps=3", "num_steps=3, log_dir='mine'")
    left = under_agent(tmp_path, loop, {})
    assert left.window["path"].endswith("mine"), left.err
    (file,) = tmp_path.glob("mine/plugins/profile/*/*.xplane.pb")
    assert left.window["files"] == [str(file)]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"start_step": -1}, "start_step=-1: steps are counted from 0"),
        ({"num_steps": 0}, "num_steps=0 records nothing"),
        ({"processes": "first"}, "processes='first' is neither 'all' nor indices of processes"),
    ],
)
def test_a_window_that_can_not_be_is_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError) as raised:
        StepProfiler(**options)  # pyright: ignore[reportArgumentType]
    assert raised.value.what == what
    assert raised.value.next
