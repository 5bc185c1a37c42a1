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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, astuple, dataclass, fields
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, cast

import polars as pl

from counterpoint.core import Basis, InputError, Range
from counterpoint.core.scratch import scratch_directory
from counterpoint.core.threads import cores
from counterpoint.timeline.model import Device, EmbeddedProgram
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.source import ProfileSource

SourceProgress = Callable[[int, int, int], None]
"""Callback that receives the number of the source, the bytes of it done, and its total bytes."""

_SERVE: Final = "from counterpoint.timeline.reading import serve; serve()"
_ALONE: Final = "use --jobs 1"


_WORTH: Final = 32 << 20
"""Number of bytes that take about as long to read as it takes to start a process."""


def worthwhile_jobs(sources: Sequence[ProfileSource]) -> int:
    """Return how many processes are worthwhile: at most one per core, and fewer for little data."""
    size = sum(size_of(source) for source in sources)
    return max(1, min(cores(), len(sources), size // _WORTH))


def size_of(source: ProfileSource) -> int:
    """Return the bytes of a file, here or behind a URL; 0 if that is unknown."""
    return source.path.stat().st_size if source.is_file else source.size or 0


def is_little(sources: Sequence[ProfileSource]) -> bool:
    """Return whether the memory of two Recordings at a time is of no concern."""
    files = [source.path for source in sources if source.is_file]
    return len(files) == len(sources) and sum(file.stat().st_size for file in files) < 2 * _WORTH


def one_ahead(
    read: Callable[[int], list[Recording] | InputError], count: int
) -> Iterator[list[Recording] | InputError]:
    """Yield what each source holds, in order, while a thread reads the next one.

    To unpack, parse and sort columns needs no lock of the interpreter.
    """
    with ThreadPoolExecutor(1) as pool:
        coming = [pool.submit(read, 0)]
        for number in range(1, count + 1):
            result = coming.pop().result()
            if number < count:
                coming.append(pool.submit(read, number))
            yield result


@dataclass(frozen=True, slots=True)
class _ReaderProcess:
    """One process, and the pipes to it."""

    process: subprocess.Popen[str]
    tasks: IO[str]
    answers: IO[str]


def read_in_parallel(
    sources: Sequence[ProfileSource], jobs: int, memory_bytes: int, tell: SourceProgress
) -> Iterator[list[Recording] | InputError]:
    """Yield the Recordings of each source, or the error that prevents reading it, in order.

    Each may take `memory_bytes`.
    """
    with ExitStack() as stack:
        directory = stack.enter_context(scratch_directory("reading"))
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
                task = {
                    "name": sources[number].name,
                    "url": sources[number].url,
                    "number": number,
                    "memory_bytes": memory_bytes,
                }
                return _ask(reader, task, directory, tell)
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
    threads = max(1, cores() // jobs)
    # The child must find the package where this process finds it.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
    process = subprocess.Popen(  # noqa: S603  our own module and interpreter
        [sys.executable, "-P", "-c", _SERVE, str(directory)],
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
    reader: _ReaderProcess, task: dict[str, Any], directory: Path, tell: SourceProgress
) -> list[Path] | InputError:
    name, number = task["name"], task["number"]
    try:
        reader.tasks.write(json.dumps(task) + "\n")
        reader.tasks.flush()
    except OSError:
        raise _died(reader, name) from None
    for line in reader.answers:
        answer: dict[str, Any] = json.loads(line)
        if "at" in answer:
            tell(number, answer["at"], answer["of"])
        elif "failed" in answer:
            what, why, then = answer["failed"]
            return InputError(what, why=why, next=then)
        elif "lost" in answer:
            raise InputError(
                f"{name}: the data could not be written to {directory.parent}",
                why=answer["lost"],
                next=_ALONE,
            )
        else:
            tell(number, 1, 1)
            return [directory / f"{number}-{part}" for part in range(answer["made"])]
    raise _died(reader, name)


def _died(reader: _ReaderProcess, name: str) -> InputError:
    code = reader.process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return InputError(
        f"{name}: the process reading it ended early ({how})",
        why="there may not be enough memory to read several files at once"
        if code < 0
        else "its output on stderr says why",
        next=_ALONE,
    )


def _fetch(place: Path, directory: Path, known: dict[str, bytes]) -> Recording:
    recording = open_parcel(place, directory / "hlo", known)
    shutil.rmtree(place)
    return recording


_MANIFEST: Final = "recording.json"


def write_parcel(recording: Recording, into: Path, hlo: Path) -> None:
    """Write a Recording as a new directory; its HLO goes to the directory `hlo`.

    A parcel passes a Recording between processes: its columns as Arrow files, the rest as JSON. A
    profile has millions of rows, and none of them becomes a Python object here. The HLO of a
    program is stored once for all hosts, under the hash of its content.
    """
    into.mkdir()
    rest: dict[str, Any] = {}
    for name in (field.name for field in fields(recording)):
        value = getattr(recording, name)
        if isinstance(value, pl.DataFrame):
            value.write_ipc(into / f"{name}.arrow")
        else:
            rest[name] = value
    rest["devices"] = [asdict(device) for device in recording.devices]
    rest["programs"] = {
        key: (program.name, program.fingerprint, _store(program.load(), hlo))
        for key, program in recording.programs.items()
    }
    rest["environment"] = dict(recording.environment)
    rest["predicted_range"] = recording.predicted_range and astuple(recording.predicted_range)
    (into / _MANIFEST).write_text(json.dumps(rest), encoding="utf-8")


def _store(content: bytes, hlo: Path) -> str:
    content_hash = sha256(content).hexdigest()
    place = hlo / content_hash
    if not place.exists():
        # Two hosts may write the same HLO at once: the name must appear with complete content.
        partial = place.with_name(f"{content_hash}.{os.getpid()}")
        partial.write_bytes(content)
        partial.rename(place)
    return content_hash


def open_parcel(place: Path, hlo: Path, known: dict[str, bytes]) -> Recording:
    """Read the Recording back. `known` caches the HLO, so that hosts share it."""
    rest: dict[str, Any] = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
    # Read into memory, so that nothing refers to files about to be deleted.
    tables: dict[str, Any] = {
        file.stem: pl.read_ipc(file.read_bytes()) for file in sorted(place.glob("*.arrow"))
    }
    programs = {
        key: EmbeddedProgram(
            name, _loader_of(content_hash, hlo, known), fingerprint, bytes.fromhex(content_hash)
        )
        for key, (name, fingerprint, content_hash) in rest["programs"].items()
    }
    rest |= {name: tuple(rest[name]) for name in ("lines", "host_names", "notes")}
    rest |= {
        "devices": tuple(Device(**device) for device in rest["devices"]),
        "basis": Basis(rest["basis"]),
        "predicted_range": Range(*bounds) if (bounds := rest["predicted_range"]) else None,
        "programs": programs,
    }
    return Recording(**rest, **tables)


def _loader_of(content_hash: str, hlo: Path, known: dict[str, bytes]) -> Callable[[], bytes]:
    if content_hash not in known:
        known[content_hash] = (hlo / content_hash).read_bytes()
    content = known[content_hash]
    return lambda: content
