"""Runs one command on one input in a child with limits, and judges how it ended."""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

MEMORY = 4 << 30
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)
"""What no stream may hold: control characters, and those that turn the direction of text."""


@dataclass(slots=True)
class Ending:
    """How a command ended."""

    verdict: str
    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    out: str = ""
    err: str = ""
    code: int = 0
    words: list[str] = field(default_factory=list[str])


def load_commands() -> None:
    """Import what the commands need, once."""
    from counterpoint.cli.commands import COMMANDS

    importlib.import_module("polars")
    for command in COMMANDS:
        importlib.import_module(command.function.partition(":")[0])


def run_case(words: list[str], directory: Path, limit_s: float, memory: int = MEMORY) -> Ending:
    """Run a command line in a forked child of this process, which has everything imported."""
    out, err, scratch = directory / ".out", directory / ".err", directory / ".tmp"
    scratch.mkdir(exist_ok=True)
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(words, directory, memory)
    opened = os.pidfd_open(child)
    ready, _, _ = select.select([opened], [], [], limit_s)
    if not ready:
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    os.close(opened)
    seconds = time.monotonic() - begun
    ending = Ending(
        "",
        seconds,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss << 10,
        _text(out),
        _text(err),
        os.waitstatus_to_exitcode(status),
        words,
    )
    ending.verdict = "hang" if not ready else _verdict(ending, scratch)
    return ending


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""


def _child(words: list[str], directory: Path, memory: int) -> None:
    from counterpoint.cli.app import main

    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
        os.chdir(directory)
        os.environ.update(TMPDIR=str(directory / ".tmp"), COUNTERPOINT_CACHE="off", COLUMNS="100")
        tempfile.tempdir = None
        for number, name in ((1, ".out"), (2, ".err")):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
        sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 - for the whole process
        sys.argv = ["counterpoint", *words]
        code = main(words)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort
        traceback.print_exc()
        code = 70
    finally:
        sys.stderr.flush()
        os._exit(code)


def _verdict(ending: Ending, scratch: Path) -> str:  # noqa: PLR0911 - one for each kind
    if ending.code < 0:
        return f"signal {-ending.code}"
    if ending.code == 70 or "Traceback (most recent call last)" in ending.err:
        return "traceback " + where(ending.err)
    if "panicked at" in ending.err:
        return "panic"
    streams = (("stdout", ending.out), ("stderr", ending.err))
    for name, text in streams[1:] if _writes_a_file(ending.words) else streams:
        if found := CONTROL.search(text):
            return f"control {name} {found.group()!r}"
    if "--json" in ending.words and ending.code in (0, 1) and ending.out:
        try:
            json.loads(ending.out, parse_constant=_no_constant)
            ending.out.encode("utf-8")
        except ValueError as error:
            return f"json {error}"[:60]
    if left := [path.name for path in scratch.iterdir()]:
        return f"left {left[0][:20]}"
    return "ok"


def _writes_a_file(words: list[str]) -> bool:
    """Return whether stdout has a file, which is the user's own but for what was to change."""
    return words[:2] == ["flags", "render"] or "--diff" in words


def _no_constant(name: str) -> None:
    raise ValueError(f"it has {name}")


def where(err: str, kind: str = "") -> str:
    """Return our innermost place in a traceback and the kind of the error."""
    lines = err.strip().splitlines()
    places = [line for line in lines if "counterpoint/" in line and line.strip().startswith("File")]
    place = (
        re.sub(r'.*counterpoint/([^"]*)", line (\d+), in (.*)', r"\1:\2:\3", places[-1])
        if places
        else ""
    )
    last = next((line for line in reversed(lines) if line and not line.startswith(" ")), "")
    return f"{place} {kind or last.partition(':')[0]}"
