"""Reads several profiles in parallel processes, yielded in order.

Fresh interpreters, not forks: polars has threads, and a fork with threads may hang. Recordings are
passed as Arrow files in a temporary directory, which is always removed at the end, as are the
processes. Recordings read ahead take no memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, cast

from counterpoint.core import InputError
from counterpoint.timeline.source import ProfileSource
from counterpoint.timeline.storage.parquet import open_parcel
from counterpoint.timeline.tables.recording import Recording

SourceProgress = Callable[[int, int, int], None]
"""Callback that receives the number of the source, the bytes of it done, and its total bytes."""

_MODULE: Final = "counterpoint.timeline.reading_process"
_ALONE: Final = "--jobs 1"


_WORTH: Final = 32 << 20
"""Number of bytes that take about as long to read as it takes to start a process."""


def worthwhile_jobs(sources: Sequence[ProfileSource]) -> int:
    """Return how many processes are worthwhile: at most one per core, and fewer for little data."""
    size = sum(source.path.stat().st_size for source in sources if source.is_file)
    return max(1, min(_cores(), len(sources), size // _WORTH))


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class _ReaderProcess:
    """One process, and the pipes to it."""

    process: subprocess.Popen[str]
    tasks: IO[str]
    answers: IO[str]


def read_in_parallel(
    sources: Sequence[ProfileSource], jobs: int, tell: SourceProgress
) -> Iterator[list[Recording] | InputError]:
    """Yield the Recordings of each source, or the error that prevents reading it, in order."""
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="counterpoint-", ignore_cleanup_errors=True)
            )
        )
        (directory / "hlo").mkdir()
        free: SimpleQueue[_ReaderProcess] = SimpleQueue()
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for _ in range(jobs):
            reader = _start(directory, jobs)
            stack.callback(_stop, reader)
            free.put(reader)

        def read(number: int) -> list[Path] | InputError:
            reader = free.get()
            try:
                return _ask(reader, sources[number], number, directory, tell)
            finally:
                free.put(reader)

        waiting = [pool.submit(read, number) for number in range(len(sources))]
        stack.callback(_forget, waiting)
        known: dict[str, bytes] = {}
        for future in waiting:
            result = future.result()
            if isinstance(result, InputError):
                yield result
            else:
                yield [_fetch(place, directory, known) for place in result]


def _start(directory: Path, jobs: int) -> _ReaderProcess:
    threads = max(1, _cores() // jobs)
    # The child must find the package where this process finds it.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
    process = subprocess.Popen(  # noqa: S603  our own module and interpreter
        [sys.executable, "-P", "-m", _MODULE, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "POLARS_MAX_THREADS": str(threads), "PYTHONPATH": path},
        process_group=0,  # Ctrl-C is handled here; the child need not know which files to clean up
    )
    return _ReaderProcess(process, cast("IO[str]", process.stdin), cast("IO[str]", process.stdout))


def _stop(reader: _ReaderProcess) -> None:
    """End a process and close the pipes, even if it died with a task still in the pipe."""
    with suppress(BrokenPipeError), reader.process as process:
        process.kill()


def _forget(waiting: Sequence[Future[Any]]) -> None:
    for future in waiting:
        future.cancel()


def _ask(
    reader: _ReaderProcess,
    source: ProfileSource,
    number: int,
    directory: Path,
    tell: SourceProgress,
) -> list[Path] | InputError:
    try:
        reader.tasks.write(json.dumps({"name": source.name, "number": number}) + "\n")
        reader.tasks.flush()
    except OSError:
        raise _died(reader, source) from None
    for line in reader.answers:
        answer: dict[str, Any] = json.loads(line)
        if "at" in answer:
            tell(number, answer["at"], answer["of"])
        elif "failed" in answer:
            what, why, then = answer["failed"]
            return InputError(what, why=why, next=then)
        elif "lost" in answer:
            raise InputError(
                f"{source.name}: what was read could not be kept in {directory.parent}",
                why=answer["lost"],
                next=_ALONE,
            )
        else:
            tell(number, 1, 1)
            return [directory / f"{number}-{part}" for part in range(answer["made"])]
    raise _died(reader, source)


def _died(reader: _ReaderProcess, source: ProfileSource) -> InputError:
    code = reader.process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return InputError(
        f"{source.name}: the process that read it ended early ({how})",
        why="memory may not have sufficed for several at a time"
        if code < 0
        else "what it wrote to stderr tells why",
        next=_ALONE,
    )


def _fetch(place: Path, directory: Path, known: dict[str, bytes]) -> Recording:
    recording = open_parcel(place, directory / "hlo", known)
    shutil.rmtree(place)
    return recording
