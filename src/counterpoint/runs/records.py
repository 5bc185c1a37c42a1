"""The lines of JSON that a process leaves while it runs: steps, and what was compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar, cast

from counterpoint.core.documents import parse_json
from counterpoint.runs.layout import STEPS_OF_BARS, STEPS_OF_LOG
from counterpoint.runs.run import Compile, StepStart

T = TypeVar("T")
_SOURCES: Final = ("annotation", "api", "log")
"""How steps were seen, the most exact first."""


@dataclass(frozen=True, slots=True)
class Records(Generic[T]):
    """What was read, and what has to be said about it."""

    found: tuple[T, ...] = ()
    notes: tuple[str, ...] = ()


def read_steps(agent: Path) -> Records[StepStart]:
    """The steps of a rank: from the best source, and of the process that made most of them.

    Progress bars are a last resort: what they count may be less than a step, or more.
    """
    best: tuple[StepStart, ...] = ()
    notes: list[str] = []
    of_lines = (STEPS_OF_LOG, STEPS_OF_BARS)
    files = sorted(path for path in agent.glob("steps-*.jsonl") if path.name not in of_lines)
    for file in [*files, *(agent / it for it in of_lines)]:
        if file.name == STEPS_OF_BARS and len(best) > 1:
            break
        read = _read(file, _step)
        notes += read.notes
        for source in _SOURCES:
            steps = tuple(step for step in read.found if step.source == source)
            if _merit(steps) > _merit(best):
                best = steps
    return Records(best, tuple(notes))


def _merit(steps: tuple[StepStart, ...]) -> tuple[bool, int, int]:
    """Two starts make a step time; then exactness counts before number."""
    if not steps:
        return (False, -len(_SOURCES), 0)
    return (len(steps) > 1, -_SOURCES.index(steps[0].source), len(steps))


def read_compiles(agent: Path) -> Records[Compile]:
    """What all processes of a rank compiled, in the order of time within each."""
    parts = [_read(file, _compile) for file in sorted(agent.glob("compiles-*.jsonl"))]
    return Records(
        tuple(compile_ for part in parts for compile_ in part.found),
        tuple(note for part in parts for note in part.notes),
    )


def _read(file: Path, make: Callable[[Mapping[str, object]], T]) -> Records[T]:
    """A line that is cut off or damaged is left out; a process may die while it writes."""
    found: list[T] = []
    damaged = 0
    for line in _lines(file):
        try:
            found.append(make(cast("Mapping[str, object]", parse_json(line))))
        except (ValueError, KeyError, TypeError, AttributeError):
            damaged += 1
    notes = (f"{file.name}: {damaged} damaged lines left out",) if damaged else ()
    return Records(tuple(found), notes)


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from (line for line in lines if line.strip())
    except OSError:
        return


def _step(line: Mapping[str, object]) -> StepStart:
    source = str(line["source"])
    if source not in _SOURCES:
        raise ValueError(source)
    step = line.get("step")
    seconds = line.get("seconds")
    return StepStart(
        int(cast("int", step)) if step is not None else None,
        float(cast("float", line["start_s"])),
        source,
        float(cast("float", seconds)) if seconds is not None else None,
    )


def _compile(line: Mapping[str, object]) -> Compile:
    name = line.get("module") or line.get("fun")
    at = line.get("at_s")
    where = line.get("where")
    return Compile(
        str(name) if name else None,
        float(cast("float", line["seconds"])),
        str(line["kind"]),
        float(cast("float", at)) if at is not None else None,
        bool(line.get("aot")),
        str(where) if where else None,
    )
