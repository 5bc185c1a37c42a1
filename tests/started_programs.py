"""How many programs the tests of a run started: printed at its end, for whoever makes tests faster.

A Python that imports nothing costs a tenth of a second, one that imports JAX one to two seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

_KEY: Final = "started_programs"


class StartedPrograms:
    """Counts in each of pytest's workers, and adds up in the process that they report to."""

    def __init__(self) -> None:
        self._programs = 0
        self._pythons = 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            self._programs += 1
            self._pythons += "python" in Path(str(arguments[0])).name

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        programs, pythons = getattr(node, "workeroutput", {}).get(_KEY, (0, 0))
        self._programs += programs
        self._pythons += pythons

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = (self._programs, self._pythons)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"{self._programs} programs were started, {self._pythons} of them Python"
        )
