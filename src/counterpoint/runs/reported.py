"""Reported: the flags that a compiler says it used, of each module in a Run or in a dump."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError, UsageError
from counterpoint.runs.debug_options import (
    is_debug_options,
    parse_debug_options,
    read_debug_options,
)
from counterpoint.runs.reader import is_run, read_run
from counterpoint.runs.run import Run

_ENDING: Final = ".debug_options"
_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Flags by what XLA calls a module's files (`module_0001.jit_step`); `step` is the main one."""

    where: Path
    modules: Mapping[str, Mapping[str, str]]
    step: str
    run: Run | None = None


def read_reported(path: Path, module: str | None = None, rank: int = 0) -> Reported:
    """What is in a Run, a directory of dumps, or one file; `module` chooses the main one."""
    run = read_run(path) if path.is_dir() and is_run(path) else None
    files = _of_run(run, rank) if run else _of_dump(path)
    by_name = {file.name.removesuffix(_ENDING): file for file in files}
    step = _named(module, by_name, path) if module else _main(run, rank, by_name)
    modules = {
        name: _read(file) if name == step else read_debug_options(file)
        for name, file in by_name.items()
    }
    return Reported(where=path, modules=modules, step=step, run=run)


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_bytes().decode()
    except OSError as failure:
        raise InputError(f"{file}: can't be read: {failure.strerror or failure}") from None
    except UnicodeDecodeError:
        text = "?"
    if not is_debug_options(text):
        raise InputError(
            f"{file}: not a text of XLA's DebugOptions",
            why="each line of it is `name: value`, or a part of `name { ... }`",
            next="name one that --xla_dump_to has written",
        )
    return parse_debug_options(text)


def _of_run(run: Run, rank: int) -> list[Path]:
    numbers = [one.number for one in run.ranks]
    if rank not in numbers:
        raise UsageError(
            f"{run.path} has no rank {rank}", why=f"its ranks are {', '.join(map(str, numbers))}"
        )
    files = [*run.rank(rank).debug_options]
    if not files:
        raise InputError(
            f"{run.path}: the compiler reported no flags in rank {rank}",
            why="nothing was compiled, all came from a cache, or the compiler is too old to",
            next=f"counterpoint runs {run.path}",
        )
    return files


def _of_dump(path: Path) -> list[Path]:
    if path.is_file() and path.name.endswith(_ENDING):
        return [path]
    if not path.exists():
        raise UsageError(f"{path} is not there", next="name a Run, or a directory of --xla_dump_to")
    files = sorted(path.glob(f"*{_ENDING}")) if path.is_dir() else []
    if files:
        return files
    dumped = path.is_dir() and any(path.glob("module_*"))
    raise InputError(
        f"{path}: no {_ENDING} of XLA in it",
        why="it is a dump, but the compiler did not write its flags: older ones don't"
        if dumped
        else "a Run has them, and a directory that --xla_dump_to named",
        next="counterpoint run -- python train.py",
    )


def _named(wanted: str, modules: Iterable[str], path: Path) -> str:
    """A module by its whole name, or by the part behind `module_0001.`; the last if several."""
    names = [*modules]
    exact = [name for name in names if wanted in (name, name.partition(".")[2])]
    if exact:
        return exact[-1]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    raise UsageError(f"{path} has no module {wanted}", why=f"its modules are {shown}")


def _main(run: Run | None, rank: int, names: Mapping[str, Path]) -> str:
    """The module of which the program hands over the most.

    Its compile is not always the longest: JAX's own small ones can take longer than a small step.
    Where XLA did not dump what it was given, a Run knows, else it is the one with the most text.
    """
    given = {name: _size(file, f"{name}.*before_optimizations*") for name, file in names.items()}
    if any(given.values()):
        return max(given, key=lambda name: (given[name], name))
    for scheduled in run.rank(rank).hlo if run else ():
        for name in names:
            if scheduled.name.startswith(f"{name}."):
                return name
    return max(names, key=lambda name: (_size(names[name], f"{name}.*optim*"), name))


def _size(file: Path, pattern: str) -> int:
    return max((one.stat().st_size for one in file.parent.glob(pattern)), default=0)
