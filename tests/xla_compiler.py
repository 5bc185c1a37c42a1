"""XLA's GPU compiler for tests, in a process of its own: programs, and what XLA logs meanwhile.

One process serves many compiles (a quarter of a second each), so a session of tests shares it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program

WORKER = Path(__file__).parent / "pgle" / "xla_worker.py"
PATH_FLAG = "xla_gpu_pgle_profile_file_or_directory_path"
CHECKER_FLAG = "xla_gpu_pgle_accuracy_checker"

Option = str | int | bool


def why_none() -> str | None:
    """Why this compiler can't be had here; None where it can."""
    try:
        found = importlib.util.find_spec("jax_plugins.xla_cuda13")
    except ModuleNotFoundError:
        found = None
    return None if found else "XLA's GPU compiler is not installed (jax-cuda13-pjrt and -plugin)"


@dataclass(frozen=True)
class Compilation:
    """What came of one compile: its log, and the program or what XLA refused it with."""

    directory: Path
    error: str | None

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    @property
    def hlo(self) -> Path:
        """The scheduled module."""
        assert self.error is None, self.error
        return self.directory / "program.hlo.pb"

    @property
    def program(self) -> Program:
        return read_program(self.hlo)


class Compiler:
    """The process, and every compile that was asked of it."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        self._known: dict[str, Compilation] = {}
        self._messages = (directory / "worker.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            env={**os.environ, **(environment or {})},
            cwd=directory,  # where a dump goes whose flag names no whole path
            text=True,
        )
        try:
            self.jax = str(self._answer().get("jax"))
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.jax.split(".")[:2])

    def compile(self, model: str, **options: Option) -> Compilation:
        """Compile a model of `xla_worker`; the same request is compiled once."""
        key = json.dumps([model, options], sort_keys=True, default=str)
        if key not in self._known:
            out = self._directory / str(len(self._known))
            out.mkdir()
            request = {"model": model, "options": options, "out": str(out)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request, default=str) + "\n")
            self._process.stdin.flush()
            self._known[key] = Compilation(out, self._answer().get("error"))
        return self._known[key]

    def with_profile(self, model: str, path: Path, **options: Option) -> Compilation:
        """Compile with a profile's file or directory, by XLA's own flag."""
        return self.compile(model, **{PATH_FLAG: str(path), **options})

    def close(self) -> None:
        """End the process; its pipes are closed also where it does not end by itself."""
        assert self._process.stdin is not None
        with self._messages, self._process:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=60)
            finally:
                self._process.kill()

    def _answer(self) -> dict[str, str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            told = (self._directory / "worker.log").read_text()
            raise RuntimeError(f"the compiler's process ended:\n{told[-2000:]}")
        answer: dict[str, str] = json.loads(line)
        return answer
