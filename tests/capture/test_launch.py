"""`launch` with real processes: what is kept, and how everything that can go wrong is told."""

from __future__ import annotations

import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.capture.launch import launch
from counterpoint.capture.ranks import find_world
from counterpoint.capture.request import ProfileSchedule, RunRequest, refuse_missing
from counterpoint.core.errors import InputError, UsageError, WriteError
from counterpoint.flags.settings import Settings
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.run import Run
from golden_files import Golden, cases
from refusals import refusal

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
"""An environment without flags and launchers, whatever the tests run in."""


def request(path: Path, program: str, **options: object) -> RunRequest:
    asked = RunRequest((sys.executable, "-c", program), path / "run", echo=False, environment=PLAIN)
    return replace(asked, window=None, **options)  # pyright: ignore[reportArgumentType]


def run(path: Path, program: str, **options: object) -> Run:
    return launch(request(path, program, **options))


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class TestKept:
    def test_what_it_prints_is_kept_and_shown(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        program = "import sys; print('out'); print('err', file=sys.stderr)"
        made = run(tmp_path, program, echo=True)
        assert made.ranks[0].stdout.read_text() == "out\n"
        assert made.ranks[0].stderr.read_text() == "err\n"
        shown = capfd.readouterr()
        assert (shown.out, shown.err) == ("out\n", "err\n")

    def test_all_on_stderr_leaves_stdout_to_us(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        run(tmp_path, "print('out')", echo="stderr")
        assert capfd.readouterr() == ("", "out\n")

    def test_much_output_in_both_streams(self, tmp_path: Path) -> None:
        program = (
            "import sys\nfor i in range(20000):\n"
            "  print('o' * 50); print('e' * 50, file=sys.stderr)"
        )
        made = run(tmp_path, program)
        assert made.outcome.ok
        assert made.ranks[0].stdout.read_text() == ("o" * 50 + "\n") * 20000
        assert made.ranks[0].stderr.stat().st_size == 51 * 20000

    def test_bytes_that_are_no_text_are_kept(self, tmp_path: Path) -> None:
        made = run(tmp_path, r"import os; os.write(1, b'\xff\x00step 1\xfe')")
        assert made.ranks[0].stdout.read_bytes() == b"\xff\x00step 1\xfe"

    def test_lines_come_when_they_are_printed(self, tmp_path: Path) -> None:
        program = (
            "import time\nfor step in range(4):\n"
            "  print(f'step {step} loss 1.5'); time.sleep(1.0 if step == 2 else 0.1)"
        )
        made = run(tmp_path, program)
        assert made.ranks[0].step_source == "log"
        first, _, last = made.ranks[0].step_seconds
        assert (first < 0.8, last > 0.5) == (True, True)  # each when it came, not all at once

    def test_the_environment_is_theirs_with_ours_behind(self, tmp_path: Path) -> None:
        settings = Settings((("xla_gpu_autotune_level", "3"),), (("NCCL_DEBUG", "INFO"),))
        environment = {**PLAIN, "XLA_FLAGS": "--xla_gpu_autotune_level=4", "PYTHONPATH": "/mine"}
        asked = request(tmp_path, "", settings=settings, environment=environment)
        made = launch(replace(asked, command=("env", "-0")))
        lines = made.ranks[0].stdout.read_text().split("\0")
        told = dict(line.split("=", 1) for line in lines if line)
        flags = told["XLA_FLAGS"].split()
        assert flags[:2] == ["--xla_gpu_autotune_level=4", "--xla_gpu_autotune_level=3"]
        assert f"--xla_dump_to={made.ranks[0].path / 'xla'}" in flags
        assert told["PYTHONPATH"].endswith(":/mine")
        assert (told["NCCL_DEBUG"], told["PYTHONUNBUFFERED"]) == ("INFO", "1")
        difference = made.ranks[0].environment
        assert difference["set"]["NCCL_DEBUG"] == "INFO"  # pyright: ignore[reportIndexIssue]
        assert difference["changed"]["PYTHONPATH"][0] == "/mine"  # pyright: ignore[reportIndexIssue]
        assert "HOME" not in str(difference)

    def test_flags_in_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "flags").write_text("--xla_gpu_autotune_level=4\n--xla_disable_hlo_passes=''\n")
        asked = request(tmp_path, "", environment={**PLAIN, "XLA_FLAGS": str(tmp_path / "flags")})
        made = launch(replace(asked, command=("printenv", "XLA_FLAGS")))
        assert (
            made.ranks[0]
            .stdout.read_text()
            .startswith("--xla_gpu_autotune_level=4\n--xla_disable_hlo_passes='' --xla_dump_to=")
        )

    def test_a_dump_of_the_user_s_own_is_left_to_them(self, tmp_path: Path) -> None:
        dump = tmp_path / "mine"
        program = (
            "import os; print(os.environ['XLA_FLAGS']);"
            f"os.mkdir({str(dump)!r}); open({str(dump)!r} + '/x.ll', 'w');"
            f"open({str(dump)!r} + '/m.gpu_after_optimizations.hlo.pb', 'w')"
        )
        environment = {**PLAIN, "XLA_FLAGS": f"--xla_dump_to={dump}"}
        made = run(tmp_path, program, environment=environment)
        assert made.ranks[0].stdout.read_text() == f"--xla_dump_to={dump}\n"
        assert [path.name for path in made.ranks[0].hlo] == ["m.gpu_after_optimizations.hlo.pb"]
        assert (dump / "x.ll").exists()

    def test_of_our_dump_only_what_is_read_stays(self, tmp_path: Path) -> None:
        program = (
            "import os\nfrom pathlib import Path\n"
            "xla = Path(os.environ['COUNTERPOINT_AGENT_DIR']) / 'xla'\n"
            "(xla / 'module_0001.jit_f').mkdir(parents=True)\n"
            "(xla / 'module_0001.jit_f' / 'module.mlir').write_text('x')\n"
            "for end in ('gpu_after_optimizations.hlo.pb', 'ir-no-opt.ll', 'ptx', 'debug_options',"
            "            'obj-file.k.o', 'gpu_target_config.pbtxt', 'autotune_results.pbtxt'):\n"
            "  (xla / f'module_0001.jit_f.{end}').write_text('x')\n"
        )
        made = run(tmp_path, program)
        left = (made.ranks[0].path / "xla").iterdir()
        assert sorted(path.name.split(".")[2] for path in left) == [
            "autotune_results",
            "debug_options",
            "gpu_after_optimizations",
            "gpu_target_config",
        ]


class TestOutcomes:
    @pytest.mark.parametrize(
        ("program", "kind", "status"),
        [
            ("pass", OutcomeKind.OK, 0),
            ("raise SystemExit(7)", OutcomeKind.ERROR, 7),
            ("raise ValueError('no such dataset')", OutcomeKind.ERROR, 1),
            ("import os; os.kill(os.getpid(), 11)", OutcomeKind.SIGNAL, 139),
            ("print('loss: nan'); raise SystemExit(1)", OutcomeKind.NAN, 1),
        ],
    )
    def test_an_end_of_its_own(
        self, tmp_path: Path, program: str, kind: OutcomeKind, status: int
    ) -> None:
        made = run(tmp_path, program)
        assert (made.outcome.kind, made.outcome.status) == (kind, status)

    def test_the_stack_of_a_crash_is_kept(self, tmp_path: Path) -> None:
        made = run(tmp_path, "import ctypes; ctypes.string_at(0)")
        assert made.outcome.signal == "SIGSEGV"
        assert 'File "<string>", line 1' in made.ranks[0].stderr.read_text()

    def test_a_timeout(self, tmp_path: Path) -> None:
        made = run(tmp_path, "import time; time.sleep(60)", timeout_s=0.3)
        assert (made.outcome.kind, made.outcome.status) == (OutcomeKind.TIMEOUT, 124)
        assert made.outcome.detail == "not finished after 0.3 s"

    def test_a_hang_is_ended_and_shows_where(self, tmp_path: Path) -> None:
        program = "import time\nprint('step 1')\ndef stuck(): time.sleep(60)\nstuck()"
        made = run(tmp_path, program, hang_after_s=0.5)
        assert (made.outcome.kind, made.outcome.status) == (OutcomeKind.HANG, 124)
        assert "in stuck" in made.ranks[0].stderr.read_text()

    def test_what_is_slow_but_alive_does_not_hang(self, tmp_path: Path) -> None:
        program = "import time\nfor i in range(8): print(i); time.sleep(0.15)"
        assert run(tmp_path, program, hang_after_s=0.8).outcome.ok

    @pytest.mark.system  # it waits for three seconds
    def test_what_the_agent_writes_is_a_sign_of_life(self, tmp_path: Path) -> None:
        program = (
            "import os, time\nagent = os.environ['COUNTERPOINT_AGENT_DIR'] + '/agent'\n"
            "for i in range(5): open(agent + '/steps-1.jsonl', 'a').write('x'); time.sleep(0.6)\n"
        )
        assert run(tmp_path, program, hang_after_s=2.0).outcome.ok

    def test_the_space_reserved_for_the_end_is_given_back(self, tmp_path: Path) -> None:
        assert not (run(tmp_path, "pass").path / "rank0" / ".reserve").exists()


class TestGroups:
    def test_who_is_left_of_the_group_is_ended(self, tmp_path: Path) -> None:
        slept = tmp_path / "slept"
        program = (
            "import subprocess, sys\n"
            f'child = \'import time; time.sleep(60); open("{slept}", "x")\'\n'
            "print(subprocess.Popen([sys.executable, '-c', child]).pid)"
        )
        made = run(tmp_path, program)
        assert made.outcome.ok
        assert not slept.exists()
        assert not is_alive(int(made.ranks[0].stdout.read_text()))

    @pytest.mark.system  # it waits for five seconds
    def test_who_deafened_itself_is_killed(self, tmp_path: Path) -> None:
        program = (
            "import signal, time\n"
            "for s in (signal.SIGABRT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)\n"
            "time.sleep(60)"
        )
        made = run(tmp_path, program, hang_after_s=0.5)
        assert (made.outcome.kind, made.outcome.signal) == (OutcomeKind.HANG, "SIGKILL")


class TestRefusals:
    def test_a_second_run_starts_nothing(self, tmp_path: Path) -> None:
        made = run(tmp_path, "pass")
        before = {path: path.read_bytes() for path in made.path.rglob("*") if path.is_file()}
        with pytest.raises(UsageError, match="contains a run"):
            run(tmp_path, f"open({str(tmp_path / 'started')!r}, 'w')")
        assert not (tmp_path / "started").exists()
        after = {path: path.read_bytes() for path in made.path.rglob("*") if path.is_file()}
        assert after == before

    @pytest.mark.parametrize(
        ("command", "what"),
        [
            ((), "no command was given"),
            (("no-such-program", "x"), "no-such-program was not found"),
            (("./missing.py",), r"\./missing\.py was not found"),
            (("/",), "/ is a directory, not a program"),
        ],
    )
    def test_a_command_that_is_not_there(
        self, tmp_path: Path, command: tuple[str, ...], what: str
    ) -> None:
        with pytest.raises(UsageError, match=what):
            launch(replace(request(tmp_path, ""), command=command))
        assert not (tmp_path / "run").exists()

    def test_a_script_that_may_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("train.py").write_text("print('hi')\n")
        with pytest.raises(UsageError, match="is not executable") as refused:
            launch(replace(request(tmp_path, ""), command=("./train.py", "a b")))
        assert shlex.split(str(refused.value.next))[-3:] == ["python", "./train.py", "a b"]

    @pytest.mark.parametrize(
        ("mode", "next_"),
        [
            (0o644, "counterpoint run -- python train.py -x"),
            (0o755, "counterpoint run -- ./train.py -x"),
        ],
    )
    def test_a_script_named_as_if_it_were_on_the_path(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, next_: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("train.py").touch(mode)
        with pytest.raises(UsageError, match=r"train\.py") as refused:
            launch(replace(request(tmp_path, ""), command=("train.py", "-x")))
        assert refused.value.next == next_

    def test_a_notebook_that_is_not_there_is_not_looked_for_on_the_path(self) -> None:
        with pytest.raises(UsageError, match=r"gone\.ipynb was not found") as refused:
            refuse_missing(("gone.ipynb",), os.environ)
        assert refused.value.why is None

    def test_a_line_for_a_shell_is_not_taken_for_a_script(self) -> None:
        refuse_missing(("bash", "-c", "python gone.py"), os.environ)
        with pytest.raises(UsageError, match=r"gone\.py"):
            refuse_missing((sys.executable, "-u", "gone.py"), os.environ)

    def test_a_file_that_the_kernel_does_not_start(self, tmp_path: Path) -> None:
        script = tmp_path / "train"
        script.write_bytes(b"\x7fELF broken")
        script.chmod(0o755)
        with pytest.raises(UsageError, match="Exec format error"):
            launch(replace(request(tmp_path, ""), command=(str(script),)))
        assert not (tmp_path / "run").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_directory_that_may_not_be_written(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(InputError, match="Permission denied"):
            run(tmp_path, "pass")

    def test_a_directory_where_none_can_be(self, tmp_path: Path) -> None:
        with pytest.raises(WriteError, match="can't write /proc/run"):
            launch(replace(request(tmp_path, "pass"), directory=Path("/proc/run")))

    @pytest.mark.system
    def test_flags_that_xla_does_not_know(self, tmp_path: Path) -> None:
        pytest.importorskip("jaxlib")
        settings = Settings((("xla_gpu_enable_async_collectives", "true"),))
        with pytest.raises(UsageError, match="xla_gpu_enable_async_collectives"):
            run(tmp_path, f"open({str(tmp_path / 'started')!r}, 'w')", settings=settings)
        assert not (tmp_path / "run").exists()
        assert not (tmp_path / "started").exists()

    def test_a_profile_of_a_rank_that_there_is_not(self, tmp_path: Path) -> None:
        asked = replace(request(tmp_path, "pass"), window=ProfileSchedule(processes=(0, 3)))
        with pytest.raises(UsageError, match="--processes 3: no such rank"):
            launch(asked)

    def test_how_it_is_refused(
        self, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("train.py").write_text("print('hi')\n")
        Path("broken").write_bytes(b"\x7fELF broken")
        Path("broken").chmod(0o755)
        for name in ("run", "full"):
            Path(name).mkdir()
        Path("full", "thesis.tex").touch()
        slurm = {"SLURM_PROCID": "x", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}
        pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}
        plain = request(tmp_path, "pass")
        requests = {
            "no command": replace(plain, command=()),
            "a program that is not there": replace(plain, command=("no-such-program", "x")),
            "a script that is not there": replace(plain, command=("./missing.py",)),
            "a script that may not run": replace(plain, command=("./train.py", "a b")),
            "a script without its directory": replace(plain, command=("train.py", "-x")),
            "what the kernel does not start": replace(plain, command=("./broken",)),
            "a directory with other things": replace(plain, directory=Path("full")),
            "a rank that there is not": replace(plain, window=ProfileSchedule(processes=(0, 3))),
            "too few steps for the profile": replace(
                plain, window=ProfileSchedule(start_step=3, steps=3), stop_after_steps=5
            ),
            "no steps": replace(plain, stop_after_steps=0),
            "no ranks": replace(plain, ranks=0),
            "ranks for GPUs that there are not": replace(
                plain, per="gpu", environment={"PATH": "/nowhere"}
            ),
        }
        worlds = {
            "a damaged variable of Slurm": {"SLURM_JOB_ID": "42", **slurm},
            "ranks that are no number": {**pod, "NNODES": "many"},
            "a rank beyond them": {**pod, "NNODES": "2"},
        }
        golden(
            "launch.txt",
            cases(
                {
                    name: refusal(lambda asked=asked: launch(asked), tmp_path)
                    for name, asked in requests.items()
                }
                | {
                    name: refusal(lambda environ=environ: find_world(environ))
                    for name, environ in worlds.items()
                }
            ).replace(sys.executable, "PYTHON"),
        )


class TestNames:
    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (("-m", "maxtext.trainers.pre_train.train", "x"), "train"),
            (("dir/pre train.py", "--x"), "pre-train"),
            (("-c", "pass"), "python"),
        ],
    )
    def test_a_directory_of_its_own_is_named_after_time_and_program(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], name: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        asked = RunRequest(("true", *command), echo=False, environment=PLAIN, window=None)
        made = launch(replace(asked, command=("true", *command)))
        stem = "true" if name == "python" else name
        assert made.path.parent == tmp_path / "counterpoint-runs"
        assert re.fullmatch(rf"\d{{8}}-\d{{6}}-{stem}", made.path.name)

    def test_two_runs_within_a_second_have_two_directories(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        asked = RunRequest(("true",), echo=False, environment=PLAIN, window=None)
        assert len({launch(asked).path for _ in range(3)}) == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 300 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)  # noqa: S607


class TestFullDisk:
    PRINTS = "for i in range(1000): print('x' * 1000)\nprint('trained', flush=True)\n"

    @pytest.mark.parametrize("code", [0, 7])
    def test_a_healthy_program_goes_on_without_its_log(self, small_disk: Path, code: int) -> None:
        said: list[str] = []
        asked = request(small_disk, self.PRINTS + f"raise SystemExit({code})")
        made = launch(asked, say=said.append)
        assert (made.outcome.exit_code, made.outcome.status) == (code, code)
        (line,) = (line for line in said if "stdout.log" in line)
        assert "No space left" in line
        assert [note for note in made.notes if "stdout.log" in note and line.startswith(note)]
        assert made.ranks[0].stdout.read_bytes()

    @pytest.mark.system
    def test_a_jax_program_goes_on_where_what_it_lowers_can_t_be_kept(
        self, small_disk: Path
    ) -> None:
        pytest.importorskip("jax")
        program = (
            "import os, pathlib, jax\n"
            "step = jax.jit(lambda x: x * 2 + 1)\n"
            "place = pathlib.Path(os.environ['COUNTERPOINT_AGENT_DIR'])\n"
            + self.FILL.format(place=str(small_disk))
            + "print('trained', float(step(3.0)), os.environ['JAX_DUMP_IR_TO'], flush=True)\n"
        )
        asked = request(small_disk, program)
        made = launch(replace(asked, environment={**os.environ, "JAX_PLATFORMS": "cpu"}))
        assert (made.outcome.exit_code, made.outcome.status) == (0, 0)

    def test_where_no_file_may_grow_the_program_ends_as_it_would(self, tmp_path: Path) -> None:
        asked = replace(request(tmp_path, self.PRINTS), directory=tmp_path / "limited")
        previous = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, previous[1]))
        try:
            made = launch(asked)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, previous)
            signal.signal(signal.SIGXFSZ, handler)
        assert made.outcome.ok
        (note,) = (note for note in made.notes if "stdout.log" in note)
        assert note.endswith(": File too large")

    def test_a_program_that_fills_it_itself(self, small_disk: Path) -> None:
        program = f"open({str(small_disk / 'checkpoint')!r}, 'wb').write(bytes(1 << 20))"
        made = run(small_disk, program)
        assert (made.outcome.kind, made.outcome.status) == (OutcomeKind.DISK_FULL, 1)

    FILL = (
        "import os\n"
        "with open(os.path.join({place!r}, 'data'), 'wb', buffering=0) as file:\n"
        "  try:\n"
        "    while True: file.write(bytes(4096))\n"
        "  except OSError: pass\n"
    )

    def test_one_that_does_not_mind(self, small_disk: Path) -> None:
        made = run(small_disk, self.FILL.format(place=str(small_disk)))
        assert any("disk is full" in note for note in made.notes)

    def test_our_own_last_words_are_said_where_they_can_t_be_kept(self, small_disk: Path) -> None:
        program = (
            "import os, pathlib\n"
            "pathlib.Path(os.environ['COUNTERPOINT_AGENT_DIR'], '.reserve').unlink()\n"
        )
        made = run(small_disk, program + self.FILL.format(place=str(small_disk)))
        assert (made.outcome.kind, made.outcome.status) == (OutcomeKind.OK, 0)
        assert "No space left" in str(made.notes)

    def test_no_room_to_begin_with(self, small_disk: Path) -> None:
        (small_disk / "full").write_bytes(bytes(270 << 10))
        with pytest.raises(WriteError, match="No space left"):
            run(small_disk, "pass")
        assert [path.name for path in small_disk.iterdir()] == ["full"]
