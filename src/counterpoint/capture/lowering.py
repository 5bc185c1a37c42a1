"""`lower_command`: what a program jits, without training.

The program runs unchanged on virtual CPU devices, with an agent in its process that keeps what JAX
lowers and ends it as soon as the step is known. It computes next to nothing and holds next to no
memory: docs/guide/predict-inputs.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from counterpoint.capture.agent import LOWERING
from counterpoint.capture.environment import SITE
from counterpoint.capture.lowering_errors import (
    failed,
    held_by_python,
    no_jax,
    no_step,
    refuse_missing,
    too_long,
)
from counterpoint.core.errors import InputError, UsageError

TIMEOUT_S: Final = 900.0
OUTCOME: Final = "lowered.json"
JOURNAL: Final = "journal.jsonl"
STDERR: Final = "stderr"
_STDOUT: Final = "stdout"
_TURN_S: Final = 0.05
_AFTER_S: Final = 10.0
"""A program that has been told to end by its agent ends at once; a launcher above it may not."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """What came of it: `load_workload(directory, name)` reads the step."""

    directory: Path
    name: str
    devices: int
    platform: str = "cuda"  # what it is lowered for; "cpu" where it could not be for CUDA
    jax: str = ""  # the version that lowered it
    # The program's own flags and variables, as it set or inherited them: Settings of a prediction.
    xla_flags: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()  # what else it lowered, the larger first
    notes: tuple[str, ...] = ()


def lower_command(
    command: Sequence[str],
    *,
    devices: int,
    directory: Path,
    program: str | None = None,
    timeout_s: float = TIMEOUT_S,
    on_progress: Say | None = None,
) -> Lowering:
    """Run a command until its step has been lowered for so many devices.

    `program` names the function that is the step; else it is the one with the most FLOPs.
    """
    if devices < 1:
        raise UsageError(f"--devices takes a number from 1 on, not {devices}")
    refuse_missing(command, os.environ)
    attempt = _Attempt(command, devices, directory, program, timeout_s, on_progress or _silent)
    try:
        return attempt.lowering("gpu")
    except InputError:
        if not attempt.has_asked:
            raise
        return attempt.lowering("cpu")  # what it chose for GPUs does not get through here


def _silent(what: str) -> None:
    del what


@dataclass(slots=True)
class _Attempt:
    """A command and what is wanted of it."""

    command: Sequence[str]
    devices: int
    directory: Path
    program: str | None
    timeout_s: float
    say: Say
    has_asked: bool = False  # which backend it runs on

    def lowering(self, backend: str) -> Lowering:
        """Run it, and be told `backend` when it asks where it runs."""
        directory, command = self.directory, self.command
        directory.mkdir(parents=True, exist_ok=True)
        for old in (directory / OUTCOME, *directory.glob("jax_ir*.mlir")):
            old.unlink(missing_ok=True)
        journal = _Journal(directory / JOURNAL, self.say)
        status = _run(command, self._environment(backend), directory, journal, self.timeout_s)
        self.has_asked = journal.has_asked
        outcome = _outcome(directory)
        if outcome is not None and outcome["stopped"]:
            return _lowering(command, directory, outcome)
        seen = _seen(outcome, journal)
        if status is None:
            raise too_long(command, self.timeout_s, seen)
        if status != 0:
            errors = (directory / STDERR).read_text(encoding="utf-8", errors="replace")
            raise failed(command, status, errors, seen)
        if not journal.has_begun:
            raise no_jax(command)
        if outcome is None or outcome["step"] is None:
            raise no_step(command, self.program, seen)
        return _lowering(command, directory, outcome)

    def _environment(self, backend: str) -> dict[str, str]:
        task = {
            "devices": self.devices,
            "directory": str(self.directory.absolute()),
            "program": self.program,
            "backend": backend,
        }
        search = os.environ.get("PYTHONPATH")
        return {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join([str(SITE), *([search] if search else [])]),
            LOWERING: json.dumps(task),
        }


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], directory: Path
) -> Generator[subprocess.Popen[bytes]]:
    """The program in a session of its own, which ends with us however we end."""
    with (directory / _STDOUT).open("wb") as out, (directory / STDERR).open("wb") as err:
        process = subprocess.Popen(  # noqa: S603  the user's own command
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    journal: _Journal,
    timeout_s: float,
) -> int | None:
    """The exit status; None where it took too long."""
    try:
        with _started(command, environment, directory) as process:
            until = time.monotonic() + timeout_s
            while time.monotonic() < until:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_TURN_S)
                journal.look()
                if (directory / OUTCOME).exists() and (_outcome(directory) or {}).get("stopped"):
                    until = min(until, time.monotonic() + _AFTER_S)
            return None
    except OSError as failure:
        raise UsageError(
            f"{command[0]} can't be started: {failure.strerror or failure}"
        ) from failure
    finally:
        journal.look()


class _Journal:
    """What the agent says while the program runs."""

    def __init__(self, path: Path, say: Say) -> None:
        path.write_bytes(b"")
        self._path = path
        self._say = say
        self._read = 0
        self.functions: list[dict[str, Any]] = []
        self.has_begun = False
        self.has_asked = False

    def look(self) -> None:
        """Tell what is new."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                self._tell(json.loads(line))

    def _tell(self, line: dict[str, Any]) -> None:
        if line["event"] == "began":
            self.has_begun = True
            self._say(f"the program has loaded jax {line['jax']}")
        elif line["event"] == "lowered":
            self.functions.append(line)
            self._say(f"it lowers {line['name']}")
        elif line["event"] == "asked":
            self.has_asked = True
        else:
            self._say(f"{line['name']} is not run: zeros stand for its results")


def _outcome(directory: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return found


def _seen(outcome: dict[str, Any] | None, journal: _Journal) -> list[str]:
    """Names of what was lowered, the heavier first."""
    functions = outcome["functions"] if outcome else journal.functions
    heavy = sorted(functions, key=lambda it: (it["backward"], it["flops"]), reverse=True)
    return list(dict.fromkeys(it["name"] for it in heavy))


def _lowering(command: Sequence[str], directory: Path, outcome: dict[str, Any]) -> Lowering:
    variables: dict[str, str] = dict(outcome["variables"])
    flags = variables.pop("XLA_FLAGS", "")
    name: str = outcome["step"]
    if any(it["custom"] for it in outcome["functions"] if it["name"] == name):
        raise held_by_python(command, name)
    others = [it["name"] for it in sorted(outcome["functions"], key=_heaviest, reverse=True)]
    return Lowering(
        directory=directory,
        name=name,
        devices=outcome["devices"],
        platform=outcome["platform"],
        jax=outcome["jax"],
        xla_flags=flags.strip(),
        variables=variables,
        others=tuple(dict.fromkeys(other for other in others if other != name)),
        notes=(*outcome["notes"], *_version_notes(outcome["jax"])),
    )


def _version_notes(lowered: str) -> list[str]:
    """Another release may optimise otherwise, and may not even read what this one wrote."""
    try:
        here = metadata.version("jax")
    except metadata.PackageNotFoundError:
        return []
    if here == lowered:
        return []
    return [f"the program's jax {lowered} lowered it; it is compiled by jax {here}"]


def _heaviest(function: dict[str, Any]) -> float:
    return float(function["flops"])
