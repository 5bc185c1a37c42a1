"""The program ends when the process that wanted it lowered does, even if that is killed."""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress


def end_with(pid: int) -> None:
    """Once `pid` has ended, end all of this process group: it is in a session of its own."""
    with suppress(OSError, AttributeError):  # a kernel before 5.3
        handle = os.pidfd_open(pid)
        threading.Thread(target=_wait, args=(handle,), daemon=True).start()


def _wait(handle: int) -> None:
    select.select([handle], [], [])
    os.killpg(os.getpgrp(), signal.SIGKILL)
