"""The command line in tests, in this process: what a process of its own would print and answer.

A fresh interpreter that imports polars costs more than most commands do. Where a process is the
point (its signals, pipes, streams that are closed, what it imports) a test starts one itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from counterpoint.cli.app import main

Counterpoint = Callable[..., subprocess.CompletedProcess[str]]


def in_process(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command line here; its programs inherit the directory, variables and streams."""
    words = [*map(str, arguments)]
    with (
        TemporaryFile() as out,
        TemporaryFile() as err,
        _surroundings(cwd or Path.cwd(), os.environ if environment is None else environment),
    ):
        with _streams(out, err), _argv(["counterpoint", *words]):
            code = _exit_code(words)
        return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def _exit_code(words: list[str]) -> int:
    """The code that a process ends with, also where an exception ends it."""
    try:
        return main(words)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - the interpreter's own last resort
        traceback.print_exc()
        return 1


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def _surroundings(directory: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Another current directory and other variables; nothing of them stays."""
    before, variables, wanted = Path.cwd(), dict(os.environ), dict(environment)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(before)


@contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Generator[None]:
    """Descriptors 1 and 2 lead to the files, for the programs that the command starts, too."""
    kept = sys.stdout, sys.stderr
    copies = [(number, os.dup(number)) for number in (1, 2)]
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
        with (
            open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
            open(2, "w", 1, "utf-8", "backslashreplace", closefd=False) as sys.stderr,
        ):
            yield
    finally:
        sys.stdout, sys.stderr = kept
        for number, copy in copies:
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _argv(words: list[str]) -> Generator[None]:
    before, sys.argv = sys.argv, words
    try:
        yield
    finally:
        sys.argv = before
