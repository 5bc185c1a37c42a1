"""A process with all its descendants, as one thing that can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class Group:
    """A process in a session of its own. It is not reaped before the group has ended.

    So long its number belongs to nobody else, and a signal to the group can't meet strangers.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            command,
            env=environment,
            stdin=subprocess.DEVNULL if os.isatty(0) else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self.pid = self._process.pid
        self._over = False

    @property
    def pipes(self) -> tuple[int, int]:
        """Where its stdout and its stderr come out."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            raise RuntimeError("the process has no pipes")
        return out.fileno(), err.fileno()

    def has_ended(self) -> bool:
        """Whether the process itself has; its descendants may go on."""
        if not self._over:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            self._over = os.waitid(os.P_PID, self.pid, options) is not None
        return self._over

    def send(self, number: int) -> None:
        """Send a signal to all of the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def has_members(self) -> bool:
        """Whether anybody of the group is left beside the process itself."""
        return any(_is_member(path, self.pid) for path in Path("/proc").glob("[0-9]*"))

    def reap(self) -> tuple[int | None, int | None]:
        """Exit code and signal of the process. Whoever is left of the group is killed."""
        self.send(signal.SIGKILL)
        status = self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return (status, None) if status >= 0 else (None, -status)


def _is_member(path: Path, group: int) -> bool:
    try:
        state, _, member_of = (
            (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
        )
    except (OSError, ValueError):
        return False
    return int(member_of) == group and path.name != str(group) and state != "Z"
