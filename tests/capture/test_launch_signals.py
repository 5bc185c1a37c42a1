"""Signals to `counterpoint run`: Ctrl-C, those of schedulers, and Ctrl-Z."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import in_process
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run

pytestmark = pytest.mark.system

PATIENCE_S = 100  # of the slowest machine
PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


def state_of(pid: int) -> str:
    """The letter that the kernel has for what a process does; nothing where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return state_of(pid) not in ("", "Z")


def becomes(pid: int, state: str) -> bool:
    """Whether a process comes to a state within seconds."""
    until = time.monotonic() + 10
    while state_of(pid) != state and time.monotonic() < until:
        time.sleep(0.05)
    return state_of(pid) == state


@contextmanager
def killed_at_last(process: subprocess.Popen[bytes]) -> Generator[None]:
    """Leave neither the process nor its pipes, also where the test fails."""
    with process:
        try:
            yield
        finally:
            process.kill()


class TestInterrupts:
    """The real command in a process of its own, since it is that which is interrupted."""

    PROGRAM = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, {handler})\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "print(os.getpid(), subprocess.Popen(sleep).pid, flush=True)\n"
        "time.sleep(60)\n"
    )

    def interrupted(
        self,
        tmp_path: Path,
        handler: str,
        *signals: int,
        before: Callable[..., object] | signal.Handlers = signal.default_int_handler,
    ) -> tuple[subprocess.Popen[bytes], Run, list[int]]:
        path = tmp_path / "run"
        command = [sys.executable, "-m", "counterpoint", "run", "--no-profile", "-o", str(path)]

        def heed() -> None:
            signal.signal(signal.SIGINT, before)
            for number in (signal.SIGHUP, signal.SIGQUIT):  # ignored under nohup, and after `&`
                signal.signal(number, signal.SIG_DFL)

        ours = subprocess.Popen(
            [*command, "--", sys.executable, "-c", self.PROGRAM.format(handler=handler)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=PLAIN,
            preexec_fn=heed,  # noqa: PLW1509
        )
        with killed_at_last(ours):
            assert ours.stdout is not None
            pids = [int(word) for word in ours.stdout.readline().split()]
            for number in signals:
                time.sleep(0.3)
                ours.send_signal(number)
            ours.wait(PATIENCE_S)
        return ours, read_run(path), pids

    @pytest.mark.parametrize(
        ("number", "status"),
        [
            pytest.param(signal.SIGINT, 130, marks=pytest.mark.smoke),
            (signal.SIGHUP, 129),
            (signal.SIGQUIT, 131),
        ],
    )
    def test_the_whole_group_is_ended(self, tmp_path: Path, number: int, status: int) -> None:
        ours, made, pids = self.interrupted(tmp_path, "signal.default_int_handler", number)
        assert ours.returncode == status
        assert made.outcome.kind is OutcomeKind.INTERRUPTED
        assert made.outcome.signal == signal.Signals(number).name
        assert not any(map(is_alive, pids))
        assert "KeyboardInterrupt" in made.ranks[0].stderr.read_text()  # it was asked, not killed

    def test_a_second_ctrl_c_does_not_wait(self, tmp_path: Path) -> None:
        deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN) or signal.SIG_IGN"
        began = time.monotonic()
        _, made, pids = self.interrupted(tmp_path, deaf, signal.SIGINT, signal.SIGINT)
        assert time.monotonic() - began < 15  # SIGKILL comes that late after one Ctrl-C
        assert made.outcome.kind is OutcomeKind.INTERRUPTED
        assert not any(map(is_alive, pids))

    def test_a_job_in_the_background_does_not_hear_ctrl_c(self, tmp_path: Path) -> None:
        ours, made, pids = self.interrupted(
            tmp_path,
            "signal.default_int_handler",
            signal.SIGINT,
            signal.SIGTERM,
            before=signal.SIG_IGN,
        )
        assert (ours.returncode, made.outcome.signal) == (143, "SIGTERM")
        assert not any(map(is_alive, pids))

    def test_what_survives_us_is_named_until_it_ends(self, tmp_path: Path) -> None:
        _, made, pids = self.interrupted(tmp_path, "signal.SIG_DFL", signal.SIGKILL)
        goes_on = f"the program goes on as process {pids[0]} (to end it: kill -- -{pids[0]})"
        assert made.outcome.kind is OutcomeKind.LOST
        assert made.outcome.detail.endswith(goes_on)
        listed = in_process("runs", str(tmp_path / "run"))
        assert f"kill -- -{pids[0]}" in listed.stdout
        os.killpg(pids[0], signal.SIGKILL)
        while is_alive(pids[0]):
            time.sleep(0.01)
        assert "goes on" not in read_run(tmp_path / "run").outcome.detail


OURS = (sys.executable, "-m", "counterpoint")
_LOOKS_LATE = """
import sys, time
from counterpoint.capture.processes import ProcessGroup
looks = ProcessGroup.has_members
ProcessGroup.has_members = lambda it: time.sleep(0.5) or looks(it)
from counterpoint.cli.app import main
sys.exit(main())
"""
SLOW_TO_LOOK = (sys.executable, "-c", _LOOKS_LATE)
"""As on a busy machine: what a group says last, it says between two looks of ours."""


class TestSignals:
    """Programs that answer signals, under the real command."""

    def started(
        self, path: Path, program: str, *options: str, command: tuple[str, ...] = OURS
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Ours, and the program's number, once it is ready."""
        start = "import os, signal, sys, time\n"
        ours = subprocess.Popen(
            [
                *(*command, "run", "--no-profile", *options),
                *("-o", str(path), "--", sys.executable, "-c", start + program),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=PLAIN,
        )
        assert ours.stdout is not None
        return ours, int(ours.stdout.readline())

    def ended(self, ours: subprocess.Popen[bytes]) -> tuple[int, str]:
        with killed_at_last(ours):
            out, _ = ours.communicate(timeout=PATIENCE_S)
        return ours.returncode, out.decode()

    def test_on_sigterm_a_checkpoint_may_take_its_time(self, tmp_path: Path) -> None:
        program = (
            "def save(*_): time.sleep(4); print('saved'); sys.exit({code})\n"
            "signal.signal(signal.SIGTERM, save)\n"
            "signal.signal(signal.SIGINT, lambda *_: os._exit(9))\n"
            "print(os.getpid())\n"
            "time.sleep(60)\n"
        )
        cases = ((0, OutcomeKind.OK, 0), (3, OutcomeKind.INTERRUPTED, 143))
        paths = [tmp_path / f"exits-{code}" for code, _, _ in cases]
        runs = [
            self.started(path, program.format(code=code))[0]
            for path, (code, _, _) in zip(paths, cases, strict=True)
        ]
        for ours in runs:
            ours.terminate()
        ended = [self.ended(ours) for ours in runs]  # they save side by side
        assert ended == [(status, "saved\n") for _, _, status in cases]
        assert [read_run(it).outcome.kind for it in paths] == [kind for _, kind, _ in cases]

    def test_a_script_that_dies_first_leaves_the_program_its_time(self, tmp_path: Path) -> None:
        """As a shell does, which has SIGTERM at the same time."""
        program = (
            "if os.fork(): time.sleep(60)\n"
            "def save(*_): time.sleep(4); print('saved'); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, save)\n"
            "print(os.getpid())\n"
            "time.sleep(60)\n"
        )
        ours, _ = self.started(tmp_path / "run", program)
        slow, _ = self.started(tmp_path / "slow", program, command=SLOW_TO_LOOK)
        ours.terminate()
        slow.terminate()
        assert self.ended(ours) == self.ended(slow) == (143, "saved\n")

    @pytest.mark.parametrize("ending", ["", "signal.signal(15, lambda *_: sys.exit(143)); "])
    def test_a_scheduler_may_end_the_program_first(self, tmp_path: Path, ending: str) -> None:
        ours, pid = self.started(tmp_path / "run", ending + "print(os.getpid())\ntime.sleep(60)\n")
        os.kill(pid, signal.SIGTERM)
        while is_alive(pid):
            time.sleep(0.01)
        ours.terminate()
        assert self.ended(ours) == (143, "")
        assert read_run(tmp_path / "run").outcome.kind is OutcomeKind.INTERRUPTED

    def test_a_second_one_ends_the_wait(self, tmp_path: Path) -> None:
        program = (
            "signal.signal(signal.SIGTERM, lambda *_: print('heard'))\n"
            "print(os.getpid())\n"
            "while True: time.sleep(1)\n"
        )
        seconds = (signal.SIGTERM, signal.SIGINT)
        runs = [self.started(tmp_path / it.name, program) for it in seconds]
        began = time.monotonic()
        for ours, _ in runs:
            ours.terminate()
        time.sleep(1.2)
        for second, (ours, _) in zip(seconds, runs, strict=True):
            ours.send_signal(second)
        time.sleep(max(0.0, began + 5 - time.monotonic()))
        assert [ours.poll() for ours, _ in runs] == [None, None]
        assert {self.ended(ours) for ours, _ in runs} == {(143, "heard\nheard\n")}
        assert not any(is_alive(pid) for _, pid in runs)

    def test_what_is_for_the_program_does_not_end_us(self, tmp_path: Path) -> None:
        program = (
            "seen = []\n"
            "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
            "signal.signal(signal.SIGUSR2, lambda *_: seen.append(2))\n"
            "print(os.getpid())\n"
            "while sorted(seen) != [1, 2]: time.sleep(0.05)\n"
            "print('both')\n"
        )
        ours, _ = self.started(tmp_path / "run", program)
        ours.send_signal(signal.SIGUSR1)
        ours.send_signal(signal.SIGUSR2)
        assert self.ended(ours) == (0, "both\n")

    def test_ctrl_z_stops_both_and_does_not_count(self, tmp_path: Path) -> None:
        program = "print(os.getpid())\nfor _ in range(10): time.sleep(0.1)\nprint('done')\n"
        ours, pid = self.started(tmp_path / "run", program, "--timeout", "4")
        ours.send_signal(signal.SIGTSTP)
        assert becomes(ours.pid, "T")
        assert becomes(pid, "T")
        time.sleep(4)
        ours.send_signal(signal.SIGCONT)
        assert self.ended(ours) == (0, "done\n")
