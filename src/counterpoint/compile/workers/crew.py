"""Crew: threads with a bench each, where one task after another is compiled."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

from counterpoint.compile.compiled import Compiled
from counterpoint.compile.compiler import compile_on, known
from counterpoint.compile.task import Task
from counterpoint.compile.workers.bench import Bench, Stopped
from counterpoint.core.errors import CounterpointError

Result: TypeAlias = Compiled | CounterpointError
"""A compile, or why there is none: CompileFailed, or an option, program or target at fault."""


class Crew:
    """Threads that wait for a worker each."""

    def __init__(self, jobs: int) -> None:
        self._done: SimpleQueue[tuple[int, Result | BaseException]] = SimpleQueue()
        self._waiting: SimpleQueue[tuple[int, Task] | None] = SimpleQueue()
        self._benches = [Bench() for _ in range(jobs)]
        self._threads = [
            Thread(target=self._serve, args=(bench,), daemon=True) for bench in self._benches
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask(self, number: int, task: Task) -> None:
        """Have it compiled, after those that were asked for before."""
        self._waiting.put((number, task))

    def no_more(self) -> None:
        """Nothing comes behind: let each worker go as soon as nothing is left for it."""
        for _ in self._threads:
            self._waiting.put(None)

    def take(self, timeout_s: float | None = None) -> tuple[int, Result]:
        """The next one that got through; raises queue.Empty when the time is over."""
        number, result = self._done.get(timeout=timeout_s)
        if not isinstance(result, (Compiled, CounterpointError)):
            raise result
        return number, result

    def stop(self) -> None:
        """End all workers, and leave nothing."""
        for bench in self._benches:
            bench.stop()
        self.no_more()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _serve(self, bench: Bench) -> None:
        number = -1
        try:
            with bench:
                while (asked := self._waiting.get()) is not None:
                    number, task = asked
                    self._done.put((number, self._result(bench, task)))
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001  a programmer's, raised where it is seen
            self._done.put((number, error))

    def _result(self, bench: Bench, task: Task) -> Result:
        try:
            return known(task) or compile_on(bench, task)
        except CounterpointError as error:
            return error
