"""Enters the program's process and pretends to provide its devices, until its step is known.

This package and all it imports is loaded by its path (`core/injection`) into an interpreter that
may lack Counterpoint: the standard library of Python 3.9, and relative imports only. Read
`step_finder` first, then `fake_execution`; all use of JAX's internals is in `jax_internals`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TASK = "COUNTERPOINT_LOWERING"
"""The task, as JSON: `devices`, `gpu`, `directory`, `program`, `backend`, `stand_ins`,
`asker`, `passed`."""

OUTCOME = "lowered.json"
JOURNAL = "journal.jsonl"


def enter(
    when_loaded: Callable[[str, Callable[[], None], Callable[[], None]], None],
    keep_variables: Callable[..., Any],
) -> None:
    """Prepare this process, before jax is imported."""
    from . import virtual_devices
    from .function import lower_for
    from .gpu_attributes import VirtualGpu
    from .write_guard import WriteGuard

    task = json.loads(os.environ[TASK])
    gpu = VirtualGpu(task["gpu"], task["devices"])
    lower_for(gpu.platform)
    virtual_devices.prepare(task["devices"], task["backend"], gpu)
    _end_with(task["asker"])
    kept = keep_variables(passed=task["passed"])
    kept.install()
    directory = Path(task["directory"])
    guard = WriteGuard(directory, _contained(directory), lambda line: write_line(directory, line))
    guard.install()

    def begin() -> None:
        from . import step_finder

        kept.compare("jax")
        try:
            step_finder.begin(sys.modules["jax"], task, guard, kept)
        except Exception as error:  # noqa: BLE001  without us the program would train
            write_line(directory, {"event": "unusable", "name": str(error) or repr(error)})
            os._exit(1)

    when_loaded("jax", begin, kept.restore)


def _contained(directory: Path) -> list[str]:
    """Return the directories whose files are on a temporary layer: `containment`."""
    with (directory / JOURNAL).open(encoding="utf-8") as journal:
        lines = [json.loads(line) for line in journal if '"contained"' in line]
    return [place for line in lines for place in line.get("places", {}).values()]


def write_line(directory: Path, line: dict[str, object]) -> None:
    """Add a line to the journal, which `predict` reads concurrently."""
    with (directory / JOURNAL).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _end_with(pid: int) -> None:
    """Once `pid` has ended, end this whole process group: it has its own session."""
    with suppress(OSError, AttributeError):  # a kernel before 5.3
        handle = os.pidfd_open(pid)
        threading.Thread(target=_wait, args=(handle,), daemon=True).start()


def _wait(handle: int) -> None:
    select.select([handle], [], [])
    os.killpg(os.getpgrp(), signal.SIGKILL)
