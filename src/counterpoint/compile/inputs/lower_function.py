"""`lower_function`: a function of a file, lowered for any number of devices in a child process.

    def make_step(devices):              # of file.py; any name
        mesh = jax.make_mesh((devices,), ("data",))
        return step, (state, batch)      # a function and its abstract arguments, or a Workload

`counterpoint predict file.py:make_step --target 64x8xH100` calls it with 512. The child sees that
many CPU devices, so a mesh of `jax.devices()` is as large; arguments are shapes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from counterpoint.compile.inputs.workload import Workload, load_workload
from counterpoint.compile.installed import require_compiler
from counterpoint.core.errors import CounterpointError, InputError, UsageError

OUTCOME: Final = "function.json"
_PLACE: Final = re.compile(r"(?P<home>[^:]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")
_LINES: Final = 16
_UNEVEN: Final = re.compile(
    r"array axis (?P<axis>\d+) is partitioned (?P<parts>\d+) times, but the dimension size is"
    r" (?P<size>\d+) \(full shape: (?P<shape>\([\d, ]+\))"
)
_FAILED: Final = 3


def names_function(text: str) -> bool:
    """Whether this is `file.py:function` or `package.module:function`."""
    return _PLACE.fullmatch(text) is not None and not Path(text).exists()


def lower_function(
    text: str, *, devices: int, directory: Path, timeout_s: float = 900.0
) -> Workload:
    """Call `file.py:function` with a number of devices, and lower what it returns."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text}: not a function of a file", next="file.py:make_step")
    if devices < 1:
        raise UsageError(f"--devices takes a number from 1 on, not {devices}")
    home = found["home"]
    if home.endswith(".py") and not Path(home).is_file():
        raise UsageError(
            f"{home}: there is no such file",
            why=f"{text} is the function {found['name']} of it, and paths start at {Path.cwd()}",
            next="counterpoint predict path/to/file.py:make_step --target 8xH100",
        )
    require_compiler()
    directory.mkdir(parents=True, exist_ok=True)
    (directory / OUTCOME).unlink(missing_ok=True)
    worker = "counterpoint.compile.inputs.function_worker"
    command = [sys.executable, "-P", "-m", worker, str(directory)]
    try:
        done = subprocess.run(  # noqa: S603  our own module in our own interpreter
            [*command, home, found["name"], str(devices)],
            env=_environment(devices),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{text}({devices}) was not lowered within {timeout_s:g} s and was ended",
            why="it should make shapes (jax.eval_shape, jax.ShapeDtypeStruct), not arrays",
            next=f"--timeout {10 * timeout_s:g}",
        ) from None
    if done.returncode != 0:
        raise _failure(text, devices, directory, done.stderr.decode(errors="replace"))
    return load_workload(directory / _outcome(directory)["module"])


def _environment(devices: int) -> dict[str, str]:
    """As many CPU devices as asked for, whatever the caller has set."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))
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
        told: dict[str, str] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told


def _failure(text: str, devices: int, directory: Path, errors: str) -> CounterpointError:
    told = _outcome(directory)
    if "what" in told:
        kind = UsageError if told["kind"] == "usage" else InputError
        return kind(
            f"{text}: {told['what']}", why=told.get("why") or None, next=told.get("next") or None
        )
    uneven = _UNEVEN.search(errors)
    if uneven is not None:
        return InputError(
            f"{text}({devices}): {uneven['size']} does not divide by {uneven['parts']}",
            why=f"axis {uneven['axis']} of an array {uneven['shape']} is to lie on"
            f" {uneven['parts']} devices, and JAX wants even shards",
            next="devices that divide it (--target, --devices), or another mesh",
        )
    lines = [line for line in errors.splitlines() if line.strip()][-_LINES:]
    return InputError(
        f"{text}({devices}) failed",
        why="\n       ".join(lines) or "it printed nothing",
        next="call it in a Python of your own, with JAX_PLATFORMS=cpu",
    )
