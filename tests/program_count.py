"""How many tests start a program or compile anew: that, and not a clock, keeps the suite fast.

A program that is started costs a tenth of a second, one that imports JAX a whole one, a compile
two. The counts are of the tests that were run, so a part of the suite never has too many.
"""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

MOST_STARTING = 800
"""Tests that start programs, all fixtures that they are first to need counted in."""
MOST_COMPILING_ANEW = 43
"""Tests that do without the cache of this run: `compiled_anew`."""

_STARTED = "programs started"
_ANEW = "compiled anew"


class ProgramCount:
    """Counts in each of pytest's workers, and adds up and judges where the workers report to."""

    def __init__(self) -> None:
        self._now = 0
        self._counts = {_STARTED: 0, _ANEW: 0}
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        del arguments
        self._now += event == "subprocess.Popen"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._now = 0
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if self._now:
            item.user_properties.append((_STARTED, self._now))
        if "compiled_anew" in getattr(item, "fixturenames", ()):
            item.user_properties.append((_ANEW, 1))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name in {name for name, _ in report.user_properties} & self._counts.keys():
                self._counts[name] += 1

    @property
    def excess(self) -> list[str]:
        """A sentence for each count that has grown."""
        starting, anew = self._counts[_STARTED], self._counts[_ANEW]
        found: list[str] = []
        if starting > MOST_STARTING:
            found.append(
                f"{starting} tests start programs, {MOST_STARTING} at most are to: "
                "use in_process of tests/command_line.py, or RunDirectory.once"
            )
        if anew > MOST_COMPILING_ANEW:
            found.append(
                f"{anew} tests compile without the cache, {MOST_COMPILING_ANEW} at most are to"
            )
        return found

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.excess and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        starting, anew = self._counts[_STARTED], self._counts[_ANEW]
        terminalreporter.write_line(
            f"{starting} tests started programs, {anew} compiled without the cache"
        )
        for line in self.excess:
            terminalreporter.write_line(f"error: {line}", red=True)
