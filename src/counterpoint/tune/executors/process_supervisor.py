"""A process around a command which ensures that no process of the command is left in the end.

    python -I -S process_supervisor.py [OPTIONS] -- COMMAND...

Whatever the command starts stays below this process, including processes that start their own
session or are orphaned. All of it is killed when the command has ended, when this process is asked
to end, or when the tuner has died. The file runs as a script and imports nothing but the standard
library, so that it starts at once; `supervised` writes its command line.

    --tuner PID:START  end when this process ends; START is when it began, in the kernel's ticks;
                       without it, when the process that started this one has ended
    --then JSON        and then execute this command
    --stop 2,2         signals that ask the command to end; then all is killed
    --times 3,20       seconds from one of these signals to the next, and from the last to the end
    --cpus 0,1         run on these CPUs
    --share 8/2        divide 8 devices among the 2 tasks that Slurm starts on a node
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
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import IO, NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILLED = 137


class EndingTimes(NamedTuple):
    """The time that a command has to end when it is asked to.

    Args:
        apart_s: Time from one signal to the next: after the second one `counterpoint run` hurries.
        patience_s: Time from the last signal until all is killed; a Run is written meanwhile.
    """

    apart_s: float = 3.0
    patience_s: float = 20.0

    def total_s(self, signals: int = 2) -> float:
        """Return the time from the first of so many signals until all is killed."""
        return signals * self.apart_s + self.patience_s


USUAL_TIMES = EndingTimes()


def supervised(
    command: Sequence[str],
    *,
    with_tuner: bool = False,
    then: Sequence[str] = (),
    stop: str = "",
    times: EndingTimes = USUAL_TIMES,
    cpus: Iterable[int] = (),
    share: str = "",
) -> tuple[str, ...]:
    """Return the command line of a supervisor around a command; the options are listed above.

    `with_tuner` ties it to this process, which is identified by its start time, too: a later
    process may get the same number.
    """
    me = os.getpid()
    options = {
        "--tuner": f"{me}:{_stat(me)[19]}" if with_tuner else "",
        "--then": json.dumps(list(then)) if then else "",
        "--stop": stop,
        "--times": ",".join(f"{seconds:g}" for seconds in times),
        "--cpus": ",".join(map(str, cpus)),
        "--share": share,
    }
    words = (word for name, text in options.items() if text for word in (name, text))
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), *words, "--", *command)  # noqa: PTH100


def start_supervised(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: IO[bytes] | int,
    cwd: str | os.PathLike[str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a supervisor in a session of its own, so that Ctrl-C does not reach it directly."""
    return subprocess.Popen(  # noqa: S603
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        start_new_session=True,
    )


class Supervisor:
    """Runs one command. The exit code is the command's, or 128 + number for a signal."""

    def __init__(self, options: dict[str, str], command: list[str]) -> None:
        self._options = options
        self._command = command
        self._signals = [int(number) for number in options.get("--stop", "2,2").split(",")]
        self._times = EndingTimes(*map(float, options["--times"].split(",")))
        self._stopping_since: float | None = None
        self._orphaned = False
        self._parent = os.getppid()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)

    def run(self) -> int:
        """Run the command to its end, and leave no process of it behind."""
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray's workers block SIGINT
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if "--cpus" in self._options:
            os.sched_setaffinity(0, {int(number) for number in self._options["--cpus"].split(",")})
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        tuner = self._tuner()
        if self._orphaned:
            return self._finish(_KILLED)
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
        _kill_descendants()
        return self._finish(code)

    def _finish(self, code: int) -> int:
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
                    self._stop()
                else:
                    os.read(self._wake, 4096)
            _reap_others(child.pid)
            if "--tuner" not in self._options and os.getppid() != self._parent:
                self._stop()
            if self._stopping_since is None:
                continue
            elapsed_s = time.monotonic() - self._stopping_since
            if sent < len(self._signals) and elapsed_s >= sent * self._times.apart_s:
                child.send_signal(self._signals[sent])
                sent += 1
            if elapsed_s >= self._times.total_s(len(self._signals)):
                child.kill()
        code = child.returncode
        return code if code >= 0 else 128 - code

    def _stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Record that the command must end; also a signal handler."""
        del number, frame
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()

    def _tie(self) -> None:
        """Make the kernel end the child if the supervisor itself is killed; runs in the child."""
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, self._signals[0], 0, 0, 0)

    def _tuner(self) -> int | None:
        """Open a file descriptor that becomes readable when the tuner has ended."""
        if "--tuner" not in self._options:
            return None
        number, _, began = self._options["--tuner"].partition(":")
        try:
            handle = os.pidfd_open(int(number))
        except ProcessLookupError:
            self._orphaned = True
            return None
        except OSError:  # a kernel before 5.3
            return None
        self._orphaned = _stat(int(number))[19:20] != [began]
        return handle

    def _devices(self) -> dict[str, str]:
        """Return JAX_LOCAL_DEVICE_IDS: under Slurm, JAX gives a process one device by default."""
        if "--share" not in self._options or "JAX_LOCAL_DEVICE_IDS" in os.environ:
            return {}
        devices, tasks = map(int, self._options["--share"].split("/"))
        if devices <= tasks or devices % tasks:
            return {}
        share, task = devices // tasks, int(os.environ.get("SLURM_LOCALID", "0"))
        mine = range(task * share, (task + 1) * share)
        return {"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, mine))}


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _reap_others(child: int) -> None:
    """Reap orphans below us; the child itself is left to `Popen.poll`."""
    for pid in _children(os.getpid()):
        if pid != child:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _children(parent: int) -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    return [pid for pid in numbers if _stat(pid)[1:2] == [str(parent)]]


def _kill_descendants() -> None:
    """Kill all descendants. Orphans become our children, so the last ones left are children."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        found = [os.getpid()]
        for pid in found:
            found.extend(_children(pid))
        for pid in found[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.02)


def main(words: list[str]) -> int:
    """Parse options, which come in pairs, and the command after `--`, and run it."""
    split = words.index("--")
    options = dict(zip(words[:split:2], words[1:split:2], strict=True))
    return Supervisor(options, words[split + 1 :]).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
