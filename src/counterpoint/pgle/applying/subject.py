"""The program a profile is checked against, from any source.

Sources are an HLO file, a directory of XLA's dumps, a Run, or a profile that embeds its HLO; the
last two also have the time of each instruction. Of several modules the step is the one with the
most compute.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import has_magic
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, Unknown
from counterpoint.core.printable import some
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.work import flops
from counterpoint.pgle.making.samples import MeasuredTimes, measured_times
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
from counterpoint.timeline.formats import is_recording
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read

DUMPS: Final = ("*after_optimizations.hlo.pb", "*after_optimizations.txt")
_HLO: Final = (".hlo.pb", ".hlo", ".txt", ".hlo.pb.xz", ".txt.xz", ".hlo.pb.gz", ".txt.gz")
_LOWERED: Final = (".mlir", ".mlir.gz", ".mlir.xz", ".mlir.bz2", ".stablehlo")
_CPU: Final = re.compile(r"\bcpu_after_optimizations\b")
_RANK: Final = re.compile(r"rank(\d+)")
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class LocatedProgram:
    """A program, its location, and what is known of its execution.

    `others` are other modules found there; `platform` is what it was compiled for, if known.
    `recorded` is true if it ran, `asked` if the user named its module.
    """

    program: Program
    where: str
    measured: MeasuredTimes | Unknown
    circumstances: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()
    platform: str | None = None
    recorded: bool = False
    module_named: bool = False


def locate_program(path: Path, module: str | None = None) -> LocatedProgram:
    """Return the program of that name.

    Without a name, return the step's, or the one with the most compute.
    """
    if not path.exists() and has_magic(str(path)):
        return _from_timeline(read(path), str(path), module)
    if not path.exists():
        raise InputError(
            f"{path}: no such file or directory",
            next="pass an HLO file, XLA's dumps, a Run or a profile that embeds its HLO",
        )
    if path.is_dir():
        return _from_directory(path, module)
    if path.name.endswith(_HLO):
        return _from_files((path,), module)
    if _is_hlo(path):
        return _from_files((path,), module)
    return _from_timeline(read(path), str(path), module)


def is_lowered(path: Path) -> bool:
    """Return whether it holds StableHLO and no output of XLA."""
    if not path.is_dir():
        return path.name.endswith(_LOWERED)
    compiled = any(any(path.glob(pattern)) for pattern in DUMPS)
    return (
        not compiled
        and not is_run(path)
        and any(file.name.endswith(_LOWERED) for file in path.iterdir())
    )


def _is_hlo(path: Path) -> bool:
    """Return whether a file with an unspecific name holds a module and not a profile."""
    if path.suffix in (".pb", "") and not is_recording(path.name):
        try:
            return bool(list(read_program(path).instructions))
        except InputError:
            return False
    return False


def _from_directory(path: Path, module: str | None) -> LocatedProgram:
    if is_run(path):
        return _from_run(path, read_run(path), module)
    if (number := _RANK.fullmatch(path.name)) and is_run(path.parent):
        run = read_run(path.parent)
        own = tuple(rank for rank in run.ranks if rank.number == int(number[1]))
        return _from_run(path, replace(run, ranks=own), module)
    for pattern in DUMPS:
        if files := _largest_first(path.glob(pattern)):
            return _from_files(files, module)
    if any(path.glob("*before_optimizations*")):
        raise InputError(
            f"{path} holds only modules before XLA's optimization, and none after it",
            why="XLA looks up costs by the names of the final program",
            next="let the program run until it has compiled, with --xla_dump_hlo_as_proto",
        )
    return _from_timeline(read(path), str(path), module)


def _from_run(path: Path, run: Run, module: str | None) -> LocatedProgram:
    processes = [process for rank in run.ranks for process in rank.processes]
    circumstances = {
        name: version
        for process in processes
        for name, version in process.versions.items()
        if name == "jaxlib"
    }
    kinds = {process.platform for process in processes if process.platform}
    platform = next(iter(kinds)) if len(kinds) == 1 else None
    if run.profiles:
        timeline = read(*run.profiles)
        if any(entry.variants for entry in timeline.programs):
            subject = _from_timeline(timeline, str(path), module)
            return replace(
                subject, circumstances=circumstances, platform=platform or subject.platform
            )
    dumped = next((rank.hlo for rank in run.ranks if rank.hlo), ())
    if not dumped:
        raise InputError(
            f"{path} holds no compiled program",
            why=f"{run.why_no_profile}, and XLA dumped no module",
            next=shlex.join(["counterpoint", "explain", str(run.path)]),
        )
    subject = _from_files(dumped, module)
    return replace(
        subject,
        measured=Unknown(run.why_no_profile),
        circumstances=circumstances,
        platform=subject.platform or platform,
    )


def _from_files(paths: Sequence[Path], module: str | None) -> LocatedProgram:
    """Read modules; those compiled for the host count only if there are none for GPUs."""
    for_gpus = [path for path in paths if not _CPU.search(path.name)]
    usable = for_gpus or paths
    likely = [path for path in usable if module is None or module in path.name] or usable
    programs = {path: read_program(path) for path in likely}
    names = list(dict.fromkeys(program.name for program in programs.values()))
    fits = {
        id(program): path for path, program in programs.items() if module in (None, program.name)
    }
    program = heaviest(program for program in programs.values() if id(program) in fits)
    if program is None:
        where = str(paths[0].parent if len(paths) > 1 else paths[0])
        raise _no_such(module or "", names, where)
    why = "an HLO dump has no times; pass a Run, or a profile that embeds its HLO"
    others = () if module else tuple(name for name in names if name != program.name)
    platform = None if for_gpus else "cpu"
    return LocatedProgram(
        program,
        str(fits[id(program)]),
        Unknown(why),
        others=others,
        platform=platform,
        module_named=bool(module),
    )


def _from_timeline(timeline: Timeline, where: str, module: str | None) -> LocatedProgram:
    held = {index: entry.name for index, entry in enumerate(timeline.programs) if entry.variants}
    if not held and not timeline.devices:
        raise InputError(
            f"{where}: this profile contains no device, so no program ran on one",
            why="JAX on CPU records no device, and XLA's CPU compiler uses no costs",
            next="pass a dump, a Run or a profile of GPUs",
        )
    if not held:
        raise InputError(
            f"{where}: this profile does not contain its programs' HLO",
            why="without it, the instructions that XLA looks up are unknown",
            next="pass an HLO dump: run with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'",
        )
    index = _choose(timeline, held, module, where)
    program = timeline.programs[index].hlo()
    if program is None:
        raise InputError(f"{where}: the HLO of {held[index]} can't be read")
    kinds = {device.kind for device in timeline.devices}
    return LocatedProgram(
        program,
        where,
        measured_times(timeline, index),
        others=()
        if module
        else tuple(dict.fromkeys(name for i, name in held.items() if i != index)),
        platform="tpu" if kinds == {"tpu"} else None,
        recorded=True,
        module_named=bool(module),
    )


def _choose(timeline: Timeline, held: Mapping[int, str], module: str | None, where: str) -> int:
    step = timeline.step_program
    if module is None and step is not None and step in held:
        return step
    fits = [index for index, name in held.items() if module in (None, name)]
    if not fits:
        raise _no_such(module or "", list(held.values()), where)
    programs = {index: timeline.programs[index].hlo() for index in fits}
    best = heaviest(candidate for candidate in programs.values() if candidate is not None)
    return next((index for index, candidate in programs.items() if candidate is best), fits[0])


def _no_such(module: str, names: Sequence[str], where: str) -> InputError:
    known = sorted(dict.fromkeys(names))
    return InputError(
        f"{where} holds no module {module}",
        why=f"it holds {some(known, _SHOWN)}",
        next=f"use --module {known[0]}" if known else None,
    )


def _largest_first(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted(paths, key=lambda path: (-path.stat().st_size, path.name)))


def heaviest(programs: Iterable[Program]) -> Program | None:
    """Return the program with the most FLOPs; among equals, collectives, then instructions.

    It is the training step. File sizes don't tell: a module that fills arrays with random numbers
    is larger than the step it serves.
    """
    return max(programs, key=weight, default=None)


def weight(program: Program) -> tuple[int, int, int]:
    """Return FLOPs including loop iterations, collectives, and instructions."""
    work = collectives = size = 0
    for computation in launched(program):
        times = loop_multiplier(program, computation.name) or 1
        size += len(computation.instructions)
        for instruction in computation.instructions:
            work += (flops(program, instruction) or 0) * times
            collectives += collective(program, instruction) is not None
    return work, collectives, size
