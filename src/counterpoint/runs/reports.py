"""The flags as the compiler reports them per module, in the dump of `--xla_dump_to`.

A `.debug_options` file is the text of XLA's DebugOptions: all that differs from the defaults, after
XLA_FLAGS and a program's own compiler options. These are the values used, whatever was requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from counterpoint.core import InputError, UsageError
from counterpoint.core.injection import is_noted
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Rank, Run
from counterpoint.runs.setting_history import compiling, facts_of, texts_of

__all__ = [
    "CompilerReport",
    "device_of",
    "effective_flags",
    "flags_by_module",
    "jaxlib_of",
    "parse_debug_options",
    "passed_variables",
    "read_compiler_report",
    "variables_of",
]


_FIELD: Final = re.compile(r"^(\w+):? (\{[^}]*\}|[^\n]*)$", re.MULTILINE)
_LINE: Final = re.compile(r"\w+: \S.*|\w+ \{|\}")
_ENTRY: Final = re.compile(r'\{\s*key: "([^"]*)"\s*value: ([^}]*)\}')


def read_debug_options(path: Path) -> dict[str, str]:
    """Read one module's flags. Empty if unreadable."""
    try:
        return parse_debug_options(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}


def is_debug_options(text: str) -> bool:
    """Return whether the text is such a message, as XLA writes it; an empty one changes nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    closed = sum(line.endswith(" {") for line in lines) == lines.count("}")
    return closed and all(_LINE.fullmatch(line) for line in lines)


def parse_debug_options(text: str) -> dict[str, str]:
    """Parse flags; values of a list are joined by commas, a map is `key=value`."""
    flags: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        entry = _ENTRY.fullmatch(value)
        plain = f"{entry[1]}={_unquoted(entry[2].strip())}" if entry else _unquoted(value.strip())
        flags[name] = f"{flags[name]},{plain}" if name in flags else plain
    return flags


def _unquoted(value: str) -> str:
    return value.removeprefix('"').removesuffix('"')


def effective_flags(rank: Rank, module: Path | None = None) -> dict[str, str]:
    """Return the flags of `rank.step_module`, or of the next module whose flags exist.

    `module` is the file of another one, of which alone the flags are then read.
    """
    by_stem = {_stem(path): path for path in rank.debug_options}
    for file in rank.hlo if module is None else (module,):
        stem = next((stem for stem in by_stem if file.name.startswith(f"{stem}.")), None)
        if stem is not None:
            return read_debug_options(by_stem[stem])
    return {}


def flags_by_module(rank: Rank) -> dict[str, dict[str, str]]:
    """Return the flags of each module, by XLA's file name stem: `module_0001.jit_step`."""
    return {_stem(path): read_debug_options(path) for path in rank.debug_options}


def _stem(path: Path) -> str:
    return path.name.removesuffix(".debug_options")


_ENDING: Final = ".debug_options"
_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerReport:
    """Flags by file name stem of the module (`module_0001.jit_step`); `step` is the main one."""

    where: Path
    modules: Mapping[str, Mapping[str, str]]
    step: str
    run: Run | None = None


def read_compiler_report(path: Path, module: str | None = None, rank: int = 0) -> CompilerReport:
    """Read a Run, a directory of dumps, or one file; `module` selects the main module."""
    run = read_run(path) if path.is_dir() and is_run(path) else None
    files = _of_run(run, rank) if run else _of_dump(path)
    by_name = {file.name.removesuffix(_ENDING): file for file in files}
    step = _named(module, by_name, path) if module else _main(run, rank, by_name)
    modules = {
        name: _read(file) if name == step else read_debug_options(file)
        for name, file in by_name.items()
    }
    return CompilerReport(where=path, modules=modules, step=step, run=run)


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_bytes().decode()
    except OSError as failure:
        raise InputError(f"{file}: cannot be read: {failure.strerror or failure}") from None
    except UnicodeDecodeError:
        text = "?"
    if not is_debug_options(text):
        raise InputError(
            f"{file}: not a DebugOptions file of XLA",
            why="each line must be `name: value`, or part of `name { ... }`",
            next="pass a file that --xla_dump_to has written",
        )
    return parse_debug_options(text)


def _of_run(run: Run, rank: int) -> list[Path]:
    numbers = [entry.number for entry in run.ranks]
    if rank not in numbers:
        raise UsageError(
            f"{run.path} has no rank {rank}",
            why=f"its ranks are {', '.join(map(str, numbers))}",
            next=f"use --rank {numbers[0]}" if numbers else "omit --rank",
        )
    files = [*run.rank(rank).debug_options]
    if not files:
        raise InputError(
            f"{run.path}: the compiler reported no flags in rank {rank}",
            why="nothing was compiled, everything came from a cache, or the compiler is too old",
            next=f"counterpoint runs {run.path}",
        )
    return files


def _of_dump(path: Path) -> list[Path]:
    if path.is_file() and path.name.endswith(_ENDING):
        return [path]
    if not path.exists():
        raise InputError(
            f"{path}: no such file or directory",
            why="the source is a Run, or a directory that --xla_dump_to has written",
            next="counterpoint runs",
        )
    files = sorted(path.glob(f"*{_ENDING}")) if path.is_dir() else []
    if files:
        return files
    dumped = path.is_dir() and any(path.glob("module_*"))
    raise InputError(
        f"{path} contains no {_ENDING} file of XLA",
        why="it is a dump, but older compilers do not write their flags"
        if dumped
        else "Runs and directories of --xla_dump_to contain them",
        next="counterpoint run -- python train.py",
    )


def _named(wanted: str, modules: Iterable[str], path: Path) -> str:
    """Return a module by its whole name, or by the part after `module_0001.`.

    The last if several.
    """
    names = [*modules]
    exact = [name for name in names if wanted in (name, name.partition(".")[2])]
    if exact:
        return exact[-1]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    raise UsageError(
        f"{path} has no module {wanted}",
        why=f"its modules are {shown}",
        next=f"use --module {names[-1]}",
    )


def _main(run: Run | None, rank: int, names: Mapping[str, Path]) -> str:
    """Return the step's module if it is known, else the largest that the program passed to XLA.

    Its compile is not always the longest: JAX's own small ones can take longer than a small step.
    Without a dump of XLA's input, a Run's order is used, else the module with the most text.
    """
    given = {name: _size(file, f"{name}.*before_optimizations*") for name, file in names.items()}
    step = run.rank(rank).known_step_module if run else None
    of_step = [name for name in names if name.partition(".")[2] == step]
    if of_step:
        return max(of_step, key=lambda name: (given[name], name))
    if any(given.values()):
        return max(given, key=lambda name: (given[name], name))
    for scheduled in run.rank(rank).hlo if run else ():
        for name in names:
            if scheduled.name.startswith(f"{name}."):
                return name
    return max(names, key=lambda name: (_size(names[name], f"{name}.*optim*"), name))


def _size(file: Path, pattern: str) -> int:
    return max((dumped.stat().st_size for dumped in file.parent.glob(pattern)), default=0)


def variables_of(run: Run) -> dict[str, str]:
    """Return the first rank's variables that were set or changed, and XLA_FLAGS as XLA read it."""
    if not run.ranks:
        return {}
    rank = run.ranks[0]
    variables = dict(_set(rank.environment.get("set"))) | dict(
        _changed(rank.environment.get("changed"))
    )
    read = next((flags for flags in _flags_read(rank) if flags), None)
    return variables | ({"XLA_FLAGS": read} if read else {})


def passed_variables(run: Run) -> dict[str, str]:
    """Return the variables with which the first rank's program started, inherited ones included.

    Only those that can change a program (`core.injection.NOTED`), without secrets.
    """
    processes = run.ranks[0].processes if run.ranks else ()
    process = next(compiling(run.ranks[:1]), processes[0] if processes else None)
    passed = {} if process is None else texts_of(facts_of(process).get("passed"))
    return {name: value for name, value in passed.items() if value and is_noted(name, value)}


def jaxlib_of(run: Run) -> str | None:
    """Return the jaxlib version of the program."""
    versions = (process.versions.get("jaxlib") for rank in run.ranks for process in rank.processes)
    return next((version for version in versions if version), None)


def device_of(run: Run) -> str | None:
    """Return the name of its devices."""
    devices = (name for rank in run.ranks for process in rank.processes for name in process.devices)
    return next(devices, None)


def _set(added: object) -> Iterator[tuple[str, str]]:
    if isinstance(added, dict):
        for name, value in cast("Mapping[str, object]", added).items():
            yield name, str(value)


def _changed(changed: object) -> Iterator[tuple[str, str]]:
    if isinstance(changed, dict):
        for name, values in cast("Mapping[str, Sequence[object]]", changed).items():
            yield name, str(values[-1]) if values else ""


def _flags_read(rank: Rank) -> Iterator[str]:
    for process in rank.processes:
        flags = process.facts.get("xla_flags")
        if isinstance(flags, str):
            yield flags
