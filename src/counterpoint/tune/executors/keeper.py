"""A process around a command, which sees to it that nothing of it is left in the end.

    python -I -S keeper.py [OPTIONS] -- COMMAND...

Whatever the command starts stays below this process, also what starts a session of its own or is
orphaned, and is killed once the command has ended, or when this process is asked to end, or when
the tuner has died. It needs no module beside Python's own, so that it starts at once.

    --with PID:START   end when this process ends; START is when it began, in the kernel's ticks;
                       without it, when whoever started this one has ended
    --then JSON        and then execute this command
    --stop 2,2         signals that ask the command to end, some seconds apart; then all is killed
    --cpus 0,1         run on these CPUs
    --devices 8        deal out so many devices among the tasks that Slurm starts on a node
    --tasks 2          and so many tasks there are
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_APART_S = 3.0
"""Between signals that ask: after the second one `counterpoint run` hurries."""
_PATIENCE_S = 20.0
"""From the last of them until all is killed; a Run is written meanwhile."""
_KILLED = 137


class Keeper:
    """Keeps one command. The exit code is the command's, 128 + number for a signal."""

    def __init__(self, options: dict[str, str], command: list[str]) -> None:
        self._options = options
        self._command = command
        self._signals = [int(one) for one in options.get("--stop", "2,2").split(",")]
        self._asked_at: float | None = None
        self._orphaned = False
        self._parent = os.getppid()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)

    def run(self) -> int:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray's workers block SIGINT
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if "--cpus" in self._options:
            os.sched_setaffinity(0, {int(one) for one in self._options["--cpus"].split(",")})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        tuner = self._tuner()
        if self._orphaned:
            return self._last(_KILLED)
        try:
            child = subprocess.Popen(  # noqa: S603 - the caller's own command
                self._command,
                env={**os.environ, **self._devices()},
                process_group=0,
                preexec_fn=self._tie,  # noqa: PLW1509 - no threads here
            )
        except OSError as failure:
            print(f"error: {self._command[0]}: {failure.strerror}", file=sys.stderr)  # noqa: T201
            return 127
        code = self._wait(child, tuner)
        _kill_below()
        return self._last(code)

    def _last(self, code: int) -> int:
        if self._orphaned and "--then" in self._options:
            subprocess.run(json.loads(self._options["--then"]), check=False)  # noqa: S603
        return code

    def _wait(self, child: subprocess.Popen[bytes], tuner: int | None) -> int:
        sent = 0
        watched = [self._wake, *([] if tuner is None else [tuner])]
        while child.poll() is None:
            for ready in select.select(watched, [], [], 1.0)[0]:
                if ready == tuner:
                    self._orphaned = True
                    watched.remove(ready)
                    self._ask()
                else:
                    os.read(self._wake, 4096)
            _reap_others(child.pid)
            if "--with" not in self._options and os.getppid() != self._parent:
                self._ask()
            if self._asked_at is None:
                continue
            over = time.monotonic() - self._asked_at
            if sent < len(self._signals) and over >= sent * _APART_S:
                child.send_signal(self._signals[sent])
                sent += 1
            if over >= len(self._signals) * _APART_S + _PATIENCE_S:
                child.kill()
        code = child.returncode
        return code if code >= 0 else 128 - code

    def _ask(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Note that it is time to end."""
        del number, frame
        if self._asked_at is None:
            self._asked_at = time.monotonic()

    def _tie(self) -> None:
        """In the child: should the keeper itself be killed, it is asked to end."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, self._signals[0], 0, 0, 0)

    def _tuner(self) -> int | None:
        """A handle that tells when the tuner has ended."""
        if "--with" not in self._options:
            return None
        number, _, began = self._options["--with"].partition(":")
        try:
            handle = os.pidfd_open(int(number))
        except ProcessLookupError:
            self._orphaned = True
            return None
        except OSError:  # a kernel before 5.3
            return None
        self._orphaned = _told(number)[19:20] != [began]
        return handle

    def _devices(self) -> dict[str, str]:
        """Under Slurm JAX takes a process to be for one device, unless it is told of others."""
        if "--devices" not in self._options or "JAX_LOCAL_DEVICE_IDS" in os.environ:
            return {}
        devices, tasks = int(self._options["--devices"]), int(self._options["--tasks"])
        if devices <= tasks or devices % tasks:
            return {}
        share, place = devices // tasks, int(os.environ.get("SLURM_LOCALID", "0"))
        mine = range(place * share, (place + 1) * share)
        return {"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, mine))}


def _told(pid: str) -> list[str]:
    """What the kernel says of a process behind its name."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _reap_others(child: int) -> None:
    """Orphans below us are ours to bury; the child itself is left to whoever waits for it."""
    for pid in _children(os.getpid()):
        if pid != child:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _children(parent: int) -> list[int]:
    mine = str(parent)
    names = [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    return [int(name) for name in names if _told(name)[1:2] == [mine]]


def _kill_below() -> None:
    """Kill all descendants. Orphans come to us, so those that are left are children in the end."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        reach = [os.getpid()]
        for pid in reach:
            reach.extend(_children(pid))
        for pid in reach[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.02)


def main(words: list[str]) -> int:
    """Options come in pairs; what follows `--` is the command."""
    split = words.index("--")
    given = words[:split]
    return Keeper(dict(zip(given[::2], given[1::2], strict=True)), words[split + 1 :]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
