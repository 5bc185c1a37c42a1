"""Records: the files of a Run directory as types, and how they are read and written.

`run.json` and `rank.json` are written by a RunWriter, the rest by the agent in each Python process.
Docs: docs/reference/run-directory.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec

from counterpoint.core import parse_json
from counterpoint.core.opening import read_input
from counterpoint.core.records import from_plain, to_plain
from counterpoint.runs.layout import STEPS_OF_BARS, STEPS_OF_LOG
from counterpoint.runs.outcomes import Outcome
from counterpoint.runs.run import Compile, ObservedProcess, ProfileWindow, StepStart

T = TypeVar("T")
_SOURCES: Final = ("annotation", "api", "log")
"""Sources of step times, the most exact first."""


class RunSettingsRecord(msgspec.Struct):
    """The requested settings, without inherited ones."""

    xla_flags: tuple[tuple[str, str], ...]
    env: dict[str, str]


class RunManifest(msgspec.Struct, kw_only=True):
    """`run.json`: a run at its start, and how it ended; `ranks` is their number."""

    schema: Literal["counterpoint.run/1"]
    version: str = ""
    name: str
    command: tuple[str, ...]
    cwd: str
    started: str
    ended: str | None = None
    state: Literal["running", "ended"]
    settings: RunSettingsRecord
    ranks: int
    launcher: str
    job: str | None = None
    outcome: Outcome


class SupervisorProcess(msgspec.Struct):
    """The process that will record how a rank ended, and its start in the kernel's ticks."""

    pid: int
    started: int | None = None


class RankManifest(msgspec.Struct, kw_only=True):
    """`rank.json`: a rank at its start, and how it ended."""

    rank: int | None = None
    local_rank: int = 0
    host: str
    pid: int | None = None
    pid_started: int | None = None
    keeper: SupervisorProcess | None = None
    started: str | None = None
    ended: str | None = None
    outcome: Outcome
    environment: dict[str, Any] = {}
    xla_dump_to: str | None = None
    jax_dump_ir_to: str | None = None
    profile_asked: bool = True


class StepRecord(msgspec.Struct):
    """A line of `steps-*.jsonl`."""

    source: Literal["annotation", "api", "log"]
    start_s: float
    step: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.start_s):
            raise ValueError(f"start_s is {self.start_s}")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds is {self.seconds}")


class CompileRecord(msgspec.Struct):
    """A line of `compiles-*.jsonl`."""

    kind: str
    seconds: float
    module: str | None = None
    fun: str | None = None
    at_s: float | None = None
    aot: bool | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf or not math.isfinite(self.at_s or 0.0):
            raise ValueError(f"seconds is {self.seconds} and at_s is {self.at_s}")


class ProcessRecord(msgspec.Struct):
    """`process-<pid>.json`, as far as its fields are used here."""

    pid: int | None = None
    python: str | None = None
    jax: str | None = None
    jaxlib: str | None = None
    plugins: dict[str, str] | None = None
    platform: str | None = None
    devices: tuple[str, ...] | None = None
    process_index: int | None = None
    process_count: int | None = None
    peak_memory: int | dict[str, int | None] | None = None
    window: ProfileWindow | None = None


@dataclass(frozen=True, slots=True)
class Records(Generic[T]):
    """The records read, and notes on them."""

    found: tuple[T, ...] = ()
    notes: tuple[str, ...] = ()


def record_bytes(record: object) -> bytes:
    """Encode a record for writing."""
    # File names may contain bytes that are not text.
    text = json.dumps(to_plain(record), indent=2) + "\n"
    return text.encode("utf-8", errors="surrogateescape")


def read_record(path: Path, kind: type[T]) -> T:
    """Read a record; raise OSError or ValueError if it can't be read."""
    return from_plain(kind, parse_json(read_input(path).decode()))


def read_steps(agent: Path) -> Records[StepStart]:
    """Read the steps of a rank: from the best source, and of the process with the most.

    Progress bars are a last resort: their counts may be finer or coarser than steps.
    """
    best: tuple[StepStart, ...] = ()
    notes: list[str] = []
    of_lines = (STEPS_OF_LOG, STEPS_OF_BARS)
    files = sorted(path for path in agent.glob("steps-*.jsonl") if path.name not in of_lines)
    for file in [*files, *(agent / name for name in of_lines)]:
        if file.name == STEPS_OF_BARS and len(best) > 1:
            break
        read = _read_lines(file, StepRecord)
        notes += read.notes
        for source in _SOURCES:
            steps = tuple(
                StepStart(record.step, record.start_s, source, record.seconds)
                for record in read.found
                if record.source == source
            )
            if _merit(steps) > _merit(best):
                best = steps
    return Records(best, tuple(notes))


def _merit(steps: tuple[StepStart, ...]) -> tuple[bool, int, int]:
    """Rank step records: two starts give a step time; then exactness precedes number."""
    if not steps:
        return (False, -len(_SOURCES), 0)
    return (len(steps) > 1, -_SOURCES.index(steps[0].source), len(steps))


def read_compiles(agent: Path) -> Records[Compile]:
    """Read the compiles of all processes of a rank, in time order within each."""
    files = sorted(agent.glob("compiles-*.jsonl"))
    parts = [_read_lines(file, CompileRecord) for file in files]
    return Records(
        tuple(_compile(line) for part in parts for line in part.found),
        tuple(note for part in parts for note in part.notes),
    )


def _compile(it: CompileRecord) -> Compile:
    name = it.module or it.fun or None
    return Compile(name, it.seconds, it.kind, it.at_s, bool(it.aot), it.where or None)


def _read_lines(file: Path, kind: type[T]) -> Records[T]:
    """Read lines, leaving out damaged ones: a process may die while it writes."""
    records: list[T] = []
    damaged = 0
    for line in _lines(file):
        try:
            records.append(from_plain(kind, parse_json(line)))
        except ValueError:
            damaged += 1
    notes = (f"{file.name}: {damaged} damaged lines left out",) if damaged else ()
    return Records(tuple(records), notes)


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from (line for line in lines if line.strip())
    except OSError:
        return


def read_processes(agent: Path) -> Records[ObservedProcess]:
    """Read the processes of a rank that the agent was in."""
    processes: list[ObservedProcess] = []
    notes: list[str] = []
    for file in sorted(agent.glob("process-*.json")):
        try:
            facts: object = parse_json(file.read_text(encoding="utf-8"))
            record = from_plain(ProcessRecord, facts)
            processes.append(_process(file, record, cast("Mapping[str, object]", facts)))
        except (OSError, ValueError) as damage:
            notes.append(f"{file.name} is left out: {damage}")
    return Records(tuple(processes), tuple(notes))


def _process(file: Path, it: ProcessRecord, facts: Mapping[str, object]) -> ObservedProcess:
    own = {"python": it.python, "jax": it.jax, "jaxlib": it.jaxlib}
    peak = {"device": it.peak_memory} if isinstance(it.peak_memory, int) else it.peak_memory or {}
    return ObservedProcess(
        pid=int(file.stem.rpartition("-")[2]) if it.pid is None else it.pid,
        versions={name: version for name, version in own.items() if version} | (it.plugins or {}),
        platform=it.platform or None,
        devices=it.devices or (),
        process_index=it.process_index,
        process_count=it.process_count,
        peak_memory={name: size for name, size in peak.items() if size is not None},
        window=it.window,
        facts=facts,
    )
