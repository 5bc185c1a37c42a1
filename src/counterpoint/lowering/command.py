"""`lower_command` finds the step that a program jits, without training.

The program runs unchanged on virtual CPU devices, with the emulator in its process, which keeps
what JAX lowers and ends the program as soon as the step is known. It takes almost no computation
and almost no memory: docs/concepts/lowering.md.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.injection import NOTED, injected
from counterpoint.core.printable import some
from counterpoint.hardware.target import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.lowering.containment import discard_layer, overlay_command
from counterpoint.lowering.emulator import JOURNAL, OUTCOME, TASK
from counterpoint.lowering.errors import (
    failed,
    is_of_stand_in,
    is_own_refusal,
    no_jax,
    no_step,
    refuse_many,
    refuse_missing,
    too_long,
    unusable,
)
from counterpoint.lowering.gpu_facts import DeviceFact, gpu_facts
from counterpoint.lowering.memory_limit import MemoryLimit
from counterpoint.lowering.result import (
    EmulatorReports,
    Lowering,
    Say,
    first_names,
    function_names,
    read_lowering,
    read_outcome,
)
from counterpoint.trainers import QuietVariable, find_trainer

TIMEOUT_S: Final = 900.0
_ASSUMED: Final = "8xH100"
_EMULATOR: Final = Path(__file__).parent / "emulator"
_STDERR: Final = "stderr"
_STDOUT: Final = "stdout"
_POLL_S: Final = 0.05
_SOME: Final = 3
_FAILURE: Final = 200  # characters of an error in a note
_AFTER_S: Final = 10.0
"""Seconds for a launcher to end, after the program that it launched."""
_SILENT_S: Final = 40.0
"""Seconds after the step is known without another function, for the rest of an iteration: more than
the program itself waits for, which ends then unless it hangs."""
_OF_LAYER: Final = re.compile(
    r"Value too large for defined data type|Invalid cross-device link|Connection refused"
)
"""Failures caused by an overlay's limits.

It can't change a file of another group than the user's own, rename a directory of the layer below,
or reach a socket in a file.
"""
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def lower_command(  # noqa: PLR0913  the command, and what it gets
    command: Sequence[str],
    *,
    devices: int,
    directory: Path,
    target: Target | None = None,
    program: str | None = None,
    timeout_s: float = TIMEOUT_S,
    on_progress: Say | None = None,
    contain: bool = True,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Lowering:
    """Run a command until its step has been lowered for this many devices.

    The devices describe themselves as the target's GPUs do, by default as hosts of eight H100.
    `program` names the function that is the step; else it is the one with the most FLOPs. With
    `contain`, the command runs on a temporary layer over all files, if the kernel supports one.
    `environment` and `cwd` are the command's: by default those of this process.
    """
    if devices < 1:
        raise UsageError(f"--devices must be at least 1, not {devices}")
    refuse_many(devices)
    variables = os.environ if environment is None else environment
    refuse_missing(command, variables)
    gpu = gpu_facts(target or parse_target(_ASSUMED))
    attempt = _Attempt(
        command=command,
        devices=devices,
        gpu=gpu,
        directory=directory,
        program=program,
        timeout_s=timeout_s,
        say=on_progress or _silent,
        contain=contain,
        variables=variables,
        cwd=cwd,
    )
    return attempt.best()


def _last_line(error: InputError) -> str:
    return (error.why or error.what).splitlines()[-1].strip()[:_FAILURE]


def _with_later(first: InputError | None, last: InputError) -> InputError:
    """Return the error of a program that failed in every try."""
    if first is None or first is last:
        return last
    again = f"started again with less that is emulated, it failed, too: {_last_line(last)}"
    return InputError(first.what, why=f"{first.why}\n       {again}", next=first.next)


def _silent(what: str) -> None:
    del what


@dataclass(slots=True)
class _Attempt:
    """A command, and the way to run it."""

    command: Sequence[str]
    devices: int
    gpu: Mapping[str, DeviceFact]
    directory: Path
    program: str | None
    timeout_s: float
    say: Say
    contain: bool
    variables: Mapping[str, str]  # that the command inherits
    cwd: Path | None
    no_layer: str = "not wanted"  # why the program does not run on one
    has_queried_backend: bool = False  # whether the program queried its backend
    has_stand_ins: bool = False  # whether a stand-in took the place of a missing package
    may_stand_in: bool = True
    failures: list[str] = field(default_factory=list[str])  # how the program failed before

    def best(self) -> Lowering:
        """Run the command as on GPUs; if it fails, with less that pretends to be there.

        If it fails in any case, the first error counts, unless a stand-in raised it: the later
        ones are of a program that chose differently, or lacks the stand-in.
        """
        backend = str(self.gpu["platform"])
        first: InputError | None = None
        while True:
            try:
                return self.lowering(backend)
            except InputError as error:
                errors = (self.directory / _STDERR).read_text("utf-8", errors="replace")
                may_differ = first is not None or not is_own_refusal(errors)
                if first is None and not is_of_stand_in(errors):
                    first = error
                if may_differ and self.has_stand_ins:
                    what, self.may_stand_in = "a stand-in for a missing package", False
                elif may_differ and self.has_queried_backend and backend != "cpu":
                    what, backend = f'the backend "{backend}"', "cpu"
                else:
                    raise _with_later(first, error) from None
                self.failures.append(f"the program fails here with {what}: {_last_line(error)}")

    def lowering(self, backend: str) -> Lowering:
        """Run the command with `jax.default_backend()` returning `backend`."""
        directory, command = self.directory, self.command
        directory.mkdir(parents=True, exist_ok=True)
        discard_layer(directory, {})  # remains of a run that was killed
        for old in (directory / OUTCOME, *directory.glob("jax_ir*.mlir")):
            old.unlink(missing_ok=True)
        journal = EmulatorReports(directory / JOURNAL, self.say)
        words = overlay_command(command, directory / JOURNAL) if self.contain else command
        try:
            with _started(words, self._environment(backend), directory, self.cwd) as process:
                status = self._watched(process, journal)
        finally:
            discarded = discard_layer(directory, journal.contained or {})
        stopped = (read_outcome(directory) or {}).get("stopped")
        if self.contain and not stopped and self._is_hindered_by_layer(status, journal):
            self.contain = False
            return self.lowering(backend)
        self.has_queried_backend = journal.has_queried_backend
        self.has_stand_ins = journal.has_stand_ins
        notes = [*journal.notes(), self._files_note(discarded, journal.refused)]
        notes = [*self.failures, *(each.note for each in self._quiet()), *notes]
        outcome = read_outcome(directory)
        if outcome is None or not outcome["stopped"]:
            self._refuse(status, outcome, journal, notes)
        if outcome is None or outcome["step"] is None:
            raise no_step(command, self.program, function_names(outcome, journal), notes)
        return read_lowering(command, directory, outcome, notes)

    def _watched(self, process: subprocess.Popen[bytes], journal: EmulatorReports) -> int | None:
        """Return the exit status; None after the timeout."""
        last = until = time.monotonic() + self.timeout_s
        limit = MemoryLimit()
        try:
            while time.monotonic() < until:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_S)
                is_new = journal.look()
                seen = function_names(None, journal)
                had = f"; it had lowered {some(seen, _SOME)}" if seen else ""
                outcome = self.directory / OUTCOME
                is_known = outcome.exists() and (read_outcome(self.directory) or {}).get("stopped")
                if is_known and (is_new or until == last):
                    after_s = _AFTER_S if journal.has_left else _SILENT_S
                    until = min(last, time.monotonic() + after_s)
                try:
                    limit.check(process.pid, shlex.join(self.command), had)
                except InputError:
                    if is_known:
                        break
                    raise
            return None
        finally:
            journal.look()

    def _is_hindered_by_layer(self, status: int | None, journal: EmulatorReports) -> bool:
        """Return whether there is no layer, or the program fails because of a layer's limits."""
        if journal.uncontained is not None:
            self.no_layer = journal.uncontained
            return True
        if not status:
            return False
        match = _OF_LAYER.search((self.directory / _STDERR).read_text("utf-8", errors="replace"))
        if match:
            self.no_layer = f"the program fails on one: {match[0]}"
        return match is not None

    def _files_note(self, discarded: Sequence[str], refused: Sequence[str]) -> str:
        """Describe how the program was kept from the user's files."""
        if not self.contain:
            return (
                "your files were protected only from Python's own writes: no temporary layer over"
                f" them ({self.no_layer})"
            )
        gone = (
            f"its writes were discarded: {first_names(discarded)}"
            if discarded
            else "it wrote nothing"
        )
        apart = f", but for {first_names(refused)}" if refused else ""
        return f"the program ran on a temporary layer over your files (overlayfs){apart}; {gone}"

    def _refuse(
        self,
        status: int | None,
        outcome: dict[str, Any] | None,
        journal: EmulatorReports,
        notes: Sequence[str],
    ) -> None:
        """Raise the error for a program that did not end successfully."""
        seen = function_names(outcome, journal)
        if journal.unusable is not None:
            raise unusable(self.command, journal.unusable)
        if journal.unstartable is not None:
            raise UsageError(f"{self.command[0]} can't be started: {journal.unstartable}")
        if status is None:
            raise too_long(self.command, self.timeout_s, seen)
        if status != 0:
            errors = (self.directory / _STDERR).read_text(encoding="utf-8", errors="replace")
            circumstances = [
                *notes,
                f"on {self.devices:,} virtual device{'s' * (self.devices != 1)}",
            ]
            raise failed(self.command, status, errors, seen, circumstances)
        if not journal.has_begun:
            raise no_jax(self.command)

    def _quiet(self) -> tuple[QuietVariable, ...]:
        """Return the variables that keep the trainer from timing kernels on these devices."""
        trainer = find_trainer(self.command)
        variables = trainer.measures if trainer else ()
        return tuple(each for each in variables if each.name not in self.variables)

    def _environment(self, backend: str) -> dict[str, str]:
        task = {
            "devices": self.devices,
            "gpu": self.gpu,
            "directory": str(self.directory.absolute()),
            "program": self.program,
            "backend": backend,
            "stand_ins": self.may_stand_in,
            "asker": os.getpid(),
            "passed": {
                name: value for name, value in self.variables.items() if name.startswith(NOTED)
            }
            | {"JAX_PLATFORMS": "cpu"},
        }
        return {
            **self.variables,
            **{each.name: each.value for each in self._quiet()},
            **injected(self.variables, _EMULATOR),
            "JAX_PLATFORMS": "cpu",
            TASK: json.dumps(task),
        }


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, cwd: Path | None
) -> Generator[subprocess.Popen[bytes]]:
    """Start the program in its own session, which ends with this process in any case."""
    with (directory / _STDOUT).open("wb") as out, (directory / _STDERR).open("wb") as err:
        try:
            process = subprocess.Popen(  # noqa: S603  the user's own command
                command,
                env=environment,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as failure:
            raise UsageError(
                f"{command[0]} can't be started: {failure.strerror or failure}"
            ) from failure
    try:
        with _ended_by_signals():
            yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let signals that would kill this process end the program first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    del frame
    raise SystemExit(128 + number)
