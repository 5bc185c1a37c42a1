"""The agent's files: RANK/agent/process-<pid>.json and lines of steps and compiles.

Lines are kept in memory and written by the caller of `flush`, at most a second later: a step costs
an append. The process file is replaced whole, so a reader never sees half of it. No fsync: the
kernel keeps what a killed process wrote, and after a killed machine nobody reads it.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from .steps import StepKind, step_as_json

_FAILURES = 20  # maximum number recorded; repeats of the same one add nothing


class AgentLog:
    """Writes for one process."""

    def __init__(self, directory: str, pid: int) -> None:
        self.rank = Path(directory)
        self.directory = self.rank / "agent"
        self.failures: list[str] = []
        self._pid = pid
        self._steps: list[Any] = []  # flat, as in StepLog
        self._compiles: list[dict[str, Any]] = []
        self._lock = threading.RLock()  # a signal handler may run while it is held

    def open(self) -> None:
        """Create the output directory."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def step(self, kind: StepKind, step: int | None, start_s: float, wall_s: float) -> None:
        """Record the start of a step."""
        self._steps += (kind, step, start_s, wall_s)

    def compiled(self, about: dict[str, Any]) -> None:
        """Record a compile."""
        self._compiles.append(about)

    def failed(self, what: str) -> None:
        """Record a failure of the agent itself."""
        if len(self.failures) < _FAILURES:
            self.failures.append(what)

    def flush(self) -> None:
        """Write the lines recorded so far."""
        with self._lock:
            steps, compiles = (
                len(self._steps),
                len(self._compiles),
            )  # more may be added
            parts = [self._steps[part:steps:4] for part in range(4)]
            compiled = self._compiles[:compiles]
            del self._steps[:steps]  # even if they can't be written: a disk may stay full
            del self._compiles[:compiles]
            self._append("compiles", list(map(json.dumps, compiled)))
            self._append("steps", list(map(step_as_json, *parts)))

    def _append(self, kind: str, lines: list[str]) -> None:
        if not lines:
            return
        with (self.directory / f"{kind}-{self._pid}.jsonl").open("a", encoding="utf-8") as file:
            file.write("\n".join((*lines, "")))

    def write(self, facts: dict[str, Any]) -> None:
        """Replace the process file."""
        target = self.directory / f"process-{self._pid}.json"
        fresh = target.with_suffix(".json.new")
        with self._lock:
            fresh.write_text(json.dumps(facts, indent=1, default=str) + "\n", encoding="utf-8")
            os.replace(fresh, target)  # noqa: PTH105  pathlib's says the same
