"""Tasks in processes of this machine; one that dies is replaced, and its task is run again.

Fresh interpreters, not forks: polars has threads, and a fork with threads may hang.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final, cast

from counterpoint.core.scratch import scratch_directory
from counterpoint.core.threads import cores
from counterpoint.fleet.tasks import ATTEMPTS, EXTRACTS, Order, Reduction, reduce_profile

__all__ = ["LocalExecutor", "serve"]

_SERVE: Final = "from counterpoint.fleet.local import serve; serve()"


class LocalExecutor:
    """As many processes as there are cores, or `workers`."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self.retried = 0

    def run(
        self, names: Sequence[str], memory_bytes: int, order: Order = EXTRACTS
    ) -> Generator[Reduction]:
        """Yield the outcome of each task, in any order."""
        count = max(1, min(self.workers, len(names)))
        tasks: SimpleQueue[str | None] = SimpleQueue()
        answers: SimpleQueue[Reduction | BaseException] = SimpleQueue()
        for name in names:
            tasks.put(name)
        for _ in range(count):
            tasks.put(None)
        with ExitStack() as stack:
            directory = stack.enter_context(scratch_directory("fleet"))
            crew = [
                _Worker(self, tasks, answers, directory / str(number), memory_bytes // count, order)
                for number in range(count)
            ]
            for worker in crew:
                stack.callback(worker.end)
                worker.start()
            for _ in names:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield answer


class _Worker(threading.Thread):
    """A thread that gives tasks to one process, and starts another if it dies."""

    def __init__(
        self,
        executor: LocalExecutor,
        tasks: SimpleQueue[str | None],
        answers: SimpleQueue[Reduction | BaseException],
        place: Path,
        memory_bytes: int,
        order: Order,
    ) -> None:
        super().__init__(name=f"fleet-{place.name}", daemon=True)
        self._executor, self._tasks, self._answers = executor, tasks, answers
        self._place, self._memory_bytes, self._order = place, memory_bytes, order
        self._process: subprocess.Popen[str] | None = None
        self._over = False

    def run(self) -> None:
        """Work until there are no more tasks."""
        try:
            while not self._over and (name := self._tasks.get()) is not None:
                self._answers.put(self._reduced(name))
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits
            self._answers.put(failure)
        self.end()

    def _reduced(self, name: str) -> Reduction:
        how = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._executor.retried += 1
            process = self._process = self._process or _started(self._executor.workers)
            answer = self._ask(process, name)
            if answer is not None:
                return answer
            self._process = None
            with suppress(BrokenPipeError), process:  # closes the pipes, too
                code = process.wait()
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if self._over:
                break
        what = f"{name}: the process that read it died {ATTEMPTS} times, at last with {how}"
        why = "there may not be enough memory for it"
        return Reduction(name=name, failure=(what, why, None))

    def _ask(self, process: subprocess.Popen[str], name: str) -> Reduction | None:
        task = {
            "name": name,
            "memory_bytes": self._memory_bytes,
            "order": asdict(self._order),
            "place": str(self._place),
        }
        tasks, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
        try:
            tasks.write(json.dumps(task) + "\n")
            tasks.flush()
            line = answers.readline()
        except OSError:
            return None
        if not line.endswith("\n"):
            return None
        answer = json.loads(line)
        has_product = answer.pop("has_product")
        if answer["failure"] is not None:
            answer["failure"] = tuple(answer["failure"])
        return Reduction(**answer, product=self._place.read_bytes() if has_product else None)

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self._over = True
        process, self._process = self._process, None
        if process is not None:
            with suppress(BrokenPipeError), process:
                process.kill()


def _started(workers: int) -> subprocess.Popen[str]:
    # The child must find the package where this process finds it.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
    threads = str(max(1, cores() // workers))
    return subprocess.Popen(  # noqa: S603  our own module and interpreter
        [sys.executable, "-P", "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "POLARS_MAX_THREADS": threads, "PYTHONPATH": path},
        process_group=0,  # Ctrl-C is handled here
    )


def serve() -> None:
    """Do tasks for another process, until stdin ends: a line of JSON each, and one as the answer.

    The product goes to the file that the task names.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        task = json.loads(line)
        outcome = reduce_profile(task["name"], task["memory_bytes"], Order(**task["order"]))
        if outcome.product is not None:
            Path(task["place"]).write_bytes(outcome.product)
        told = {**asdict(outcome), "product": None, "has_product": outcome.product is not None}
        del told["product"]
        sys.stdout.write(json.dumps(told, default=str) + "\n")
        sys.stdout.flush()
