"""Opens what a user names as an input: a file or a pipe, never something without an end.

`/dev/zero` would fill memory. And to open a named pipe waits until another process opens it for
writing, without a word; here that wait is short, and its error says what did not come. A pipe of
the shell, as in `explain <(zcat trace.gz)`, has its writer, and may take its time.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["open_input", "read_input"]

_WAIT_S: Final = 10.0


def open_input(path: str | Path) -> BinaryIO:
    """Open a file or a pipe for reading; raise an OSError with the reason if it is neither."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _check(handle, path)
        os.set_blocking(handle, True)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check(handle: int, path: str | Path) -> None:
    kind = os.fstat(handle).st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "it is a device, not a file", str(path))
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISFIFO(kind) and Path(path).resolve().exists() and not _is_written(handle):
        waited = f"it is a pipe, and nothing was written to it within {_WAIT_S:.0f} s"
        raise OSError(errno.ETIMEDOUT, waited, str(path))


def read_input(path: str | Path) -> bytes:
    """Return the bytes of a file or a pipe."""
    with open_input(path) as file:
        return file.read()


def _is_written(pipe: int) -> bool:
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(_WAIT_S * 1000))
