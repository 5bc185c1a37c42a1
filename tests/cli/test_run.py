"""`counterpoint run` and `counterpoint runs` as processes: words, exit codes and bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import in_process
from golden_files import Golden
from transcripts import Transcript, next_command

pytestmark = pytest.mark.system

STEPS = """
import jax, jax.numpy as jnp
step = jax.jit(lambda x: x @ x / 1000)
x = jnp.ones((64, 64))
for i in range(8):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        x = step(x).block_until_ready()
print("done")
"""
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"}


def counterpoint(
    *arguments: object, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return in_process(*arguments, cwd=cwd, environment=ENVIRONMENT | variables)


def run(
    cwd: Path, program: str, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return counterpoint("run", *options, "--", sys.executable, "-c", program, cwd=cwd, **variables)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Where a run with a profile lies, and what was said of it."""
    pytest.importorskip("jax")
    place = tmp_path_factory.mktemp("profiled")
    done = run(place, STEPS, "-o", "a", "--profile-start-step", "2", "--profile-steps", "3")
    assert done.returncode == 0, done.stderr
    return place, done.stdout, done.stderr


class TestWords:
    def test_stdout_is_the_workload_s(self, profiled: tuple[Path, str, str]) -> None:
        assert profiled[1] == "done\n"

    @pytest.mark.smoke
    def test_what_is_said_at_the_end(self, profiled: tuple[Path, str, str]) -> None:
        said = [line.removeprefix("counterpoint: ") for line in profiled[2].splitlines()]
        assert any(it.endswith(" in a") for it in said)
        outcome, steps, profile, time, loss, next_ = said[-6:]
        assert outcome == "outcome  ok"
        assert steps.startswith("steps    8 seen, median ")
        assert steps.endswith(" ms), between step annotations")
        assert profile.startswith("profile  1 file, ")
        assert re.fullmatch(r"step time     [\d.]+ ms.* steps?.*; measured .*", time)
        assert re.fullmatch(
            r"largest loss  (STEP\d+ .*: saves .* ms.*|"
            r"(nothing worth your time: )?no loss above .*)",
            loss,
        )
        assert next_command(next_) == ["explain", "a"]

    def test_the_command_it_names_next_works(self, profiled: tuple[Path, str, str]) -> None:
        explained = counterpoint(*next_command(profiled[2]), cwd=profiled[0])
        assert explained.returncode == 0, explained.stderr
        assert "4 runs " in explained.stdout  # the third ends where the fourth begins

    def test_convert_takes_a_run(self, profiled: tuple[Path, str, str], tmp_path: Path) -> None:
        done = counterpoint("convert", profiled[0] / "a", tmp_path / "kept", cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    def test_a_run_without_profile_says_why(self, tmp_path: Path) -> None:
        done = run(tmp_path, "print('hi')", "-o", "a")
        (line,) = (it for it in done.stderr.splitlines() if "profile  none: " in it)
        explained = counterpoint("explain", "a", cwd=tmp_path)
        assert explained.returncode == 3
        assert explained.stderr.startswith("error: a: ")
        assert f"why: {line.partition('none: ')[2]}\n" in explained.stderr
        assert "next: less a/rank0/stdout.log" in explained.stderr

    def test_no_profile_was_asked_for(self, tmp_path: Path) -> None:
        done = run(tmp_path, "pass", "-o", "a", "--no-profile")
        assert "profile  none: " in done.stderr

    def test_a_failure_names_the_log(self, tmp_path: Path) -> None:
        done = run(tmp_path, "raise ValueError('no data')", "-o", "a b")
        assert done.returncode == 1
        assert "exit code 1: ValueError: no data" in done.stderr
        assert done.stderr.endswith(" less 'a b/rank0/stderr.log'\n")

    def test_where_nothing_is_in_stderr_it_is_the_other(self, tmp_path: Path) -> None:
        done = run(tmp_path, "print('no data'); raise SystemExit(1)", "-o", "a")
        assert done.stderr.endswith(" less a/rank0/stdout.log\n")

    def test_lines_that_come_all_at_once_tell_no_time(self, tmp_path: Path) -> None:
        program = "print('\\n'.join(f'step {i} loss 1.5' for i in range(30)))"
        done = run(tmp_path, program, "-o", "a", "--no-profile")
        assert "steps    30 seen, not timed" in done.stderr

    def test_the_program_s_own_seconds_are_taken_all_the_same(self, tmp_path: Path) -> None:
        program = "print('\\n'.join(f'completed step: {i}, seconds: 0.25' for i in range(30)))"
        done = run(tmp_path, program, "-o", "a", "--no-profile")
        assert "steps    30 seen, median 250.0 ms (p10 to p90: 250" in done.stderr

    def test_as_json(self, tmp_path: Path) -> None:
        done = run(
            tmp_path, "print('hi')", "-o", "a", "--json", "--set", "xla_gpu_autotune_level=3"
        )
        told = json.loads(done.stdout)
        assert told["schema"] == "counterpoint.runs/1"
        (made,) = told["runs"]
        assert made["outcome"]["kind"] == "ok"
        assert made["settings"]["xla_flags"] == [["xla_gpu_autotune_level", "3"]]
        assert made["median_step_ms"] is None
        assert "hi\n" in done.stderr

    def test_control_characters_do_not_reach_the_terminal(self, tmp_path: Path) -> None:
        done = run(tmp_path, r"raise ValueError('\x1b[31mred')", "-o", "a")
        said = [line for line in done.stderr.splitlines() if line.startswith("counterpoint: ")]
        assert not any("\x1b" in line for line in said)

    def test_our_words_begin_a_line(self, tmp_path: Path) -> None:
        program = "import sys; print('out', end=''); sys.stderr.write('half')"
        done = run(tmp_path, program, "-o", "a", "--no-profile")
        assert done.stdout == "out"
        assert "half\ncounterpoint: outcome" in done.stderr

    def test_also_where_stdout_goes_to_the_same_place(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "counterpoint", "run", "--no-profile", "--"),
                *(sys.executable, "-c", "print('half', end='')"),
            ],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=60,
        )
        assert "half\ncounterpoint: outcome" in done.stdout

    def test_a_launcher_within_is_warned_of(self, tmp_path: Path) -> None:
        place = tmp_path / "bin"
        place.mkdir()
        (place / "srun").write_text("#!/bin/sh\nexec true\n")
        (place / "srun").chmod(0o755)
        done = counterpoint(
            *("run", "--no-profile", "--", "srun", "-n2", "python", "train.py"),
            cwd=tmp_path,
            PATH=f"{place}:{ENVIRONMENT['PATH']}",
        )
        assert done.returncode == 0, done.stderr
        assert "srun ... counterpoint run -- ..." in done.stderr

    def test_of_many_ranks_the_first_tells_all_as_json(self, tmp_path: Path) -> None:
        program = "import os, time; time.sleep(5 * int(os.environ['OMPI_COMM_WORLD_RANK']))"
        ranks = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "counterpoint", "run", "--no-profile", "--json"),
                    *("-o", "a", "--", sys.executable, "-c", program),
                ],
                cwd=tmp_path,
                env={
                    **ENVIRONMENT,
                    "OMPI_COMM_WORLD_RANK": str(rank),
                    "OMPI_COMM_WORLD_SIZE": "2",
                    "OMPI_MCA_ess_base_jobid": "7",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        first, second = [rank.communicate(timeout=60)[0] for rank in ranks]
        assert second == ""
        (made,) = json.loads(first)["runs"]
        assert made["outcome"]["kind"] == "ok"
        assert [rank["outcome"]["kind"] for rank in made["ranks"]] == ["ok", "ok"]


@pytest.mark.smoke
def test_what_it_says(tmp_path: Path, golden: Golden) -> None:
    """Around programs that are no Python, which cost little; flags need jaxlib."""
    pytest.importorskip("jaxlib")
    shown = {
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": "2026-11-29 12:00:00",
        r"jaxlib [\d.]+\d": "jaxlib X",
        re.escape(sys.executable): "python",
    }
    script = "printf 'step %s loss 1.5\\n' 1 2 3 4 5 6 7 8 9"
    told = Transcript(tmp_path, ENVIRONMENT)
    for code, *words in (
        (0, "run", "-o", "a", "--", "echo", "hi"),
        (3, "explain", "a"),
        (0, "run", "-o", "steps", "--no-profile", "--", "sh", "-c", script),
        (7, "run", "-o", "b c", "--no-profile", "--", "sh", "-c", "echo no data >&2; exit 7"),
        (1, "run", "-o", "d", "--no-profile", "--", "sh", "-c", "echo no data; exit 1"),
        (2, "run", "-o", "a", "--", "true"),
        (0, "runs", "."),
        (0, "runs", "a"),
        (3, "runs"),
        (2, "explain", "a", "d"),
        (2, "explain", "[ad]"),
        (2, "run", "--set", "xla_gpu_nonsense=3", "--", sys.executable, "-c", "pass"),
        (2, "run"),
        (2, "run", "--", "no-such-program"),
        (2, "run", "--ranks", "0", "--", "true"),
        (2, "run", "--timeout", "nan", "--", "true"),
        (2, "run", "--processes", "x", "--", "true"),
        (2, "run", "--processes", "1", "--", "true"),
        (2, "run", "--profile-steps", "0", "--", "true"),
        (2, "run", "--set", "nonsense", "--", "true"),
        (2, "run", "--env", "x-y=1", "--", "true"),
        (2, "run", "-o", "gs://bucket/a", "--", "true"),
    ):
        told.run(*words, code=code, shown=shown)
    golden("run.txt", told.text)


class TestNoProfile:
    """Where none came about, although the program ended well."""

    def test_one_that_was_asked_for_is_an_error_and_what_it_says_next_gives_one(
        self, tmp_path: Path
    ) -> None:
        pytest.importorskip("jax")
        (tmp_path / "train me.py").write_text(STEPS)
        options = ("--profile-start-step", "20", "--env", "A=b c")
        done = counterpoint("run", *options, "--", sys.executable, "train me.py", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (3, "done\n")
        assert "counterpoint: error: no profile: only 8 steps " in done.stderr
        arguments = next_command(done.stderr)
        assert arguments[:4] == ["run", "--profile-start-step", "3", "-o"]
        assert arguments[5:7] == ["--env", "A=b c"]
        again = counterpoint(*arguments, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "profile  1 file, " in again.stderr

    def test_the_usual_one_is_not_missed(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        done = run(tmp_path, STEPS.replace("range(8)", "range(2)"), "-o", "a")
        assert done.returncode == 0
        assert "profile  none: " in done.stderr
        assert "error" not in done.stderr
        words = ["run", "--profile-start-step", "0", "-o", "a-2", "--"]
        assert next_command(done.stderr)[: len(words)] == words

    def test_a_failure_of_the_program_s_own_comes_first(self, tmp_path: Path) -> None:
        done = run(tmp_path, "raise SystemExit(7)", "--profile-steps", "10")
        assert done.returncode == 7

    def test_one_that_is_shorter_says_so(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        done = run(tmp_path, STEPS, "-o", "a", "--profile-start-step", "5")
        (line,) = [line for line in done.stderr.splitlines() if "profile  " in line]
        assert "step 3 of 10" in line

    def test_profiles_of_the_program_s_own_are_named(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        program = STEPS.replace("for i in", "jax.profiler.start_trace('mine')\nfor i in")
        done = run(tmp_path, program + "\njax.profiler.stop_trace()", "-o", "a")
        assert next_command(done.stderr) == ["explain", "mine"]


class TestExitCodes:
    @pytest.mark.parametrize(
        ("program", "options", "code"),
        [
            ("raise SystemExit(7)", (), 7),
            ("import os; os.kill(os.getpid(), 9)", (), 137),
            ("import time; time.sleep(60)", ("--timeout", "0.3"), 124),
            ("import time; time.sleep(60)", ("--hang-after", "0.3"), 124),
        ],
    )
    def test_the_workload_s_own_is_handed_on(
        self, tmp_path: Path, program: str, options: tuple[str, ...], code: int
    ) -> None:
        assert run(tmp_path, program, "--no-profile", *options).returncode == code

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("run",), "no command was given"),
            (("run", "--", "no-such-program"), "no-such-program was not found"),
            (("run", "--no-such-option", "--", "true"), "--no-such-option"),
            (("run", "--ranks", "0", "--", "true"), "--ranks takes a number of at least 1, not 0"),
            (("run", "--timeout", "0", "--", "true"), "--timeout takes a number of at least 0.001"),
            (("run", "--timeout", "nan", "--", "true"), "--timeout takes a number"),
            (("run", "--processes", "x", "--", "true"), "--processes takes `all`, or numbers"),
            (("run", "--processes", "1", "--", "true"), "no such rank"),
            (("run", "--profile-steps", "0", "--", "true"), "--profile-steps takes a number"),
            (("run", "--set", "nonsense", "--", "true"), "--set nonsense: not a setting"),
            (("run", "--env", "x-y=1", "--", "true"), "--env x-y=1: not a variable"),
            (("run", "-o", "gs://bucket/a", "--", "true"), "URLs can be read, not written"),
        ],
    )
    def test_what_can_t_be_is_refused(
        self, tmp_path: Path, arguments: tuple[str, ...], words: str
    ) -> None:
        done = counterpoint(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_a_second_run_into_the_same_directory(self, tmp_path: Path) -> None:
        run(tmp_path, "pass", "-o", "a", "--no-profile")
        done = run(tmp_path, "print('started')", "-o", "a", "--no-profile")
        assert (done.returncode, done.stdout) == (2, "")
        assert "a is in use: " in done.stderr

    def test_a_flag_of_the_user_s_own_that_xla_does_not_know(self, tmp_path: Path) -> None:
        pytest.importorskip("jaxlib")
        flags = "--xla_gpu_enable_async_collectives=true"
        done = run(tmp_path, "print('started')", "-o", "a", XLA_FLAGS=flags)
        assert (done.returncode, done.stdout) == (2, "")
        assert "xla_gpu_enable_async_collectives" in done.stderr
        assert not (tmp_path / "a").exists()

    def test_who_gave_a_bad_flag_is_named(self, tmp_path: Path) -> None:
        pytest.importorskip("jaxlib")
        (tmp_path / "fast.toml").write_text('[xla_flags]\nxla_gpu_folly = "1"\n')
        done = run(
            *(tmp_path, "pass", "--set", "xla_gpu_nonsense=3", "--settings", "fast.toml"),
            XLA_FLAGS="--xla_gpu_autotune_level=4",
        )
        assert done.returncode == 2
        first, *_, last = done.stderr.splitlines()
        assert "--set xla_gpu_nonsense=3" in first
        assert "--settings fast.toml" in first
        assert "XLA_FLAGS" not in first
        assert "correct --s" in last

    def test_a_bad_flag_that_was_inherited(self, tmp_path: Path) -> None:
        pytest.importorskip("jaxlib")
        done = run(
            *(tmp_path, "pass", "--set", "xla_gpu_autotune_level=4"),
            XLA_FLAGS="--xla_gpu_nonsense=3",
        )
        assert done.stderr.startswith("error: the inherited XLA_FLAGS: ")
        assert "correct XLA_FLAGS" in done.stderr.splitlines()[-1]

    def test_a_bad_flag_that_is_inherited_and_repeated_is_named_once(self, tmp_path: Path) -> None:
        pytest.importorskip("jaxlib")
        done = run(
            *(tmp_path, "pass", "--set", "xla_gpu_nonsense=3"),
            XLA_FLAGS="--xla_gpu_nonsense=3",
        )
        assert done.stderr.startswith("error: the inherited XLA_FLAGS: ")
        assert done.stderr.count("xla_gpu_nonsense") == 1

    def test_a_flag_that_the_program_sets_itself(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        program = (
            "import os; os.environ['XLA_FLAGS'] = '--xla_gpu_enable_async_collectives=true'\n"
            "import jax; jax.devices()"
        )
        done = run(tmp_path, program, "-o", "a", "--no-profile")
        (outcome,) = [line for line in done.stderr.splitlines() if "outcome  " in line]
        assert "outcome  unknown flag" in outcome
        assert ": --xla_gpu_enable_async_collectives=true" in outcome  # in XLA's own words
        assert "xla_gpu_enable_async_collectives: jaxlib " in outcome  # when it went

    def test_settings_of_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "fast.toml").write_text('[env]\nNCCL_DEBUG = "WARN"\nA = "file"\n')
        program = "import os; print(os.environ['NCCL_DEBUG'], os.environ['A'])"
        done = run(tmp_path, program, "--settings", "fast.toml", "--env", "A=line", "--no-profile")
        assert (done.returncode, done.stdout) == (0, "WARN line\n"), done.stderr


@pytest.fixture(scope="module")
def some(profiled: tuple[Path, str, str]) -> Path:
    place = profiled[0]
    run(place, "raise SystemExit(7)", "-o", "b", "--name", "broken data", "--no-profile")
    (place / "c" / "rank0").mkdir(parents=True)
    (place / "c" / "run.json").write_text("{")
    (place / "notes").mkdir()
    return place


class TestRuns:
    def test_a_table(self, some: Path) -> None:
        done = counterpoint("runs", ".", cwd=some)
        assert (done.returncode, done.stderr) == (0, "")
        rows = {line.split()[-1]: line.split() for line in done.stdout.splitlines() if "  " in line}
        assert {"ok", "1", "8", "yes"} <= set(rows["a"])
        assert {"broken-data", "error", "no"} <= set(rows["b"])
        assert "broken" in rows["c"]
        assert "notes" not in done.stdout
        assert "c: c/run.json: damaged" in done.stdout
        assert next_command(done.stdout) == ["explain", "a"]

    def test_one_run(self, some: Path) -> None:
        done = counterpoint("runs", "b", cwd=some)
        assert done.returncode == 0
        assert "broken-data" in done.stdout

    def test_as_json(self, some: Path) -> None:
        told = json.loads(counterpoint("runs", ".", "--json", cwd=some).stdout)
        assert [made["name"] for made in told["runs"]] == [Path(sys.executable).stem, "broken-data"]
        assert told["runs"][0]["ranks"][0]["flags_of_compiler"]["xla_dump_hlo_as_proto"] == "true"
        assert told["broken"][0]["path"] == "c"

    def test_no_runs(self, tmp_path: Path) -> None:
        done = counterpoint("runs", ".", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "0 in ." in done.stdout

    def test_no_directory(self, tmp_path: Path) -> None:
        done = counterpoint("runs", cwd=tmp_path)
        assert done.returncode == 3
        assert done.stderr.startswith("error: counterpoint-runs: ")

    def test_two_runs_are_not_hosts_of_one(self, some: Path) -> None:
        done = counterpoint("explain", "a", "b", cwd=some)
        assert done.returncode == 2
        assert done.stderr.startswith("error: a and b ")


SHARDED_LATER = """
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(jax.devices(), ("data",))
placed = NamedSharding(mesh, P("data", None))
params = {"w": jnp.ones((64, 64)) * 0.01, "b": jnp.zeros((64,))}
PLACE
batch = jax.device_put(jnp.ones((8, 64)), placed)

@jax.jit
def train_step(params, batch):
    new = {"w": params["w"] * 0.9 + (batch.T @ batch), "b": params["b"]}
    return {**new, "w": jax.lax.with_sharding_constraint(new["w"], placed)}

for i in range(12):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        params = jax.block_until_ready(train_step(params, batch))
"""


class TestASecondCompile:
    """Parameters go into the first step as they were made, and come out of it sharded."""

    def test_it_is_a_finding_with_its_seconds_and_the_argument(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        found = second_compiles(tmp_path, SHARDED_LATER.replace("PLACE", ""))
        (finding,) = found
        recorded = (tmp_path / "a/rank0/agent").glob("compiles-*.jsonl")
        lines = [json.loads(line) for file in recorded for line in file.read_text().splitlines()]
        builds = [it for it in lines if it["module"] == "jit_train_step"]
        took = [it["seconds"] for it in builds[-2:] if it["kind"] in ("lower", "backend")]
        seconds = re.search(r"jit_train_step .* twice; .* take (.*) s", finding["title"])
        assert seconds is not None
        assert builds[-1]["seconds"] <= float(seconds[1]) + 0.01 <= sum(took) + 0.02
        assert "(params['w'], 64x64xf32)" in finding["detail"]
        assert "to P('data', None)" in finding["detail"]
        assert finding["saves_ms"] is None

    def test_parameters_that_are_placed_before_compile_once(self, tmp_path: Path) -> None:
        pytest.importorskip("jax")
        place = (
            'params = {"w": jax.device_put(params["w"], placed),'
            ' "b": jax.device_put(params["b"], NamedSharding(mesh, P()))}'
        )
        assert second_compiles(tmp_path, SHARDED_LATER.replace("PLACE", place)) == []


def second_compiles(place: Path, program: str) -> list[dict[str, Any]]:
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = run(place, program, "-o", "a", "--profile-start-step", "4", **devices)
    assert done.returncode == 0, done.stderr
    told = counterpoint("explain", "a", "--json", cwd=place)
    assert told.returncode == 0, told.stderr
    return [it for it in json.loads(told.stdout)["findings"] if it["code"] == "STEP303"]


@pytest.mark.parametrize("code", [0, 7])
def test_where_our_own_words_can_t_be_written_the_program_runs_to_its_end(
    tmp_path: Path, code: int
) -> None:
    program = f"open('trained', 'w'); raise SystemExit({code})"
    words = ("run", "-o", "kept", "--no-profile", "--", sys.executable, "-c", program)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "counterpoint", *words],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=full,
            stderr=full,
            check=False,
            timeout=120,
        )
    assert done.returncode == code
    assert (tmp_path / "trained").exists()
    assert (tmp_path / "kept" / "run.json").exists()
