"""The program a profile is checked against, found in whatever holds it.

An HLO file, a directory of XLA's dumps, a Run, or a profile that embeds its HLO. The last two also
tell how long each instruction ran. Of several modules the step is the one that computes most.
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
from counterpoint.hlo import Program, read_program
from counterpoint.pgle.making.samples import Measured, measured_times
from counterpoint.pgle.proving.proof import heaviest
from counterpoint.runs import Run, is_run, read_run
from counterpoint.timeline import Timeline, read

DUMPS: Final = ("*after_optimizations.hlo.pb", "*after_optimizations.txt")
_HLO: Final = (".hlo.pb", ".hlo", ".txt", ".hlo.pb.xz", ".txt.xz", ".hlo.pb.gz", ".txt.gz")
_LOWERED: Final = (".mlir", ".mlir.gz", ".mlir.xz", ".mlir.bz2", ".stablehlo")
_CPU: Final = re.compile(r"\bcpu_after_optimizations\b")
_RANK: Final = re.compile(r"rank(\d+)")
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, where it was found, and what is known of how it ran.

    `others` are modules that were there, too; `platform` is what it was compiled for, if known;
    it was `recorded` where it ran, and `asked` for by its module's name.
    """

    program: Program
    where: str
    measured: Measured | Unknown
    circumstances: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()
    platform: str | None = None
    recorded: bool = False
    asked: bool = False


def find_subject(path: Path, module: str | None = None) -> Subject:
    """The program of that name; without one the step's, or the one that computes most."""
    if not path.exists() and has_magic(str(path)):
        return _from_timeline(read(path), str(path), module)
    if not path.exists():
        raise InputError(
            f"{path}: no such file or directory",
            next="name an HLO file, XLA's dumps, a Run or a profile that embeds its HLO",
        )
    if path.is_dir():
        return _from_directory(path, module)
    if path.name.endswith(_HLO):
        return _from_files((path,), module)
    if _is_hlo(path):
        return _from_files((path,), module)
    return _from_timeline(read(path), str(path), module)


def is_lowered(path: Path) -> bool:
    """Whether it holds StableHLO and nothing that XLA made of it."""
    if not path.is_dir():
        return path.name.endswith(_LOWERED)
    made = any(any(path.glob(pattern)) for pattern in DUMPS)
    return (
        not made and not is_run(path) and any(it.name.endswith(_LOWERED) for it in path.iterdir())
    )


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
        return _from_run(path, read_run(path), module)
    if (number := _RANK.fullmatch(path.name)) and is_run(path.parent):
        run = read_run(path.parent)
        own = tuple(it for it in run.ranks if it.number == int(number[1]))
        return _from_run(path, replace(run, ranks=own), module)
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


def _from_run(path: Path, run: Run, module: str | None) -> Subject:
    processes = [process for rank in run.ranks for process in rank.processes]
    told = {
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
            return replace(subject, circumstances=told, platform=platform or subject.platform)
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
        circumstances=told,
        platform=subject.platform or platform,
    )


def _from_files(paths: Sequence[Path], module: str | None) -> Subject:
    """Modules compiled for the host beside those for GPUs count only if there are no others."""
    for_gpus = [path for path in paths if not _CPU.search(path.name)]
    found = for_gpus or paths
    likely = [path for path in found if module is None or module in path.name] or found
    programs = {path: read_program(path) for path in likely}
    held = list(dict.fromkeys(it.name for it in programs.values()))
    fits = {id(it): path for path, it in programs.items() if module in (None, it.name)}
    program = heaviest(it for it in programs.values() if id(it) in fits)
    if program is None:
        where = str(paths[0].parent if len(paths) > 1 else paths[0])
        raise _no_such(module or "", held, where)
    why = "an HLO dump tells no times: name a Run, or a profile that embeds its HLO"
    others = () if module else tuple(name for name in held if name != program.name)
    platform = None if for_gpus else "cpu"
    return Subject(
        program,
        str(fits[id(program)]),
        Unknown(why),
        others=others,
        platform=platform,
        asked=bool(module),
    )


def _from_timeline(timeline: Timeline, where: str, module: str | None) -> Subject:
    held = {index: entry.name for index, entry in enumerate(timeline.programs) if entry.variants}
    if not held and not timeline.devices:
        raise InputError(
            f"{where}: no device in this profile, so no program that ran on one",
            why="JAX on CPU records none, and XLA's CPU compiler takes no costs",
            next="name a dump, a Run or a profile of GPUs",
        )
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
    kinds = {device.kind for device in timeline.devices}
    return Subject(
        program,
        where,
        measured_times(timeline, index),
        others=() if module else tuple(dict.fromkeys(it for i, it in held.items() if i != index)),
        platform="tpu" if kinds == {"tpu"} else None,
        recorded=True,
        asked=bool(module),
    )


def _choose(timeline: Timeline, held: Mapping[int, str], module: str | None, where: str) -> int:
    step = timeline.step_program
    if module is None and step is not None and step in held:
        return step
    fits = [index for index, name in held.items() if module in (None, name)]
    if not fits:
        raise _no_such(module or "", list(held.values()), where)
    programs = {index: timeline.programs[index].hlo() for index in fits}
    best = heaviest(it for it in programs.values() if it is not None)
    return next((index for index, it in programs.items() if it is best), fits[0])


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
