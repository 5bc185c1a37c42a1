"""The program a profile is checked against, found in whatever holds it.

An HLO file, a directory of XLA's dumps, a Run, or a profile that embeds its HLO. The last two also
tell how long each instruction ran.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError
from counterpoint.pgle.measured import Measured, measured_times
from counterpoint.program import Program, read_program
from counterpoint.runs import is_run, read_run
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.read import read

DUMPS: Final = ("*after_optimizations.hlo.pb", "*after_optimizations.txt")
_HLO: Final = (".hlo.pb", ".hlo", ".txt", ".hlo.pb.xz", ".txt.xz", ".hlo.pb.gz", ".txt.gz")
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, where it was found, and what is known of how it ran."""

    program: Program
    where: str
    measured: Measured | Unknown
    circumstances: Mapping[str, str] = field(default_factory=dict[str, str])


def find_subject(path: Path, module: str | None = None) -> Subject:
    """The program of that name; without one the step's, or the largest."""
    if not path.exists():
        raise InputError(f"{path}: no such file or directory", next="check --program")
    if path.is_dir():
        return _from_directory(path, module)
    if path.name.endswith(_HLO):
        return _from_files((path,), module)
    if _is_hlo(path):
        return _from_files((path,), module)
    return _from_timeline(read(path), str(path), module)


def _is_hlo(path: Path) -> bool:
    """Whether a file of no telling name holds a module and not a profile."""
    if path.suffix in (".pb", "") and not path.name.endswith(".xplane.pb"):
        try:
            return bool(list(read_program(path).instructions))
        except InputError:
            return False
    return False


def _from_directory(path: Path, module: str | None) -> Subject:
    if is_run(path):
        return _from_run(path, module)
    for pattern in DUMPS:
        if found := _largest_first(path.glob(pattern)):
            return _from_files(found, module)
    if any(path.glob("*before_optimizations*")):
        raise InputError(
            f"{path} holds modules as they were before XLA optimised them, and none after it",
            why="XLA looks costs up by the names of the finished program",
            next="let the program run until it has compiled, with --xla_dump_hlo_as_proto",
        )
    return _from_timeline(read(path), str(path), module)


def _from_run(path: Path, module: str | None) -> Subject:
    run = read_run(path)
    told = {
        name: version
        for rank in run.ranks
        for process in rank.processes
        for name, version in process.versions.items()
        if name == "jaxlib"
    }
    if run.profiles:
        timeline = read(*run.profiles)
        if any(entry.variants for entry in timeline.programs):
            subject = _from_timeline(timeline, str(path), module)
            return Subject(subject.program, subject.where, subject.measured, told)
    dumped = next((rank.hlo for rank in run.ranks if rank.hlo), ())
    if not dumped:
        raise InputError(
            f"{path} holds no compiled program",
            why=f"{run.why_no_profile}, and XLA dumped no module",
            next=shlex.join(["counterpoint", "explain", str(path)]),
        )
    subject = _from_files(dumped, module)
    return Subject(subject.program, subject.where, Unknown(run.why_no_profile), told)


def _from_files(paths: Sequence[Path], module: str | None) -> Subject:
    """The first that fits; a dump's file name holds its module's name, so few are opened."""
    likely = [path for path in paths if module is None or module in path.name] or paths
    names: list[str] = []
    for path in likely:
        program = read_program(path)
        if module is None or program.name == module:
            why = "an HLO dump tells no times: name a Run, or a profile that embeds its HLO"
            return Subject(program, str(path), Unknown(why))
        names.append(program.name)
    raise _no_such(module or "", names, str(paths[0].parent if len(paths) > 1 else paths[0]))


def _from_timeline(timeline: Timeline, where: str, module: str | None) -> Subject:
    held = {index: entry.name for index, entry in enumerate(timeline.programs) if entry.variants}
    if not held:
        raise InputError(
            f"{where}: this profile does not hold its programs' HLO",
            why="without it nobody knows which instructions XLA asks for",
            next="pass an HLO dump: run with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'",
        )
    index = _choose(timeline, held, module, where)
    program = timeline.programs[index].hlo()
    if program is None:
        raise InputError(f"{where}: the HLO of {held[index]} can't be read")
    return Subject(program, where, measured_times(timeline, index))


def _choose(timeline: Timeline, held: Mapping[int, str], module: str | None, where: str) -> int:
    if module is None:
        step = timeline.step_program
        if step is not None and step in held:
            return step
        return max(held, key=lambda index: _size(timeline, index))
    fits = [index for index, name in held.items() if module == name]
    if not fits:
        raise _no_such(module, list(held.values()), where)
    return max(fits, key=lambda index: _size(timeline, index))


def _size(timeline: Timeline, index: int) -> int:
    program = timeline.programs[index].hlo()
    return 0 if program is None else sum(1 for _ in program.instructions)


def _no_such(module: str, names: Sequence[str], where: str) -> InputError:
    known = sorted(dict.fromkeys(names))
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return InputError(
        f"{where} holds no module {module}",
        why=f"it holds {', '.join(known[:_SHOWN])}{more}",
        next=f"--module {shlex.quote(known[0])}" if known else None,
    )


def _largest_first(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(paths, key=lambda it: (-it.stat().st_size, it.name)))
