"""Parts of the agent by themselves: what needs no program to be seen."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

import counterpoint.lowering
from agent_process import environment
from counterpoint.capture.agent import window
from counterpoint.capture.agent.compiles import CompileCounter, module_name
from counterpoint.capture.agent.process_record import AgentLog
from counterpoint.capture.agent.recorder import NotYetError, ProfileRecorder
from counterpoint.capture.agent.steps import (
    API,
    CountedStep,
    PrintedCount,
    StepCounter,
    StepKind,
    StepNumbers,
    whole_number,
)
from counterpoint.capture.agent.trace import OtherProfilerError, Profiler
from counterpoint.capture.agent.window import (
    NONE,
    AtStep,
    ProcessState,
    ProfileClaim,
    WhenQuiet,
    WindowAgreement,
    WindowRequest,
    parse_window,
    why_never,
)
from counterpoint.capture.environment import AGENT
from counterpoint.core.injection import SITE
from counterpoint.core.injection.import_hook import when_loaded

EMULATOR = Path(counterpoint.lowering.__file__).parent / "emulator"
ENTERING = [
    SITE.parent / "import_hook.py",
    *(path for place in (AGENT, EMULATOR, SITE) for path in place.rglob("*.py")),
]

TRAIN, EVAL = StepKind("annotation", "train"), StepKind("annotation", "eval")


# What an interpreter without Counterpoint needs


def foreign(source: str) -> Iterator[str]:
    """Imports that are neither of the standard library nor relative."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        yield from (it for it in names if it.split(".")[0] not in sys.stdlib_module_names)


@pytest.mark.parametrize(
    "path", sorted(ENTERING), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_an_older_python_without_counterpoint_can_run_it(path: Path) -> None:
    source = path.read_text()
    ast.parse(source, feature_version=(3, 9))
    assert "from __future__ import annotations" in source
    assert list(foreign(source)) == []


def test_a_foreign_import_is_found() -> None:
    source = "import numpy.linalg\nfrom counterpoint import core\nimport os"
    assert list(foreign(source)) == [
        "numpy.linalg",
        "counterpoint",
    ]


def test_python_3_9_runs_it(tmp_path: Path) -> None:
    python = shutil.which("python3.9")
    if (
        python is None
        or subprocess.run([python, "-V"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no python3.9 on PATH")
    modules = [f"_counterpoint_agent.{path.stem}" for path in AGENT.glob("[!_]*.py")]
    program = f"import importlib; print(len([importlib.import_module(m) for m in {modules}]))"
    done = subprocess.run(
        [python, "-c", program],
        env=environment(tmp_path, None, {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{len(modules)}\n", "")


# Waiting for an import


def test_the_call_comes_once_the_module_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late_arrival.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[object] = []
    finders = list(sys.meta_path)

    when_loaded(
        "late_arrival",
        lambda: seen.append(sys.modules["late_arrival"].value),
        lambda: seen.append(hasattr(sys.modules["late_arrival"], "value")),
    )
    assert importlib.util.find_spec("late_arrival")
    assert seen == []  # to look whether it is there is no import
    module = importlib.import_module("late_arrival")
    importlib.reload(module)

    assert seen == [False, 1]
    assert sys.meta_path == finders
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    when_loaded("late_arrival", lambda: seen.append("at once"))
    assert seen == [False, 1, "at once"]
    del sys.modules["late_arrival"]


def test_an_import_that_fails_is_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "second_try.py"
    broken.write_text("raise ImportError('no driver yet')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[str] = []
    when_loaded("second_try", lambda: seen.append("loaded"))

    with pytest.raises(ImportError, match="no driver yet"):
        importlib.import_module("second_try")
    assert seen == []
    broken.write_text("whole = True\nassert whole, 'another size: no stale bytecode'\n")
    importlib.invalidate_caches()
    importlib.import_module("second_try")

    assert seen == ["loaded"]
    del sys.modules["second_try"]


def test_what_is_not_there_is_not_found_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    when_loaded("no_such_module_at_all", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_at_all")


def _fail() -> None:
    raise ZeroDivisionError


def test_a_call_that_fails_does_not_fail_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calm.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    when_loaded("calm", _fail)
    assert importlib.import_module("calm").__name__ == "calm"
    del sys.modules["calm"]


# The window


def test_a_window_is_read_from_json() -> None:
    assert parse_window(None) == parse_window("") == NONE
    assert parse_window("{}") == WindowRequest()
    told = '{"start_step": 5, "steps": 3, "processes": [0, 2], "quiet_s": null, "unknown": 1}'
    assert parse_window(told) == WindowRequest(start_step=5, steps=3, processes=(0, 2))
    assert parse_window('{"processes": "all"}').processes is None


NOW = 100.0
NOTHING = ProcessState(NOW, compiled=0, busy=False, last_compile_s=None, steps=0)


@pytest.mark.parametrize(
    ("window", "seen", "reason"),
    [
        (NONE, NOTHING, "no profile was requested of this process"),
        (WindowRequest(), NOTHING, "the program never compiled anything"),
        (WindowRequest(), NOTHING._replace(busy=True), "the program ended while it was compiling"),
        (
            WindowRequest(quiet_s=10),
            NOTHING._replace(compiled=1, last_compile_s=97.5),
            "the program ended 2.5 s after its last compile; a profile begins after 10 s",
        ),
        (
            WindowRequest(quiet_s=10, calm_steps=2),
            ProcessState(NOW, 58, False, 99.2, 9, last_compiled="jit(step)", times=57),
            (
                "the program ended 0.8 s after its last compile; "
                "a profile begins after 10 s or 2 steps without one: "
                "jit(step) was compiled last, 57 times in all"
            ),
        ),
        (
            WindowRequest(quiet_s=1),
            NOTHING._replace(compiled=1, last_compile_s=90.0, steps=4),
            "the program ended before its next step",
        ),
        (
            WindowRequest(start_step=5),
            NOTHING._replace(compiled=1, steps=1),
            "only 1 step began, and the profile was to start with step 5, counted from 0",
        ),
        (
            WindowRequest(start_step=5),
            NOTHING,
            (
                "no step was seen: steps are counted from jax.profiler.StepTraceAnnotation, "
                "counterpoint.StepProfiler, or executions of the largest compiled function; "
                "the program never compiled anything either"
            ),
        ),
        (
            WindowRequest(start_step=5),
            NOTHING._replace(compiled=1, steps=2, executed="step"),
            (
                "step was executed only 2 times, "
                "and the profile was to start with step 5, counted from 0"
            ),
        ),
    ],
)
def test_a_window_that_never_came_has_a_reason(
    window: WindowRequest, seen: ProcessState, reason: str
) -> None:
    assert why_never(window, seen) == reason


# Steps


def test_the_kind_that_begins_most_often_leads() -> None:
    steps = StepCounter()
    order = [EVAL, EVAL, TRAIN, TRAIN, TRAIN, EVAL, TRAIN, EVAL]
    leads = [steps.begin(kind, float(now)).leads for now, kind in enumerate(order)]
    assert leads == [True, True, False, False, True, False, True, False]
    assert steps.leading == TRAIN
    assert steps.count == 4
    assert steps.facts() == {"annotation:eval": 4, "annotation:train": 4}


def test_a_kind_that_is_followed_leads_for_good() -> None:
    steps = StepCounter()
    steps.begin(TRAIN, 0.0)
    steps.follow(API)
    assert not steps.begin(TRAIN, 1.0).leads
    assert steps.begin(API, 2.0) == (API, 0, True)
    assert steps.facts() == {"annotation:train": 2, "api": 1}


def test_steps_are_expected_as_long_as_they_took_before() -> None:
    steps = StepCounter()
    assert not steps.expected(5.0, 0.0, 60.0)
    steps.begin(TRAIN, 0.0)
    assert steps.expected(60.0, 0.0, 60.0)
    assert not steps.expected(61.0, 0.0, 60.0)
    assert steps.expected(661.0, 601.0, 60.0)  # ten minutes of compiling in its first step
    steps.begin(TRAIN, 20.0)
    assert steps.expected(220.0, 0.0, 60.0)
    assert not steps.expected(221.0, 0.0, 60.0)


def test_only_a_number_that_is_at_hand_is_noted() -> None:
    import numpy as np

    class OnDevice:
        def __index__(self) -> int:
            raise AssertionError("this would wait for the device")

    numbers = [7, np.int32(8), None, "9", 1.5, OnDevice()]
    assert [whole_number(number) for number in numbers] == [7, 8, None] + [None] * 3


# When the window opens


@pytest.mark.parametrize(
    ("numbers", "start_step", "turn"),
    [
        (range(20), 5, 5),
        (range(1000, 1020), 5, 5),
        (range(1000, 1020), 1005, 5),
        (range(1000, 1020), 1000, 0),
        (range(0, 1000, 50), 500, 10),
        ([None] * 20, 5, 5),
        ([7, *range(1000, 1019)], 1005, 6),
    ],
)
def test_a_step_is_counted_from_0_or_has_the_number(
    numbers: Sequence[int | None], start_step: int, turn: int
) -> None:
    own = StepNumbers()
    timing = AtStep(start_step, passed=own.passed)
    due: list[bool] = []
    for at, number in enumerate(numbers):
        own.came_to(TRAIN, number)
        due.append(timing.step_due(at))
    assert due.index(True) == turn


def test_numbers_of_another_annotation_tell_nothing_of_a_step() -> None:
    own = StepNumbers()
    timing = AtStep(5, passed=own.passed)
    own.came_to(StepKind("annotation", "eval"), 0)
    own.came_to(TRAIN, 1000)
    assert not timing.step_due(0)


def test_whoever_is_quiet_first_names_the_step_for_all(tmp_path: Path) -> None:
    first, second = StepCounter(), StepCounter()
    loud = WhenQuiet(lambda: False, lambda: True, second, lambda: its_meeting)
    quiet = WhenQuiet(lambda: True, lambda: True, first, lambda: our_meeting)
    our_meeting, its_meeting = WindowAgreement(tmp_path), WindowAgreement(tmp_path)
    for turn in range(6):
        first.begin(TRAIN, turn * 0.5)
        assert not quiet.step_due(turn)
        assert not loud.step_due(turn)
    assert our_meeting.step == 4 + 1 + 4  # two seconds ahead, once it is known how fast steps are
    assert not loud.time_due()  # looks
    for turn in (8, 9, 10):
        assert quiet.step_due(turn) == loud.step_due(turn) == (turn >= 9)


def test_two_who_propose_at_once_keep_to_one(tmp_path: Path) -> None:
    meetings = [WindowAgreement(tmp_path) for _ in range(3)]
    for step, meeting in enumerate(meetings, start=7):
        meeting.propose_step(step)
    assert [meeting.step for meeting in meetings] == [7, 7, 7]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".window-step"]


def test_with_nowhere_to_meet_each_keeps_to_itself(tmp_path: Path) -> None:
    meeting = WindowAgreement(tmp_path / "missing")
    meeting.propose_step(7)
    meeting.propose_time(8.5)
    assert (meeting.step, meeting.time_s) == (7, 8.5)


def test_a_window_by_time_opens_for_all_at_once(tmp_path: Path) -> None:
    meetings = [WindowAgreement(tmp_path), WindowAgreement(tmp_path)]
    quiet = WhenQuiet(lambda: True, lambda: False, StepCounter(), lambda: meetings[0])
    loud = WhenQuiet(lambda: False, lambda: False, StepCounter(), lambda: meetings[1])
    assert not quiet.time_due()
    assert not loud.time_due()
    assert meetings[0].time_s == meetings[1].time_s
    assert meetings[0].time_s is not None
    meetings[0].time_s = meetings[1].time_s = time.time() - 0.1
    assert quiet.time_due()
    assert loud.time_due()


def test_a_clock_that_is_set_back_puts_a_window_off_by_seconds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = SimpleNamespace(time=lambda: 1e9, monotonic=lambda: 50.0)
    monkeypatch.setattr(window, "time", clocks)
    meeting = WindowAgreement(tmp_path)
    quiet = WhenQuiet(lambda: True, lambda: False, StepCounter(), lambda: meeting)
    assert not quiet.time_due()
    clocks.time = lambda: 1e9 - 3600
    clocks.monotonic = lambda: 53.0
    assert not quiet.time_due()
    clocks.monotonic = lambda: 54.0
    assert quiet.time_due()


def test_alone_it_opens_as_soon_as_it_is_quiet() -> None:
    calm = False
    timing = WhenQuiet(lambda: calm, lambda: False, StepCounter(), lambda: None)
    assert not timing.step_due(0)
    assert not timing.time_due()
    calm = True
    assert timing.step_due(0)
    assert timing.time_due()


# Compiles

LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
BACKEND = "/jax/core/compile/backend_compile_duration"


def test_it_is_quiet_when_nothing_is_under_way_or_just_ended() -> None:
    lines: list[dict[str, object]] = []
    compiles = CompileCounter(lines.append, "/nowhere/jax/")
    assert not compiles.quiet(1e9, 1.0)

    compiles.began(LOWER)
    assert compiles.busy
    compiles.ended(LOWER, 0.5, "jit(step)")
    assert not compiles.quiet(1e9, 1.0)

    compiles.began(BACKEND)
    assert compiles.ended(BACKEND, 2.0, "jit(step)")
    assert compiles.last_end_s is not None
    assert not compiles.quiet(compiles.last_end_s + 0.9, 1.0)
    assert compiles.quiet(compiles.last_end_s + 1.0, 1.0)
    compiles.began(BACKEND)
    assert not compiles.quiet(compiles.last_end_s + 1.0, 1.0)
    assert [line["kind"] for line in lines] == ["lower", "backend"]
    assert lines[1]["where"] is not None


def test_a_loop_that_compiles_again_and_again_is_not_waited_for() -> None:
    """As `jit` with a new static argument in each step; what a program compiles first has names."""
    compiles = CompileCounter(lambda _: None, "/nowhere/jax/")
    for name in [*"abcdefgh", *6 * ["step"]]:
        compiles.ended(BACKEND, 0.1, f"jit({name})")
        assert not compiles.goes_on
    compiles.ended(BACKEND, 0.1, "jit(step)")
    assert compiles.goes_on


@pytest.mark.parametrize("file", ["/me/jax/_src/stages.py", "/me/threading.py"])
def test_a_file_named_like_one_of_jax_or_python_is_the_programs_own(file: str) -> None:
    lines: list[dict[str, object]] = []
    compiles = CompileCounter(lines.append, "/nowhere/jax/")
    ended = partial(compiles.ended, BACKEND, 2.0, "jit(step)")
    code = compile("def compile():\n    ended()\ncompile()", file, "exec")
    exec(code, {"ended": ended})  # noqa: S102  a frame of a file of that name
    assert (lines[0]["where"], lines[0]["aot"]) == (f"{file}:2", False)


def test_events_of_other_kinds_are_passed_over() -> None:
    compiles = CompileCounter(lambda _: None, "/nowhere/jax/")
    compiles.began("/jax/other")
    assert not compiles.ended("/jax/other", 1.0, None)
    compiles.happened("/jax/compilation_cache/tasks_using_cache")
    assert not compiles.busy
    assert compiles.facts()["cache"] == {"hits": 0, "misses": 0, "requests": 0}


def test_modules_have_the_names_that_xla_gives_them() -> None:
    names = {"jit(step)": "jit_step", "jit(<lambda>)": "jit__lambda_", "pmap(f.g)": "pmap_f.g"}
    assert {name: module_name(name) for name in names} == names
    assert module_name("step") is None
    assert module_name(None) is None


# Whose turn it is

OTHER = """
import sys
import time
from pathlib import Path
from counterpoint.capture.agent.window import ProfileClaim
claim = ProfileClaim(Path(sys.argv[1]))
print(claim.take(), flush=True)
sys.stdin.readline()
if sys.argv[2] == "done":
    claim.use_up()
"""


@pytest.mark.parametrize(("end", "free"), [("done", False), ("undone", True)])
def test_a_turn_ends_with_its_process_unless_it_was_used(
    tmp_path: Path, end: str, free: bool
) -> None:
    path = tmp_path / "claim"
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        claim = ProfileClaim(path)
        assert not claim.take()
        assert claim.holder == f"process {other.pid}"
        other.communicate("\n")
    assert claim.take() is free


def test_what_a_full_disk_does_not_take_is_not_kept_in_memory(tmp_path: Path) -> None:
    journal = AgentLog(str(tmp_path), 1)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "steps-1.jsonl").symlink_to("/dev/full")
    journal.step(TRAIN, 0, 1.0, 2.0)
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    journal.flush()  # nothing is left to be written


def test_what_is_in_the_way_of_a_window_is_not_asked_for_in_each_step(tmp_path: Path) -> None:
    """A program may take thousands of steps a second."""
    asked: list[float] = []

    def busy(_: WindowRequest) -> None:
        asked.append(time.monotonic())
        raise NotYetError("another process takes the profile")

    profiler = Profiler(pytest.importorskip("jax"))
    recorder = ProfileRecorder(
        WindowRequest(start_step=0), AtStep(0), tmp_path, profiler, busy, lambda: None
    )
    began = time.monotonic()
    for turn in range(10_000):
        recorder.step_begins(CountedStep(TRAIN, turn, leads=True))
    took = time.monotonic() - began
    assert recorder.state == "waiting"
    assert 1 <= len(asked) <= 2 + took / 0.2


@pytest.mark.parametrize(
    ("backend", "asked", "given"),
    [
        ("tpu", True, {"enable_continuous_profiling": True}),
        ("cpu", True, {"enable_continuous_profiling": True}),
        ("gpu", True, {}),  # whose profiler would then record nothing
        ("tpu", False, {}),
    ],
)
def test_a_profile_is_written_in_pieces_where_the_device_can(
    tmp_path: Path, backend: str, asked: bool, given: dict[str, bool]
) -> None:
    options = SimpleNamespace(advanced_configuration={}, python_tracer_level=1)
    started: list[object] = []
    profiler = SimpleNamespace(
        ProfileOptions=lambda: options,
        start_trace=lambda _, **told: started.append(told["profiler_options"]),
        stop_trace=lambda: None,
        TraceAnnotation=lambda _, **_said: nullcontext(),
    )
    jax = SimpleNamespace(profiler=profiler, default_backend=lambda: backend)
    Profiler(cast("ModuleType", jax)).start(
        tmp_path, perfetto_link=False, perfetto_trace=False, in_pieces=asked, python=asked
    )
    assert started == [options]
    assert options.advanced_configuration == given
    assert options.python_tracer_level == int(asked)


# How long a window by time lasts

EXECUTED = StepKind("execution", "step")


def by_time(directory: Path, **window: float) -> tuple[ProfileRecorder, Callable[[float], None]]:
    """A window that opened by time, and what lets seconds of it pass."""
    recorder = waiting(directory, [], **window)
    recorder.tick()
    assert recorder.state == "open"

    def pass_by(seconds: float) -> None:
        assert recorder.opened_s is not None
        recorder.opened_s -= seconds
        recorder.tick()

    return recorder, pass_by


def waiting(directory: Path, others: list[str], **window: float) -> ProfileRecorder:
    """A window that opens once nothing is in `others`, the profilers that are active."""

    def refuse_second() -> None:
        if others:
            raise OtherProfilerError(f"another profiler is active: {others[0]}")

    profiler = SimpleNamespace(
        refuse_second=refuse_second,
        start=lambda *_, **__: None,
        stop=lambda _: None,
        drop=lambda _: None,
        written=lambda _: [],
        settle=lambda *_: True,
    )
    return ProfileRecorder(
        WindowRequest(**{"longest_s": 60.0, **window}),  # type: ignore[arg-type]
        AtStep(10**6, lambda: True),
        directory,
        cast("Profiler", profiler),
        lambda _: None,
        lambda: None,
    )


def test_a_window_by_time_waits_for_three_whole_runs_of_a_long_step(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path)
    for turn in range(4):
        pass_by(30)
        assert recorder.state == "open", turn
        recorder.step_begins(CountedStep(EXECUTED, turn + 1, leads=True))
    recorder.tick()
    assert (recorder.state, recorder.steps) == ("done", 3)


def test_a_window_whose_steps_stay_away_ends(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path)
    recorder.step_begins(CountedStep(EXECUTED, 1, leads=True))
    pass_by(290)
    assert recorder.state == "open"
    pass_by(20)
    assert recorder.state == "done"


def test_a_window_of_requested_length_has_that_length(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path, seconds=20.0, longest_s=20.0)
    pass_by(19)
    assert recorder.state == "open"
    pass_by(2)
    assert recorder.state == "done"


def test_steps_that_are_only_printed_are_waited_for(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path, steps=10)
    lines = tmp_path / "steps-log.jsonl"
    recorder.printed = PrintedCount(tmp_path).since
    began = recorder.opened_s
    assert began is not None
    lines.write_text(f'{{"step": 0, "start_s": {began - 400}}}\n')
    pass_by(100)
    assert recorder.state == "open"
    with lines.open("a") as file:
        file.writelines(f'{{"step": {n}, "start_s": {began + n}}}\n' for n in range(1, 5))
    pass_by(1)
    assert recorder.state == "done"


def test_a_program_that_counts_and_prints_nothing_is_watched_for_a_minute(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path)
    recorder.printed = PrintedCount(tmp_path).since
    pass_by(59)
    assert recorder.state == "open"
    pass_by(2)
    assert recorder.state == "done"


@pytest.mark.system
def test_memory_that_the_first_runs_take_is_the_programs(tmp_path: Path) -> None:
    recorder, pass_by = by_time(tmp_path)
    taken = b"x" * (700 << 20)  # as activations on the CPU, where they are memory of the process
    pass_by(4)
    assert recorder.state == "open"
    for turn in range(1, 4):
        recorder.step_begins(CountedStep(EXECUTED, turn, leads=True))
        recorder.tick()
    assert recorder.state == "open"
    more = b"x" * (600 << 20)
    recorder.tick()
    assert recorder.state == "done"
    assert taken[0] == more[0]


# Which of two functions is the training


@pytest.mark.parametrize(
    ("layers_s", "step_s", "begins"),
    [
        pytest.param(0.1, 0.02, 3, id="ten steps outlast all layers"),
        pytest.param(2.0, 0.02, 402, id="only many steps do"),
        pytest.param(2.0, 0.3, 3, id="steps are long"),
    ],
)
def test_training_replaces_a_recording_of_what_came_before(
    tmp_path: Path, layers_s: float, step_s: float, begins: int
) -> None:
    spent = {"layer": (layers_s, layers_s / 48), "step": (0.0, 0.0)}
    recorder = recorded(tmp_path, spent)
    for turn in range(3, begins + 12):
        spent["step"] = ((turn - 1) * step_s, step_s)
        recorder.step_begins(CountedStep(EXECUTED, turn, leads=True))
    assert (recorder.state, recorder.kind) == ("done", EXECUTED)
    assert recorder.start_step == begins


def test_a_short_evaluation_does_not_replace_the_training(tmp_path: Path) -> None:
    spent = {"layer": (2.0, 0.1), "step": (0.0, 0.0)}
    recorder = recorded(tmp_path, spent)
    for turn in range(3, 40):
        spent["step"] = ((turn - 1) * 0.01, 0.01)
        recorder.step_begins(CountedStep(EXECUTED, turn, leads=True))
    recorder.end(lambda: "not reached")
    assert recorder.kind is not None
    assert (recorder.state, recorder.kind.name, recorder.steps) == ("done", "layer", 10)


def test_a_last_call_that_looked_long_does_not_replace_the_training(tmp_path: Path) -> None:
    spent = {"layer": (2.0, 0.1), "step": (0.3, 0.3)}
    recorder = recorded(tmp_path, spent)
    recorder.step_begins(CountedStep(EXECUTED, 2, leads=True))
    assert recorder.state == "open"
    spent["step"] = (0.4, 0.2)
    recorder.step_begins(CountedStep(EXECUTED, 3, leads=True))
    recorder.end(lambda: "not reached")
    assert recorder.kind is not None
    assert (recorder.state, recorder.kind.name, recorder.steps) == ("done", "layer", 10)


def recorded(directory: Path, spent: dict[str, tuple[float, float]]) -> ProfileRecorder:
    """A recording of ten executions of `layer`, made again since something else was compiled."""
    recorder = waiting(directory, [])
    recorder._timing = SimpleNamespace(  # pyright: ignore[reportAttributeAccessIssue]
        step_due=lambda _: True, time_due=lambda: False
    )
    recorder.seconds_of = spent.__getitem__
    for turn in range(2, 14):
        recorder.step_begins(CountedStep(StepKind("execution", "layer"), turn, leads=True))
    assert recorder.state == "done"
    recorder.again()
    return recorder


# Another profiler


def test_a_window_waits_until_another_profiler_has_ended(tmp_path: Path) -> None:
    others = ["the program's"]
    recorder = waiting(tmp_path, others, steps=1)
    recorder.tick()
    assert recorder.state == "waiting"
    assert str(recorder.reason).endswith(": the program's")
    others.clear()
    recorder._tried_s = 0.0
    recorder.tick()
    for turn in range(4):
        recorder.step_begins(CountedStep(TRAIN, turn, leads=True))
    assert recorder.state == "done"
    assert "another profiler" in str(recorder.reason)


def test_a_window_with_too_few_steps_makes_way_and_comes_again(tmp_path: Path) -> None:
    recorder, _ = by_time(tmp_path, steps=10)
    for turn in range(3):
        recorder.step_begins(CountedStep(TRAIN, turn, leads=True))
    recorder.give_way("another one")
    assert recorder.state == "waiting"
    recorder.end(lambda: "not reached")
    assert (recorder.state, recorder.reason) == ("never", "another one")


def test_a_window_with_enough_steps_is_kept_when_it_makes_way(tmp_path: Path) -> None:
    recorder, _ = by_time(tmp_path, steps=10)
    for turn in range(7):
        recorder.step_begins(CountedStep(TRAIN, turn, leads=True))
    recorder.give_way("another one")
    assert recorder.state == "done"
    assert str(recorder.reason).startswith("another one")


def test_a_profile_that_the_program_records_itself_is_not_recorded_again(tmp_path: Path) -> None:
    window = parse_window('{"profile": false, "instead": "its own"}')
    recorder = ProfileRecorder(
        window, AtStep(0), tmp_path, cast("Profiler", None), lambda _: None, lambda: None
    )
    assert (recorder.state, recorder.reason) == ("never", "its own")
