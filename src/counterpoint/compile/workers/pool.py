"""Many compiles at once, in worker processes: each comes back when it is through.

A crash, a lack of memory or a time limit of one is an error of that one alone. Each worker has a
bench of its own, and compiles one task after another there. One that is killed while others run may
have fallen to their memory: it is tried again when nothing else runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

from counterpoint.compile.compiled import Compiled
from counterpoint.compile.compiler import compile_on, known
from counterpoint.compile.failures import CompileKilled
from counterpoint.compile.fingerprint import fingerprint
from counterpoint.compile.task import Task
from counterpoint.compile.workers.bench import Bench, Stopped
from counterpoint.compile.workers.capacity import usual_jobs
from counterpoint.core.errors import CounterpointError, UsageError

Result: TypeAlias = Compiled | CounterpointError
"""A compile, or why there is none: CompileFailed, or an option, program or target at fault."""


def compile_all(
    tasks: Sequence[Task],
    jobs: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[int, Result]]:
    """Each task's number and result, in the order in which they get through.

    `jobs` workers run at once; None: as many as cores and memory allow. `say` hears of progress.
    Whoever stops listening (a break, Ctrl-C) ends all workers. Equal tasks are compiled once.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: at least one worker has to compile", next="--jobs 1")
    return _spread(list(tasks), jobs or usual_jobs(), say)


def _spread(
    tasks: list[Task], jobs: int, say: Callable[[str], None]
) -> Iterator[tuple[int, Result]]:
    equal = _equal(tasks)
    done, started = 0, time.monotonic()
    for first, result in _compiled(tasks, list(equal), jobs):
        done += len(equal[first])
        how = (
            "from the cache"
            if isinstance(result, Compiled) and result.from_cache
            else ("failed" if isinstance(result, CounterpointError) else f"{result.seconds:.1f} s")
        )
        say(f"compiled {done} of {len(tasks)} ({how}; {time.monotonic() - started:.0f} s so far)")
        for index in equal[first]:
            yield index, result


def _equal(tasks: list[Task]) -> dict[int, list[int]]:
    """Numbers of equal tasks, by the first of them."""
    firsts: dict[str, int] = {}
    groups: dict[int, list[int]] = {}
    for index, task in enumerate(tasks):
        name = fingerprint(task)
        first = firsts.setdefault(name, index) if name else index
        groups.setdefault(first, []).append(index)
    return groups


def _compiled(tasks: list[Task], wanted: list[int], jobs: int) -> Iterator[tuple[int, Result]]:
    together = min(jobs, len(wanted))
    killed: list[int] = []
    for index, result in _round(tasks, wanted, together):
        if together > 1 and isinstance(result, CompileKilled):
            killed.append(index)
        else:
            yield index, result
    if killed:
        yield from _round(tasks, killed, 1)


def _round(tasks: list[Task], wanted: list[int], jobs: int) -> Iterator[tuple[int, Result]]:
    crew = _Crew(tasks, wanted, jobs)
    try:
        crew.start()
        for _ in wanted:
            index, result = crew.done.get()
            if not isinstance(result, (Compiled, CounterpointError)):
                raise result
            yield index, result
    finally:
        crew.stop()


class _Crew:
    """Threads that wait for a worker each."""

    def __init__(self, tasks: list[Task], wanted: list[int], jobs: int) -> None:
        self.done: SimpleQueue[tuple[int, Result | BaseException]] = SimpleQueue()
        self._tasks = tasks
        self._waiting: SimpleQueue[int] = SimpleQueue()
        for index in wanted:
            self._waiting.put(index)
        self._benches = [Bench() for _ in range(jobs)]
        self._threads = [
            Thread(target=self._serve, args=(bench,), daemon=True) for bench in self._benches
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all workers, and leave nothing."""
        for bench in self._benches:
            bench.stop()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _serve(self, bench: Bench) -> None:
        index = -1
        try:
            with bench:
                while True:
                    index = self._waiting.get_nowait()
                    self.done.put((index, self._result(bench, self._tasks[index])))
        except (Empty, Stopped):
            return
        except BaseException as error:  # noqa: BLE001  a programmer's, raised where it is seen
            self.done.put((index, error))

    def _result(self, bench: Bench, task: Task) -> Result:
        try:
            return known(task) or compile_on(bench, task)
        except CounterpointError as error:
            return error
