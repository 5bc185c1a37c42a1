"""Lets the kernel confine this process, and all that it starts, to directories (Landlock)."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the numbers are the same on all architectures
_NO_NEW_PRIVILEGES: Final = 38
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_ALL: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
"""Kinds of access to files by version; later versions add those to devices and sockets."""
_CONNECTING: Final = {4: 0x3}
_SYSTEM: Final = (
    *("/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt/nvidia", "/proc", "/sys", "/dev"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    "/etc/alternatives",
)


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("directory", ctypes.c_int32))


def refuse_old_kernel() -> None:
    """Raise a UsageError if this kernel can't confine a process."""
    if _version() < 1:
        raise UsageError(
            "this kernel can't confine a process to directories",
            why="Landlock is missing (Linux 5.13 has it) or turned off, and without it a link or a"
            " path recorded in a Run could lead out of --root",
            next="counterpoint explain RUN --as digest",
        )


def confine(readable: Iterable[Path], writable: Path) -> None:
    """Allow reading of directories, all of one more, the system's programs, and no connections."""
    version = _version()
    every = _ALL[min(version, max(_ALL))]
    network = _CONNECTING[4] if version >= 4 else 0
    rules = _Rules(every, network)
    size = ctypes.sizeof(rules) if version >= 4 else 8
    made = _call(_CREATE, ctypes.byref(rules), size, 0)
    for path in readable:
        _allow(made, path, _READ | _LIST)
    for path in (*map(Path, _SYSTEM), *_python()):
        _allow(made, path, _READ | _LIST | _EXECUTE)
    _allow(made, writable, every)
    for path in ("/dev/null", "/dev/shm"):  # noqa: S108 - threads and processes share memory there
        _allow(made, Path(path), _READ | _WRITE | (every if path.endswith("shm") else 0))
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call(_RESTRICT, made, 0)
    os.close(made)


def _python() -> Sequence[Path]:
    """Return where Python and its packages are, with those that are only linked to."""
    places = [one for one in sys.path if one]
    packages = [Path(one) for one in places if one.endswith("-packages") and os.path.isdir(one)]  # noqa: PTH112
    links = [str(path) for one in packages for path in one.iterdir() if path.is_symlink()]
    named = (sys.prefix, sys.base_prefix, sys.executable, *places, *links)
    return [Path(one) for one in dict.fromkeys(os.path.realpath(one) for one in named)]


def _allow(rules: int, path: Path, access: int) -> None:
    try:
        directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not every system has it
    try:
        if not path.is_dir():
            access &= _EXECUTE | _WRITE | _READ
        _call(_ADD, rules, 1, ctypes.byref(_Beneath(access, directory)), 0)
    finally:
        os.close(directory)


def _version() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    return int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, 0, 1))


def _call(number: int, *arguments: object) -> int:
    result = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
