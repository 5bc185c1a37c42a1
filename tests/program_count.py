"""What the tests of a run cost, counted: that, and not a clock, keeps the suite fast.

A program that is started costs a tenth of a second, one that imports JAX a whole one, a compile
two, and an explanation a tenth. The counts are of the tests that were run, so a part of the suite
never has too many.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

import pytest

MOST_STARTING = 874
"""Tests that start programs, all fixtures that they are first to need counted in."""
MOST_COMPILING_ANEW = 43
"""Tests that do without the cache of this run: `compiled_anew`."""
MOST_PROGRAMS = 1337
"""Pythons that they start themselves; how often a queue is asked depends on the time it takes."""
MOST_COMPILES = 152
"""Compiles that the cache of this run keeps, so each was made once."""
MOST_EXPLANATIONS = 600
"""Steps that are explained in the processes of the tests."""

_STARTING: Final = "tests started programs"
_ANEW: Final = "compiled without the cache"
_PROGRAMS: Final = "Pythons were started"
_COMPILES: Final = "compiles were kept"
_EXPLANATIONS: Final = "steps were explained"
LIMITS: Final = {
    _STARTING: (MOST_STARTING, "use in_process of tests/command_line.py, or RunDirectory.once"),
    _ANEW: (MOST_COMPILING_ANEW, "compile without `compiled_anew`"),
    _PROGRAMS: (MOST_PROGRAMS, "use in_process of tests/command_line.py, or RunDirectory.once"),
    _COMPILES: (MOST_COMPILES, "compile what another test compiles, or share a compile"),
    _EXPLANATIONS: (MOST_EXPLANATIONS, "explain once what several tests look at"),
}
"""How many there may be of each, and what to do instead of one more."""

P = ParamSpec("P")
T = TypeVar("T")


class ProgramCount:
    """Counts in each of pytest's workers, and adds up and judges where the workers report to."""

    def __init__(self) -> None:
        self._now: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._cache: Path | None = None
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "subprocess.Popen":
            self._now[_STARTING] = 1
            self._now[_PROGRAMS] += "python" in Path(str(arguments[0])).name

    def explaining(self, function: Callable[P, T]) -> Callable[P, T]:
        """The same function, whose calls are counted as explanations."""

        def counted(*args: P.args, **kwargs: P.kwargs) -> T:
            self._now[_EXPLANATIONS] += 1
            return function(*args, **kwargs)

        return counted

    def compiling(self, cache: Path) -> None:
        """Name the cache that all workers of this run share."""
        self._cache = cache

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._now.clear()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._now[_ANEW] = int("compiled_anew" in getattr(item, "fixturenames", ()))
        item.user_properties += [(name, count) for name, count in self._now.items() if count]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, count in report.user_properties:
                if name in LIMITS and isinstance(count, int):
                    self._counts[name] += count

    @property
    def kept(self) -> int:
        """How many compiles the cache holds."""
        return sum(1 for _ in self._cache.rglob("*.zip")) if self._cache is not None else 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Of all workers the last one to end has seen all compiles."""
        kept = getattr(node, "workeroutput", {}).get(_COMPILES, 0)
        self._counts[_COMPILES] = max(self._counts[_COMPILES], kept)

    @property
    def excess(self) -> list[str]:
        """A sentence for each count that has grown."""
        return [
            f"{self._counts[name]} {name}, {most} at most are to: {instead}"
            for name, (most, instead) in LIMITS.items()
            if self._counts[name] > most
        ]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_COMPILES] = self.kept
            return
        self._counts[_COMPILES] = max(self._counts[_COMPILES], self.kept)
        if self.excess and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        line = ", ".join(f"{self._counts[name]} {name}" for name in LIMITS)
        terminalreporter.write_line(line)
        for sentence in self.excess:
            terminalreporter.write_line(f"error: {sentence}", red=True)
