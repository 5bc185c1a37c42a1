"""Runs many compiles at once in worker processes, and returns each when it is done.

A crash, a lack of memory or a timeout fails only its own compile. Each worker has its own slot,
where it compiles one task after another. A compile that is killed while others run may be a victim
of their memory use: it is retried when nothing else runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Self, TypeAlias

from counterpoint.compile.cache import fingerprint
from counterpoint.compile.capacity import usual_jobs
from counterpoint.compile.compiler import CompiledProgram, cached_compile, compile_on
from counterpoint.compile.failures import CompileKilled
from counterpoint.compile.task import CompileTask
from counterpoint.compile.worker_slot import SlotStopped, WorkerSlot
from counterpoint.core import ArgumentError, CounterpointError

CompileResult: TypeAlias = CompiledProgram | CounterpointError
"""A compile, or its error: CompileFailed, or an invalid option, program or target."""


class WorkerThreads:
    """Threads that each drive one worker. `several`: a worker gets more than one task."""

    def __init__(self, jobs: int, *, several: bool = True) -> None:
        self._done: SimpleQueue[tuple[int, CompileResult | BaseException]] = SimpleQueue()
        self._waiting: SimpleQueue[tuple[int, CompileTask] | None] = SimpleQueue()
        self._slots = [WorkerSlot(shares_kernels=several) for _ in range(jobs)]
        self._threads = [
            Thread(target=self._serve, args=(slot,), daemon=True) for slot in self._slots
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask(self, number: int, task: CompileTask) -> None:
        """Queue a task to be compiled."""
        self._waiting.put((number, task))

    def no_more(self) -> None:
        """Mark the end of the queue: each worker ends as soon as the queue is empty."""
        for _ in self._threads:
            self._waiting.put(None)

    def take(self, timeout_s: float | None = None) -> tuple[int, CompileResult]:
        """Return the next result; raise queue.Empty after the timeout."""
        number, result = self._done.get(timeout=timeout_s)
        if not isinstance(result, (CompiledProgram, CounterpointError)):
            raise result
        return number, result

    def stop(self) -> None:
        """End all workers, and remove their files."""
        for slot in self._slots:
            slot.stop()
        self.no_more()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _serve(self, slot: WorkerSlot) -> None:
        number = -1
        try:
            with slot:
                while (entry := self._waiting.get()) is not None:
                    number, task = entry
                    self._done.put((number, self._result(slot, task)))
        except SlotStopped:
            return
        except BaseException as error:  # noqa: BLE001  a programming error, raised to the caller
            self._done.put((number, error))

    def _result(self, slot: WorkerSlot, task: CompileTask) -> CompileResult:
        try:
            return cached_compile(task) or compile_on(slot, task)
        except CounterpointError as error:
            return error


def compile_all(
    tasks: Sequence[CompileTask],
    jobs: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[int, CompileResult]]:
    """Yield each task's number and result, in the order of completion.

    `jobs` workers run at once; None: as many as cores and memory allow. `say` receives progress.
    Closing the iterator (a break, Ctrl-C) ends all workers. Equal tasks are compiled once.
    """
    tpus = any(task.target.tpu is not None for task in tasks)
    return _spread(list(tasks), _jobs(jobs, tpus=tpus), say)


class Pool:
    """Compiles tasks that are added one after another; its workers stay until it is closed.

    It is for callers that choose the next compile from the last result, and would otherwise pay
    for the start of Python and JAX again and again. Use it in one thread.
    """

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = _jobs(jobs)
        self._threads = WorkerThreads(self.jobs)
        self._tasks: dict[int, CompileTask] = {}  # in progress, by number
        self._killed: list[int] = []  # to be retried when nothing else runs
        self._alone: int | None = None

    def __enter__(self) -> Self:
        self._threads.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.stop()

    def ask(self, number: int, task: CompileTask) -> None:
        """Compile the task when a worker is free; the result comes back with this number."""
        self._tasks[number] = task
        self._threads.ask(number, task)

    def take(self, timeout_s: float) -> tuple[int, CompileResult] | None:
        """Return the next result; None if there is none in that time."""
        if self._killed and len(self._tasks) == len(self._killed) and self._alone is None:
            self._alone = self._killed[0]
            self._threads.ask(self._alone, self._tasks[self._alone])
        try:
            number, result = self._threads.take(timeout_s)
        except Empty:
            return None
        if isinstance(result, CompileKilled) and self.jobs > 1 and number != self._alone:
            self._killed.append(number)
            return None
        if number == self._alone:
            self._alone = None
            self._killed.remove(number)
        del self._tasks[number]
        return number, result


def _jobs(jobs: int | None, *, tpus: bool = False) -> int:
    if jobs is not None and jobs < 1:
        raise ArgumentError("jobs", jobs, "at least one worker is needed", instead=1)
    return jobs or usual_jobs(tpus=tpus)


def _spread(
    tasks: list[CompileTask], jobs: int, say: Callable[[str], None]
) -> Iterator[tuple[int, CompileResult]]:
    equal = _equal(tasks)
    done, fresh, started = 0, 0, time.monotonic()
    for first, result in _compiled(tasks, list(equal), jobs):
        done += len(equal[first])
        rest = len(tasks) - done
        if isinstance(result, CounterpointError):
            how = "failed"
        elif result.from_cache:
            how = "from the cache"
        else:
            fresh += len(equal[first])
            how = f"{result.seconds:.1f} s"
        # Only real compiles show how long compiles take: errors and cache hits return at once.
        pace = (time.monotonic() - started) / fresh if fresh else 0.0
        others = f"; about {pace:.0f} s for each of the rest" if fresh and rest else ""
        say(f"compiled {done} of {len(tasks)} ({how}{others})")
        for index in equal[first]:
            yield index, result


def _equal(tasks: list[CompileTask]) -> dict[int, list[int]]:
    """Return the indices of equal tasks, by the index of the first of them."""
    firsts: dict[str, int] = {}
    groups: dict[int, list[int]] = {}
    for index, task in enumerate(tasks):
        name = fingerprint(task)
        first = firsts.setdefault(name, index) if name else index
        groups.setdefault(first, []).append(index)
    return groups


def _compiled(
    tasks: list[CompileTask], wanted: list[int], jobs: int
) -> Iterator[tuple[int, CompileResult]]:
    together = min(jobs, len(wanted))
    killed: list[int] = []
    for index, result in _round(tasks, wanted, together):
        if together > 1 and isinstance(result, CompileKilled):
            killed.append(index)
        else:
            yield index, result
    if killed:
        yield from _round(tasks, killed, 1)


def _round(
    tasks: list[CompileTask], wanted: list[int], jobs: int
) -> Iterator[tuple[int, CompileResult]]:
    workers = WorkerThreads(jobs, several=len(wanted) > jobs)
    try:
        for index in wanted:
            workers.ask(index, tasks[index])
        workers.no_more()
        workers.start()
        for _ in wanted:
            yield workers.take()
    finally:
        workers.stop()
