"""Runs a command many times, each time with one fault at one of its file operations.

A program of its own, which has everything imported and forks a child for each time: polars may
have no threads when a process is forked. It reads what to run from its standard input, as JSON,
and prints what it saw.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Never

OWN = (".out", ".err", ".tmp", ".count", ".modules")
"""What the harness itself keeps beside a command's files."""


def main() -> None:
    """Answer requests until there are no more."""
    _load()
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answer = {"killed": killed, "full": full, "locked": locked, "clock": clock}[
            request["fault"]
        ](request)
        print(json.dumps(answer), flush=True)


def killed(request: dict[str, Any]) -> dict[str, Any]:
    """Kill the command before each of its file operations, and then let it run as if new."""
    inputs, place = Path(request["inputs"]), Path(request["place"])
    words, again, after = request["words"], request["again"], request.get("after")
    _fresh(inputs, place)
    before = snapshot(place)
    code = _run(place, words, _counted(place))
    error, done = _text(place / ".err"), snapshot(place)
    _import_the_same(place)
    seen = []
    count = _count(place)
    most = request.get("most", count)
    for number in range(0, count, max(1, count // most))[:most]:
        _fresh(inputs, place)
        ended = _run(place, words, _killed_at(place, number))
        left = snapshot(place)
        _age(place)
        repeated = _run(place, again, lambda: None)
        code_after = _run(place, after, lambda: None) if after else None
        seen.append(
            {
                "killed": ended == -signal.SIGKILL,
                "left": left,
                "repeated": repeated,
                "after": code_after,
                "out": _text(place / ".out"),
                "error": _text(place / ".err"),
                "end": snapshot(place),
                "scratch": _names(place / ".tmp"),
            }
        )
    return {"before": before, "code": code, "error": error, "done": done, "seen": seen}


def full(request: dict[str, Any]) -> dict[str, Any]:
    """Run the command on a file system that has room for so many KiB more."""
    return _mounted(request, f"size={request['kib']}k", read_only=False)


def locked(request: dict[str, Any]) -> dict[str, Any]:
    """Run the command on a file system that can't be written."""
    return _mounted(request, "size=64m", read_only=True)


BACKWARDS = """
import datetime, sys, time
_clock, _looks = time.time, 0
_Datetime = datetime.datetime
def _back():
    global _looks
    _looks += 1
    return _clock() - 600 * _looks
class _Backwards(_Datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(_back(), tz)
time.time, time.time_ns = _back, lambda: int(_back() * 1e9)
for module in [*sys.modules.values()]:
    if getattr(module, "datetime", None) is _Datetime:
        module.datetime = _Backwards
"""
"""Sets the clock back by ten minutes each time that somebody looks at it."""


def clock(request: dict[str, Any]) -> dict[str, Any]:
    """Run commands one after the other with such a clock in every process."""
    place = Path(request["place"])
    _fresh(Path(request["inputs"]), place)
    (place / "sitecustomize.py").write_text(BACKWARDS)

    def begin() -> None:
        os.environ["PYTHONPATH"] = str(place)
        exec(BACKWARDS, {})  # noqa: S102 - here all is imported by now

    ended = []
    for words in request["commands"]:
        code = _run(place, words, begin)
        ended.append({"code": code, "out": _text(place / ".out"), "error": _text(place / ".err")})
    return {"ended": ended}


def _mounted(request: dict[str, Any], options: str, *, read_only: bool) -> dict[str, Any]:
    """Run the command in a mount namespace of its own, where its directory is a file system."""
    inputs, place = Path(request["inputs"]), Path(request["place"])
    place.mkdir(parents=True, exist_ok=True)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer: dict[str, Any] = {}
        try:
            _own_mounts(place, options)
            _copy(inputs, place)
            before = snapshot(place)
            (place / ".tmp").mkdir()
            if read_only:
                _mount(place, options, _MS_REMOUNT | _MS_RDONLY)
            with tempfile.TemporaryDirectory() as elsewhere:
                code = _run(place, request["words"], lambda: None, Path(elsewhere))
                error = _text(Path(elsewhere) / ".err")
            answer = {"before": before, "code": code, "left": snapshot(place), "error": error}
            answer["hidden"] = [name for name in _names(place) if name.startswith(".")]
        except OSError as failure:
            denied = failure.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS)
            answer = {"denied" if denied else "failed": str(failure)}
        finally:
            with os.fdopen(theirs, "w") as out:
                json.dump(answer, out)
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000


def _own_mounts(place: Path, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS if os.geteuid() == 0 else _NEW_MOUNTS | _NEW_USER):
        raise OSError(ctypes.get_errno(), "no mount namespace")
    libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    _mount(place, options, 0)


def _mount(place: Path, options: str, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", flags, options.encode()):
        raise OSError(ctypes.get_errno(), "no file system could be mounted")


def snapshot(place: Path) -> dict[str, str]:
    """Return the digest of each file, hidden ones included."""
    return {
        str(path.relative_to(place)): _digest(path)
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.relative_to(place).parts[0] not in OWN
    }


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".html" and content.startswith(b"<!"):  # it tells when it was made
        return "a page" if content.rstrip().endswith(b"</html>") else "a part of a page"
    if path.suffix == ".tgz" and content.startswith(b"\x1f\x8b"):  # so does this
        with tarfile.open(path) as archive:
            return str(archive.getnames())
    return hashlib.sha256(content).hexdigest()


def _fresh(inputs: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    _copy(inputs, place)
    (place / ".tmp").mkdir()


def _copy(inputs: Path, place: Path) -> None:
    shutil.copytree(inputs, place, dirs_exist_ok=True, symlinks=True)


def _age(place: Path) -> None:
    """Let everything be old enough to be swept."""
    then = time.time() - 3600
    for path in place.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


def _names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _run(place: Path, words: list[str], prepare: Callable[[], None], streams: Path = Path()) -> int:
    """Run a command line in a child that was forked; return how it ended."""
    child = os.fork()
    if child == 0:
        _child(place, words, prepare, place if streams == Path() else streams)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _child(place: Path, words: list[str], prepare: Callable[[], None], streams: Path) -> Never:
    from counterpoint.cli.app import main as command

    code = 70
    try:
        os.chdir(place)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ.update(TMPDIR=str(place / ".tmp"), COUNTERPOINT_CACHE=str(place / ".cache"))
        os.environ["PATH"] = f"{place}/tools:{os.environ['PATH']}"
        tempfile.tempdir = None
        tempfile.gettempdir()  # it tries the directory out, with a file of no matter here
        for number, name in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(streams / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until it ends
        sys.stderr = open(2, "w", 1, "utf-8", closefd=False)  # noqa: SIM115 - until it ends
        sys.argv = ["counterpoint", *words]
        prepare()
        code = command(words)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    finally:
        for end in _at_end:
            end()
        sys.stderr.flush()
        os._exit(code)


_at_end: list[Callable[[], object]] = []
"""What a child does when its command is over: it leaves without Python's own end."""
_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _changes(place: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether this is an operation that changes a file below `place`."""
    if event == "open":
        changing = isinstance(arguments[2], int) and arguments[2] & _WRITING
    else:
        changing = event in _CHANGES
    if not changing or not isinstance(arguments[0], str | bytes | os.PathLike):
        return False
    named = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100 - no look at the disk
    return named.startswith(f"{place}/")


def _counted(place: Path) -> Callable[[], None]:
    def begin() -> None:
        count = 0

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if _changes(place, event, arguments):
                count += 1
                os.ftruncate(note, 0)
                os.pwrite(note, str(count).encode(), 0)

        modules = os.open(place / ".modules", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        _at_end.append(lambda: os.write(modules, "\n".join(sys.modules).encode()))
        note = os.open(place / ".count", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        sys.addaudithook(hear)

    return begin


def _count(place: Path) -> int:
    return int(_text(place / ".count") or 0)


def _killed_at(place: Path, number: int) -> Callable[[], None]:
    def begin() -> None:
        count = 0

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if _changes(place, event, arguments):
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(hear)

    return begin


def _import_the_same(place: Path) -> None:
    """Import what the command imported late, so that none of its next children has to."""
    for name in _text(place / ".modules").split():
        if name not in sys.modules:
            with suppress(ImportError):  # some are made by other modules
                importlib.import_module(name)


def _load() -> None:
    from counterpoint.cli.commands import COMMANDS

    os.environ["POLARS_MAX_THREADS"] = "1"  # each child starts its own
    importlib.import_module("polars")
    for command in COMMANDS:
        importlib.import_module(command.function.partition(":")[0])
    gc.disable()  # to look for garbage copies what the children share


if __name__ == "__main__":
    main()
