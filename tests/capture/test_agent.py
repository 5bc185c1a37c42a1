"""The agent in real programs: what it records, and that the program never notices."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import counterpoint
from agent_process import SHARDED, Left, environment, run
from counterpoint.core.injection import SITE

pytestmark = pytest.mark.system

pytest.importorskip("jax")

ANNOTATED = (
    SHARDED
    + """
for i in range(12):
    with StepTraceAnnotation("train", step_num=100 + i):
        step()
print("trained")
"""
)


UNDECIDED = """
import json, time
from glob import glob
began = time.monotonic()
def undecided():
    states = [json.load(open(it))["window"]["state"] for it in glob("rank0/agent/process-*.json")]
    return not {*states} & {"done", "failed"} and time.monotonic() - began < 60
"""
"""`undecided()`: there is no profile yet, however slow the machine is."""

TIMED = (
    UNDECIDED
    + """
while undecided():
    step()
    time.sleep(0.01)
"""
)


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What is not known in the window is passed over."""
    window = {"start_step": 4, "steps": 5, "processes": "all", "from_later": 1}
    return run(tmp_path_factory.mktemp("run"), ANNOTATED, window)


@pytest.mark.smoke
def test_steps_of_annotations_are_profiled(annotated: Left) -> None:
    assert (annotated.code, annotated.out, annotated.err) == (0, "trained\n", "")
    window = annotated.window
    assert (window["state"], window["reason"], window["path"]) == ("done", None, "profile")
    assert (window["start_step"], window["steps"]) == (4, 5)

    timeline = counterpoint.read(str(annotated.rank / "profile"))

    assert timeline.step_rule.startswith("6 host markers 'train'")  # the fifth ends with the sixth
    assert len(timeline.devices) == 8
    assert "jit_train_step" in {program.name for program in timeline.programs}


@pytest.mark.smoke
def test_the_function_for_which_devices_wait_is_sampled(tmp_path: Path) -> None:
    loading = f"""{SHARDED}
import threading, time
def load_batch():
    time.sleep(0.04)
def write_logs():
    time.sleep(2)
threading.Thread(target=write_logs, daemon=True).start()
for i in range(10):
    with StepTraceAnnotation("train", step_num=i):
        load_batch()
        step()
"""
    left = run(tmp_path, loading, {"start_step": 2, "steps": 6})
    assert (left.code, left.err) == (0, "")
    timeline = counterpoint.read(str(left.rank / "profile"))
    names = pl.Series(timeline.host_names)
    events = timeline.host_events.with_columns(name=names.gather(timeline.host_events["name"]))
    loaded = events.filter(pl.col("name").str.ends_with(" load_batch"))
    calls = events.filter(pl.col("name").str.starts_with("PjitFunction("))
    assert {*loaded["line"]} == {*calls["line"]}
    assert loaded["dur_ps"].sum() > 5 * 35e9
    assert events["name"].str.ends_with(" write_logs").any()
    assert not events["name"].str.contains("counterpoint|stack_sampler|executions.py").any()


def test_a_job_that_resumes_is_profiled_from_the_number_that_it_gives_a_step(
    tmp_path: Path,
) -> None:
    left = run(tmp_path, ANNOTATED, {"start_step": 104, "steps": 5})
    assert left.code == 0, left.err
    assert (left.window["start_step"], left.window["steps"]) == (4, 5)
    numbers = counterpoint.read(str(left.rank / "profile")).steps["step"]
    assert numbers.unique().sort().to_list() == list(range(104, 110))


@pytest.mark.smoke
def test_what_is_seen_is_written_down(annotated: Left) -> None:
    process = annotated.process
    assert process["failures"] == []
    assert process["platform"] == "cpu"
    assert process["devices"] == ["cpu"] * 8
    assert process["device_ids"] == list(range(8))
    assert (process["process_index"], process["process_count"]) == (0, 1)
    assert process["python"] == sys.version.split()[0]
    assert process["jax"]
    assert process["jaxlib"]
    assert process["peak_memory"]["host"] > 50e6
    assert process["ended"] >= process["began"]

    assert [line["step"] for line in annotated.steps] == list(range(100, 112))
    assert {line["source"] for line in annotated.steps} == {"annotation"}
    starts = [line["start_s"] for line in annotated.steps]
    assert starts == sorted(starts)

    backend = [line for line in annotated.compiles if line["kind"] == "backend"]
    (step,) = (line for line in backend if line["module"] == "jit_train_step")
    assert step["seconds"] > 0
    assert not step["aot"]
    assert Path(step["where"].rpartition(":")[0]).name == "program.py"
    assert process["compiles"]["count"] == len(backend)


def test_operation_by_operation_the_window_comes_with_time(tmp_path: Path) -> None:
    eager = SHARDED + "def step(): (jnp.tanh(x @ w) / 64).block_until_ready()\n"
    left = run(tmp_path, eager + TIMED, {"quiet_s": 0.5, "seconds": 0.1, "perfetto_link": True})
    assert left.code == 0, left.err
    assert left.out == ""  # a link would stop the program
    assert list(left.rank.glob("profile/plugins/profile/*/perfetto_trace.json.gz"))
    assert left.window["state"] == "done"
    assert left.window["reason"] is None
    assert left.window["closed_s"] - left.window["opened_s"] >= 0.1
    last_compile = max(line["at_s"] for line in left.compiles)
    assert left.window["opened_s"] - last_compile >= 0.5
    assert len(counterpoint.read(str(left.rank / "profile")).devices) == 8


def test_without_a_start_whole_steps_are_taken_once_it_is_quiet(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        SHARDED
        + UNDECIDED
        + """
i = 0
while undecided():
    with StepTraceAnnotation("train", step_num=i):
        step()
    i += 1
    time.sleep(0.01)
""",
        {"quiet_s": 0.5, "steps": 6, "seconds": 0.01},
    )
    assert (left.window["state"], left.window["steps"]) == ("done", 6), left.err
    timeline = counterpoint.read(str(left.rank / "profile"))
    assert timeline.step_rule.startswith("7 host markers 'train'")


@pytest.mark.parametrize(
    ("program", "window", "reason"),
    [
        ("import jax", {}, "the program never compiled anything"),
        (
            "import jax; jax.jit(lambda x: x + 1)(1.0)",
            {"quiet_s": 60},
            "s after its last compile; a profile begins after 60 s",
        ),
        (
            "import jax; jax.jit(lambda x: x + 1)(1.0)",
            {"start_step": 3},
            "no step was seen: steps are counted from jax.profiler.StepTraceAnnotation",
        ),
        (
            """
            import jax
            for i in range(2):
                with jax.profiler.StepTraceAnnotation("train", step_num=i):
                    jax.jit(lambda x: x + 1)(1.0)
            """,
            {"start_step": 3},
            "only 2 steps began, and the profile was to start with step 3, counted from 0",
        ),
        ("import jax", {"profile": False}, "no profile was requested of this process"),
    ],
)
def test_a_window_that_never_came_says_why(
    tmp_path: Path, program: str, window: dict[str, object], reason: str
) -> None:
    left = run(tmp_path, program, window)
    assert (left.code, left.err) == (0, "")
    assert left.window["state"] == "never"
    assert reason in left.window["reason"]
    assert left.profiles == []
    assert left.process["failures"] == []


def test_without_jax_nothing_happens(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import sys
        loaded = [name for name in sys.modules if name.startswith("_counterpoint")]
        print(loaded, "json" in sys.modules, "threading" in sys.modules)
        print([entry for entry in sys.path if "injection" in entry])
        """,
        {},
    )
    loaded = ["_counterpoint_import_hook", "_counterpoint_agent"]
    assert left.out == f"{loaded} False False\n[]\n", left.err
    assert not left.rank.exists()


def test_an_open_profile_is_kept_when_the_program_fails(tmp_path: Path) -> None:
    endings = {
        "raise ValueError('diverged')": (1, "ValueError: diverged"),
        "sys.exit(7)": (7, ""),
        "raise KeyboardInterrupt": (-signal.SIGINT, "KeyboardInterrupt"),
    }
    for number, (ending, (code, message)) in enumerate(endings.items()):
        left = run(
            tmp_path / str(number),
            SHARDED
            + f"""
import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)
for i in range(6):
    with StepTraceAnnotation("train", step_num=i):
        step()
        if i == 4: {ending}
""",
            {"start_step": 2, "steps": 10},
        )
        assert left.code == code, left.err
        assert message in left.err
        assert left.window["state"] == "done"
        assert left.window["reason"].endswith("step 3 of 10")
        assert len(counterpoint.read(str(left.rank / "profile")).devices) == 8


def steps_written(rank: Path) -> int:
    return sum(it.read_bytes().count(b"\n") for it in rank.glob("agent/steps-*.jsonl"))


def test_a_killed_process_leaves_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        SHARDED
        + """
for i in range(1000):
    with StepTraceAnnotation("train", step_num=i):
        step()
    time.sleep(0.02)
"""
    )
    rank = tmp_path / "rank0"
    child = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py")],
        env=environment(rank, {"start_step": 5, "steps": 900}, {}),
    )
    try:
        deadline = time.monotonic() + 180
        while steps_written(rank) < 15 and time.monotonic() < deadline:
            time.sleep(0.1)
        child.terminate()  # no handler: nothing of ours runs
        assert child.wait(30) == -signal.SIGTERM
    finally:
        child.kill()
    left = Left(0, "", "", rank)
    assert left.window["state"] == "open"
    assert left.window["start_step"] == 5
    assert len(left.steps) > 10


def test_one_of_two_processes_profiles(tmp_path: Path) -> None:
    worker = f"""{UNDECIDED}
import jax
f = jax.jit(lambda x: x + 1)
f(1.0)  # the other one may be done by now
while undecided():
    f(1.0).block_until_ready()
    time.sleep(0.01)
"""
    left = run(
        tmp_path,
        f"""
        import subprocess, sys
        command = [sys.executable, "-c", {worker!r}]
        both = [subprocess.Popen(command) for _ in range(2)]
        sys.exit(sum(child.wait() for child in both))
        """,
        {"quiet_s": 0.3, "seconds": 0.3},
    )
    assert left.code == 0, left.err
    done, never = sorted((it["window"] for it in left.processes), key=lambda it: it["state"])
    assert (done["state"], never["state"]) == ("done", "never")
    profiled = next(it["pid"] for it in left.processes if it["window"]["state"] == "done")
    assert never["reason"].startswith(f"process {profiled} ")
    assert len(left.profiles) == 1


def test_the_turn_passes_on_when_its_holder_ends_unprofiled(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import subprocess, sys
        helper = "import jax; jax.jit(lambda x: x + 1)(1.0)"
        subprocess.run([sys.executable, "-c", helper], check=True)
        """
        + SHARDED.replace("\n", "\n        ")
        + """
        for i in range(6):
            with StepTraceAnnotation("train"):
                step()
        """,
        {"start_step": 2, "steps": 2},
    )
    assert left.code == 0, left.err
    assert sorted(it["window"]["state"] for it in left.processes) == ["done", "never"]


def test_a_shadowed_sitecustomize_runs_too(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import builtins; builtins.theirs = __file__\n")
    program = """
        import builtins, sitecustomize, os, jax
        print(builtins.theirs == sitecustomize.__file__, "injection" in os.environ["PYTHONPATH"])
    """
    left = run(tmp_path, program, {}, more={"PYTHONPATH": f"{SITE}:{theirs}"})
    assert left.out == "True True\n", left.err
    assert left.process["jax"]


def test_a_broken_sitecustomize_fails_as_it_would(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    program = "import jax; print('ran')"
    path = f"{SITE}:{tmp_path}"
    left = run(tmp_path, program, {}, more={"PYTHONPATH": path})
    alone = run(tmp_path, program, {}, more={"PYTHONPATH": str(tmp_path)})
    assert left.out == alone.out == "ran\n"
    assert left.err == alone.err
    assert "ZeroDivisionError" in left.err


def test_the_programs_own_profile_goes_before(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        SHARDED
        + """
jax.profiler.start_trace("own")
for i in range(6):
    with StepTraceAnnotation("train", step_num=i):
        step()
jax.profiler.stop_trace()
""",
        {"start_step": 2, "steps": 2},
    )
    assert left.code == 0, left.err
    assert left.window["state"] == "never"
    assert "another profiler is" in left.window["reason"]
    assert left.process["own_profiles"] == [str(tmp_path / "own")]
    assert [line["step"] for line in left.steps] == list(range(6))
    assert len(counterpoint.read(str(tmp_path / "own")).devices) == 8


@pytest.mark.parametrize(
    "own",
    [
        "jax.profiler.start_trace('own'); step(); jax.profiler.stop_trace()",
        "with jax.profiler.trace('own'): step()",
    ],
)
def test_ours_gives_way_to_the_programs_own(tmp_path: Path, own: str) -> None:
    left = run(
        tmp_path,
        SHARDED
        + f"""
for i in range(6):
    with StepTraceAnnotation("train", step_num=i):
        step()
{own}
""",
        {"start_step": 2, "steps": 50},
    )
    assert left.code == 0, left.err
    assert left.window["state"] == "done"
    assert left.window["reason"].startswith("the program started")
    assert len(left.profiles) == 1
    assert list(tmp_path.glob("own/plugins/profile/*/*.xplane.pb"))


def test_ahead_of_time_compiles_are_told_from_others(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import jax, jax.numpy as jnp
        x = jnp.ones(8)
        def ahead(x): return x * 2
        def jitted(x): return x * 3
        jax.jit(ahead).lower(x).compile()(x)
        jax.jit(jitted)(x)
        """,
    )
    backend = {line["module"]: line for line in left.compiles if line["kind"] == "backend"}
    assert backend["jit_ahead"]["aot"]
    assert backend["jit_ahead"]["where"].endswith("program.py:6")
    assert not backend["jit_jitted"]["aot"]
    assert backend["jit_jitted"]["where"].endswith("program.py:7")
    assert left.process["compiles"]["ahead_of_time"] == 1


def test_hits_of_the_persistent_cache_are_told_from_compiles(tmp_path: Path) -> None:
    program = "import jax\ndef cached(x): return x * 2\njax.jit(cached)(1.0)"
    more = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    kinds: list[str] = []
    for name in ("first", "second"):
        left = run(tmp_path / name, program, more=more)
        kinds += [it["kind"] for it in left.compiles if it["module"] == "jit_cached"]
        counts = left.process["compiles"]["cache"]
        assert counts["hits" if name == "second" else "misses"] > 0
    assert [kind for kind in kinds if kind != "lower"] == ["backend", "cache_hit"]


def test_what_autopgle_says_is_noted_and_still_seen(tmp_path: Path) -> None:
    program = """
        import jax, time
        f = jax.jit(lambda x: x * 2)
        for i in range(8):
            with jax.profiler.StepTraceAnnotation("train"):
                f(1.0).block_until_ready()
    """
    more = {"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "2"}
    left = run(tmp_path, program, {"start_step": 2, "steps": 2}, more=more)
    assert left.code == 0, left.err
    assert "collected an empty trace" in left.err
    seen = left.process["autopgle"]
    assert seen["enabled"]
    assert seen["empty_traces"] >= 1
    assert seen["messages"][0].startswith("PGLE collected an")
    assert left.window["state"] == "failed"
    assert "AutoPGLE profiles" in left.window["reason"]


def test_programs_that_autopgle_optimised_are_missed_in_the_cache(tmp_path: Path) -> None:
    program = "import jax\ndef cached(x): return x * 2\njax.jit(cached)(1.0)"
    more = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    filling = {**more, "JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "3"}
    run(tmp_path / "fill", program, more=filling)
    expecting = {**more, "JAX_COMPILATION_CACHE_EXPECT_PGLE": "true"}

    left = run(tmp_path / "expect", program, more=expecting)

    assert "PGLE-optimized jit_cached" in left.err
    seen = left.process["autopgle"]
    assert seen["expected"]
    assert any("PGLE-optimized jit_cached" in it for it in seen["messages"])


def test_a_forked_child_does_nothing(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        SHARDED
        + """
import warnings; warnings.simplefilter("ignore")
for i in range(4):
    with StepTraceAnnotation("train", step_num=i):
        step()
child = os.fork()
if not child:
    with StepTraceAnnotation("train", step_num=99):
        pass
    os._exit(0)  # JAX itself does not survive an ordinary exit here
assert os.waitpid(child, 0)[1] == 0
for i in range(4, 8):
    with StepTraceAnnotation("train", step_num=i):
        step()
""",
        {"start_step": 2, "steps": 3},
    )
    assert left.code == 0, left.err
    assert left.window["state"] == "done"
    assert [line["step"] for line in left.steps] == list(range(8))
    assert left.process["failures"] == []


def test_a_child_forked_before_jax_is_a_process_of_its_own(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import os, sys
        child = os.fork()
        import jax
        jax.jit(lambda x: x + 1)(1.0)
        if child: assert os.waitpid(child, 0)[1] == 0
        """,
    )
    assert left.code == 0, left.err
    assert len(left.processes) == 2


def test_a_directory_that_cannot_be_written_fails_the_window_only(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "profile").write_text("in the way")
    left = run(tmp_path, ANNOTATED, {"start_step": 4, "steps": 5})
    assert (left.code, left.out, left.err) == (0, "trained\n", "")
    assert left.window["state"] == "failed"
    assert "rank0/profile" in left.window["reason"]
    assert "File exists" in left.window["reason"]


def test_a_profile_that_does_not_fit_leaves_nothing_half(tmp_path: Path) -> None:
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    left = run(tmp_path, limited + ANNOTATED, {"start_step": 4, "steps": 5})
    assert (left.code, left.out) == (0, "trained\n"), left.err
    assert left.window["state"] == "failed"
    assert "rank0/profile: OUT_OF_RANGE" in left.window["reason"]
    assert "File too large" in left.window["reason"]
    assert left.profiles == []


def test_a_profile_without_its_perfetto_trace_is_kept(tmp_path: Path) -> None:
    in_the_way = "import gzip; gzip.open = None  # what JAX makes the trace with"
    left = run(
        tmp_path, SHARDED + in_the_way + TIMED, {"quiet_s": 0.5, "seconds": 0.5, "perfetto_link": 1}
    )
    assert left.code == 0, left.err
    assert left.window["state"] == "done"
    assert left.window["reason"].startswith("without a trace")
    assert "TypeError" in left.window["reason"]
    assert len(left.profiles) == 1


def test_with_nowhere_to_write_the_program_runs_as_ever(tmp_path: Path) -> None:
    (tmp_path / "rank0").write_text("in the way")
    left = run(tmp_path, ANNOTATED, {"start_step": 4, "steps": 5})
    assert (left.code, left.out, left.err) == (0, "trained\n", "")


def test_a_window_that_makes_no_sense_is_written_down(tmp_path: Path) -> None:
    left = run(tmp_path, ANNOTATED, more={"COUNTERPOINT_AGENT_WINDOW": "{nonsense"})
    assert (left.code, left.out, left.err) == (0, "trained\n", "")
    assert "JSONDecodeError" in left.process["failures"][0]
    assert len(left.steps) == 12


def test_annotations_stay_what_they_were(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import jax, pickle, inspect
        from jax.profiler import StepTraceAnnotation, TraceAnnotation
        one = StepTraceAnnotation("train", step_num=1)
        assert isinstance(one, (StepTraceAnnotation, TraceAnnotation))
        assert issubclass(jax.profiler.StepTraceAnnotation, jax.profiler.TraceAnnotation)
        assert repr(StepTraceAnnotation) == "<class 'jax._src.profiler.StepTraceAnnotation'>"
        assert "step trace event" in StepTraceAnnotation.__doc__
        with one as entered: pass
        class Named(StepTraceAnnotation):
            def __init__(self): super().__init__("named")
        with Named(): pass
        try:
            with StepTraceAnnotation("train"): raise KeyError("theirs")
        except KeyError: print("raised")
        assert jax.__spec__.loader is jax.__loader__
        print(type(jax.__loader__).__name__, inspect.getsource(jax.profiler.start_trace)[:15])
        """,
    )
    assert left.out.split("\n")[:2] == ["raised", "SourceFileLoader def start_trace"], left.err
    assert left.process["steps"] == {"annotation:train": 2, "annotation:named": 1}


def test_evaluation_between_steps_is_not_counted_as_steps(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        SHARDED
        + """
for i in range(8):
    with StepTraceAnnotation("train", step_num=i):
        step()
    if i % 4 == 3:
        for j in range(3):
            with StepTraceAnnotation("eval", step_num=j):
                step()
""",
        {"start_step": 3, "steps": 3},
    )
    assert [line["step"] for line in left.steps if line["name"] == "train"] == list(range(8))
    assert {line["name"] for line in left.steps} == {"train"}
    assert (left.window["start_step"], left.window["steps"]) == (3, 3)


def test_a_compile_for_absent_devices_starts_no_backend(tmp_path: Path) -> None:
    left = run(
        tmp_path,
        """
        import jax
        jax.monitoring.record_scalar("/jax/core/compile/backend_compile_duration", 1.0)
        jax.monitoring.record_event_duration_secs("/jax/core/compile/backend_compile_duration", 1.0)
        from jax._src import xla_bridge
        import time; time.sleep(1)
        print(xla_bridge.backends_are_initialized())
        """,
        {"quiet_s": 0.1, "seconds": 0.1},
    )
    assert left.out == "False\n", left.err
    assert "only for other" in left.window["reason"]
    assert "devices" not in left.process


JOB = """
import sys, time
import jax, numpy as np
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]))
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
sharded = NamedSharding(Mesh(np.array(jax.devices()), ("d",)), P("d"))
x = jax.make_array_from_process_local_data(sharded, np.ones((4, 8), np.float32))
step = jax.jit(lambda x: x + x.sum(0) * 0.01, out_shardings=sharded)
if jax.process_index():  # falls quiet later than the other
    time.sleep(0.5)
    jax.jit(lambda x: x + 3)(1.0)
for i in range(200):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        x = step(x).block_until_ready()
    time.sleep(0.02)
"""


def test_processes_of_one_job_profile_the_same_steps(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{1}".format(*free.getsockname())
    children = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "job.py"), address, str(rank)],
            env=environment(tmp_path / f"rank{rank}", {"quiet_s": 0.3, "steps": 5}, {}, 2),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [child.communicate(timeout=300)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors

    both = [Left(0, "", "", tmp_path / f"rank{rank}") for rank in range(2)]

    assert [left.process["process_index"] for left in both] == [0, 1]
    assert [left.process["process_count"] for left in both] == [2, 2]
    assert [left.window["state"] for left in both] == ["done", "done"]
    assert both[0].window["start_step"] == both[1].window["start_step"]
    timeline = counterpoint.read(*(str(left.rank / "profile") for left in both))
    assert len(timeline.devices) == 4


def test_flags_that_the_program_sets_itself_are_noted(tmp_path: Path) -> None:
    program = """
        import jax, os
        os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=false"
        if {compiles}: jax.jit(lambda x: x + 1)(1.0)
        os.environ["XLA_FLAGS"] = "too late"
    """
    noted = [
        run(tmp_path / str(compiles), program.format(compiles=compiles)).process["xla_flags"]
        for compiles in (True, False)
    ]
    assert noted == [
        "--xla_cpu_enable_fast_math=false",
        "--xla_force_host_platform_device_count=8",
    ]


def test_steps_that_nobody_annotates_are_counted_by_their_executions(tmp_path: Path) -> None:
    loop = "for i in range(30): step()"
    left = run(tmp_path, SHARDED + loop, {"start_step": 5, "steps": 8})
    assert (left.code, left.err) == (0, "")
    assert (left.window["state"], left.window["reason"]) == ("done", None)
    assert (left.window["start_step"], left.window["steps"]) == (5, 8)
    assert left.window["counted"] == "executions of train_step"
    timeline = counterpoint.read(str(left.rank / "profile"))
    assert (len(timeline.devices), timeline.steps["step"].n_unique()) == (8, 9)


EVALUATED = """
import jax, jax.numpy as jnp
def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)
@jax.jit
def train_step(w, x):
    value, g = jax.value_and_grad(loss)(w, x)
    return w - 0.1 * g, value
@jax.jit
def evaluate(w, x):
    for turn in range(60):
        x = jnp.sin(jnp.cumsum(x @ w, axis=turn % 2) * turn)
    return x.mean()
w, x = jnp.ones((64, 64)), jnp.ones((8, 64))
def train(steps):
    global w
    for i in range(steps):
        w, value = train_step(w, x)
        value.block_until_ready()
def check(batches, rows=32):
    for n in range(batches):
        evaluate(w, jnp.ones((rows, 64))).block_until_ready()
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for epoch in range(6): train(30); check(40)",
        "check(20); [(train(30), check(310)) for epoch in range(3)]",
        "for epoch in range(4): train(30); check(10); check(10, 16 + epoch)",
    ],
    ids=["after an epoch", "before", "of other shapes"],
)
def test_an_evaluation_that_is_heavier_than_the_training_is_no_step(
    tmp_path: Path, loop: str
) -> None:
    left = run(tmp_path, EVALUATED + loop, {"steps": 8, "calm_steps": 5, "quiet_s": 0.2})
    assert (left.code, left.err) == (0, "")
    assert (left.window["state"], left.window["counted"]) == ("done", "executions of train_step")
    assert left.window["steps"] == 8
    assert list(left.process["executions"]) == ["train_step"]


NANS = """
import atexit, threading
import jax, jax.numpy as jnp
from jax._src.api import _post_hook_state as hook
atexit.register(lambda: print(hook.get_global(), hook.get_local()))  # after the agent's end
def weighted(x):
    return jnp.mean(jax.nn.logsumexp(x, axis=-1, b=jnp.ones(64)))
def make(loss):
    @jax.jit
    def train_step(w, x):
        return w - 0.1 * jax.grad(lambda w: loss(x @ w))(w)
    return train_step
w = x = jnp.ones((64, 64))
def train(step, beside=lambda w: None):
    global w
    for i in range(30):
        w = step(w, x).block_until_ready()
        beside(w)
def in_thread(*args):
    thread = threading.Thread(target=train, args=args)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    "loop",
    [
        "train(make(weighted))",
        "train(make(jnp.var))",
        "train(make(jnp.mean), weighted)",
        "in_thread(make(weighted))",
    ],
    ids=["logsumexp", "var", "beside the step", "in a thread"],
)
def test_a_step_that_switches_the_check_for_nans_off_is_counted(tmp_path: Path, loop: str) -> None:
    left = run(tmp_path, NANS + loop, {"start_step": 5, "steps": 8})
    assert (left.code, left.err) == (0, "")
    assert (left.window["state"], left.window["reason"]) == ("done", None)
    assert (left.window["start_step"], left.window["steps"]) == (5, 8)
    assert left.window["counted"] == "executions of train_step"
    assert left.process["failures"] == []
    assert left.out.startswith("None ")  # it has come out of JAX again
    assert "_heard" not in left.out


def test_a_job_that_resumes_at_the_step_to_start_with_is_profiled_from_there(
    tmp_path: Path,
) -> None:
    loop = """
for number in range(1000, 1020):
    with StepTraceAnnotation("train", step_num=number):
        step()
"""
    left = run(tmp_path, SHARDED + loop, {"start_step": 1000, "steps": 3})
    assert (left.code, left.err) == (0, "")
    assert (left.window["state"], left.window["start_step"]) == ("done", 0)


def test_two_functions_of_one_name_are_not_counted_as_one(tmp_path: Path) -> None:
    program = """
        import jax, jax.numpy as jnp
        grad = jax.jit(jax.grad(lambda w: jnp.sum(w @ w)))
        update = jax.jit(lambda w, d: w - 0.1 * d)
        w = jnp.ones((64, 64))
        for step in range(30): w = update(w, grad(w)); w.block_until_ready()
    """
    left = run(tmp_path, program, {"start_step": 5, "steps": 8})
    assert (left.code, left.err) == (0, "")
    assert (left.window["start_step"], left.window["steps"]) == (5, 8)
    assert left.process["executions"] == {"<lambda>": 30}


def test_without_any_steps_the_one_that_was_asked_for_comes_by_time(tmp_path: Path) -> None:

    program = SHARDED + UNDECIDED + "step()\nwhile undecided(): time.sleep(0.1)"
    left = run(tmp_path, program, {"start_step": 5, "quiet_s": 0.3, "seconds": 0.3})
    assert (left.code, left.err) == (0, "")
    assert left.window["state"] == "done"
    assert "by time" in left.window["reason"]
    last_compile = max(line["at_s"] for line in left.compiles)
    assert left.window["opened_s"] - last_compile >= 0.6


def test_steps_that_come_late_are_profiled_as_asked(tmp_path: Path) -> None:
    late = SHARDED + "step(); time.sleep(3)" + ANNOTATED.removeprefix(SHARDED)
    left = run(tmp_path, late, {"start_step": 4, "steps": 5, "quiet_s": 0.3, "seconds": 60})
    assert (left.code, left.err) == (0, "")
    assert (left.window["state"], left.window["reason"]) == ("done", None)
    assert (left.window["start_step"], left.window["steps"]) == (4, 5)
    assert len(left.profiles) == 1  # what came by time made way
    assert left.process["failures"] == []
