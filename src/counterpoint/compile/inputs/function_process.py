"""Workloads of `file.py:function`, which is called and lowered in a child process.

The child (function_worker.py) sees as many CPU devices as the target has, so meshes have the right
size; the user's code can neither hang nor change this process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.function import CAPABILITY_VARIABLE, PLATFORM_VARIABLE
from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.interpreter import (
    Interpreter,
    environment_of,
    python_of,
    require_compiler,
)
from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.lowering import INSTALL_ABSL, NO_PALLAS, MemoryLimit

OUTCOME: Final = "function.json"
_PLACE: Final = re.compile(r"(?P<home>[^:]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_LINES: Final = 16
_STDERR: Final = "function.stderr"
_POLL_S: Final = 0.05
_UNEVEN: Final = re.compile(
    r"array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, but the dimension size is"
    r" (?P<size>\d+) \(full shape: (?P<shape>\([\d, ]+\))"
)
_WITHOUT_RULE: Final = re.compile(r"primitive '(\w+)' not found for platform (\w+)")


def names_function(text: str) -> bool:
    """Return whether this is `file.py:function` or `package.module:function`."""
    return _PLACE.fullmatch(text) is not None and not Path(text).exists()


def split_function(text: str, cwd: Path | None = None) -> tuple[str, str]:
    """Return the file or module of a function, and its name; raise if there is no such file."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text}: not of the form file.py:function", next="file.py:make_step")
    home, name = match["home"], match["name"]
    if home.endswith(".py") and not (cwd or Path()).joinpath(home).is_file():
        raise InputError(
            f"{home}: no such file",
            why=f"it was looked for in {cwd or Path.cwd()}, for its function {name}",
            next="counterpoint predict path/to/file.py:make_step --target 8xH100",
        )
    return home, name


def lower_function(  # noqa: PLR0913  the function, and what it is lowered for and by
    text: str,
    *,
    devices: int,
    directory: Path,
    timeout_s: float = 900.0,
    tpus: bool = False,
    compute_capability: str = "9.0",
    interpreter: Interpreter | None = None,
    cwd: Path | None = None,
) -> Workload:
    """Call `file.py:function` with a number of devices, and lower what it returns.

    The function returns a function and its abstract arguments, or a Workload:

        def make_step(devices):              # in file.py; any name
            mesh = jax.make_mesh((devices,), ("data",))
            return step, (state, batch)

    `counterpoint predict file.py:make_step --target 64x8xH100` calls it with 512, in a child
    process that sees that many CPU devices, so a mesh of `jax.devices()` has the right size.
    A parameter named `platform` is given "gpu" or "tpu", for kernels that only one of them has.
    `compute_capability` is that of the target's GPU, by which attention chooses its kernels.
    `interpreter` and `cwd` are the child's: by default this process's own.
    """
    home, name = split_function(text, cwd)
    if devices < 1:
        raise UsageError(f"--devices takes a number of at least 1, not {devices}")
    if interpreter is None:
        require_compiler(tpus=tpus)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / OUTCOME).unlink(missing_ok=True)
    worker = "counterpoint.compile.inputs.function_worker"
    command = [python_of(interpreter), "-P", "-m", worker, str(directory)]
    with (directory / _STDERR).open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603  our own module in our own interpreter
            [*command, home, name, str(devices)],
            env={
                **_environment(devices, interpreter),
                PLATFORM_VARIABLE: "tpu" if tpus else "cuda",
                CAPABILITY_VARIABLE: compute_capability,
            },
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            _wait(process, f"{text}({devices})", timeout_s)
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        printed = (directory / _STDERR).read_text("utf-8", errors="replace")
        raise _failure(text, devices, directory, printed)
    return load_workload(directory / _outcome(directory)["module"])


def _wait(process: subprocess.Popen[bytes], what: str, timeout_s: float) -> None:
    """Wait for the child, as long as it has time and memory."""
    limit, until = MemoryLimit(), time.monotonic() + timeout_s
    while time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
            return
        limit.check(process.pid, what)
    raise InputError(
        f"{what} was not lowered within {timeout_s:g} s and was stopped",
        why="it should make shapes (jax.eval_shape, jax.ShapeDtypeStruct), not arrays",
        next=f"use --timeout {10 * timeout_s:g}",
    )


def _environment(devices: int, interpreter: Interpreter | None) -> dict[str, str]:
    """Return an environment with this many CPU devices, whatever the caller has set."""
    inherited = {
        name: value
        for name, value in environment_of(interpreter, os.environ).items()
        if not name.startswith(("JAX_", "XLA_"))
    }
    return {
        **inherited,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_TRACEBACK_FILTERING": "quiet_remove_frames",
    }


def _outcome(directory: Path) -> dict[str, str]:
    try:
        outcome: dict[str, str] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return outcome


def _failure(text: str, devices: int, directory: Path, errors: str) -> CounterpointError:
    outcome = _outcome(directory)
    if "what" in outcome:
        kind = UsageError if outcome["kind"] == "usage" else InputError
        return kind(
            f"{text}: {outcome['what']}",
            why=outcome.get("why") or None,
            next=outcome.get("next") or None,
        )
    uneven = _UNEVEN.search(errors)
    if uneven is not None:
        return InputError(
            f"{text}({devices}): {uneven['size']} does not divide by {uneven['parts']}",
            why=f"axis {uneven['axis']} of an array {uneven['shape']} is split over"
            f" {uneven['parts']} devices, and JAX requires even shards",
            next="use a number of devices that divides it (--target, --devices), or another mesh",
        )
    without_rule = _WITHOUT_RULE.search(errors)
    if without_rule is not None:
        return InputError(
            f"{text}({devices}): JAX has no {without_rule[1]} for {without_rule[2]}",
            why="its program would end with the same error on the target",
            next="leave it out of the step, or use operations that JAX has for that platform",
        )
    lines = [line for line in errors.splitlines() if line.strip()][-_LINES:]
    remedy = (
        INSTALL_ABSL
        if NO_PALLAS.search(errors)
        else "call it in your own Python, with JAX_PLATFORMS=cpu; it has to return the step and the"
        " shapes of its arguments, such as (step, (state, batch))"
    )
    return InputError(
        f"{text}({devices}) failed",
        why="\n       ".join(lines) or "it printed nothing",
        next=remedy,
    )
