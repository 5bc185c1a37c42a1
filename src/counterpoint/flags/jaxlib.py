"""The installed jaxlib, of the interpreter that runs Counterpoint or of another one.

The version of a jaxlib is part of the name of its .dist-info directory, so finding it neither
starts an interpreter nor imports anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import ArgumentError, InputError
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import known_release, release, releases
from counterpoint.flags.versions import version_number

__all__ = [
    "JaxlibInterpreter",
    "chosen_release",
    "find_interpreter",
    "installed_version",
]


_HEAD: Final = "jaxlib-"
_TAIL: Final = ".dist-info"


def installed_version() -> str | None:
    """Return the version of the jaxlib beside Counterpoint, without importing it; None if none."""
    from importlib import metadata

    try:
        return metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return None


def chosen_release(version: str | None = None) -> Release:
    """Return the known release for a version; None: the installed one, else the newest.

    If the installed one is unknown, it is the nearest older one, and `exact` is False.
    """
    if version is None:
        return release(installed_version())
    number = known_release(version)
    if number is None:
        raise ArgumentError(
            "jaxlib",
            version,
            "unknown release",
            why=f"nearest known: {', '.join(_around(version))}",
            instead=_around(version)[0],
        )
    return release(number)


def _around(version: str) -> tuple[str, ...]:
    """Return the known releases before and after it."""
    known = releases()
    after = sum(1 for other in known if version_number(other) <= version_number(version))
    return known[max(0, after - 2) : after + 1]


@dataclass(frozen=True, slots=True)
class JaxlibInterpreter:
    """A Python interpreter and the version of its jaxlib; None if no jaxlib was found."""

    python: Path
    jaxlib: str | None


def find_interpreter(
    python: str | Path | None, environment: Mapping[str, str] | None = None
) -> JaxlibInterpreter | None:
    """Return the given one, else the first with a jaxlib: our own, then the one on PATH."""
    if python is None and (own := _version_in(sys.path)) is not None:
        return JaxlibInterpreter(Path(sys.executable), own)
    import shutil  # imported here because it is slow to load

    search = (os.environ if environment is None else environment).get("PATH")
    if python is not None:
        path = shutil.which(python, path=search)
        if path is None:
            raise InputError(
                f"--python {python}: no such program",
                why="it is neither a path nor the name of a program on PATH",
                next="use --python .venv/bin/python",
            )
        return _interpreter(Path(path))
    on_path = (shutil.which(name, path=search) for name in ("python", "python3"))
    candidates = [_interpreter(Path(program)) for program in on_path if program]
    return next((candidate for candidate in candidates if candidate.jaxlib), None)


def _interpreter(program: Path) -> JaxlibInterpreter:
    """Return an interpreter, without resolving links: a venv's link selects that venv."""
    path = program.absolute()
    return JaxlibInterpreter(path, _version_in(_packages(path)))


def _packages(python: Path) -> Iterator[str]:
    """Yield the directories in which an interpreter at bin/python has its packages."""
    for prefix in (python.parent.parent, python.resolve().parent.parent):
        for pattern in ("lib/python3.*/site-packages", "lib/python3*/dist-packages"):
            yield from (str(path) for path in sorted(prefix.glob(pattern)))


def jaxlib_metadata(python: Path) -> Path | None:
    """Return the .dist-info directory of the interpreter's jaxlib; None if it has none."""
    return _first_jaxlib(_packages(python))


def _version_in(directories: Iterable[str]) -> str | None:
    metadata = _first_jaxlib(directories)
    return None if metadata is None else metadata.name[len(_HEAD) : -len(_TAIL)]


def _first_jaxlib(directories: Iterable[str]) -> Path | None:
    installed = (_jaxlib_in(directory) for directory in directories)
    return next((metadata for metadata in installed if metadata), None)


def _jaxlib_in(directory: str) -> Path | None:
    """Return the .dist-info directory of the jaxlib among these packages, if there is one."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names only, of thousands of entries
    except OSError:
        return None
    metadata = (name for name in names if name.startswith(_HEAD) and name.endswith(_TAIL))
    return next((Path(directory, name) for name in metadata), None)
