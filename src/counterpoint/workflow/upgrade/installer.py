"""Installer: which releases the package index has, what requirements become, and environments.

uv is one if it is there, since it is quicker and shares files between environments; otherwise pip
with venv, which every Python has. Each is asked as a program, so its own configuration counts:
index, mirror, proxy, credentials, offline.
"""

from __future__ import annotations

import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import Version

from counterpoint.core import InputError

REQUIREMENTS: Final = "requirements.txt"
_LINES: Final = 8
_MOST_RELEASES: Final = 64
_PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


class Unresolved(Exception):
    """Raised if requirements do not resolve for one Python.

    `text` is the installer's explanation in lines; `wants_other_python` if the version of Python is
    in the way, `is_missing_release` if the index has no such release of JAX.
    """

    def __init__(self, text: str, *, wants_other_python: bool, is_missing_release: bool) -> None:
        super().__init__(text)
        self.text = text
        self.wants_other_python = wants_other_python
        self.is_missing_release = is_missing_release

    @property
    def shown(self) -> str:
        """The beginning of the explanation."""
        return "\n       ".join(self.text.splitlines()[:_LINES])


@dataclass(frozen=True, slots=True)
class BasePython:
    """A Python to make environments of; `version` is its minor version, such as 3.12."""

    path: Path
    version: str


class Installer(ABC):
    """A program that resolves requirements and makes environments."""

    name: str
    get_python: str
    """The command that installs a newer Python, or where one is found."""

    @abstractmethod
    def resolve(
        self, requirements: Sequence[str], python: BasePython, constraints: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return the pinned packages that these requirements become."""

    @abstractmethod
    def make(self, directory: Path, python: BasePython, pins: Iterable[str]) -> None:
        """Make an environment of these packages and nothing else; its directory is renamed then."""

    @abstractmethod
    def release(self, python: BasePython, below: str | None = None) -> str | None:
        """Return the newest release of JAX for this Python (below one); None if there is none."""

    def releases(self, python: BasePython, oldest: str, newest: str | None = None) -> Iterator[str]:
        """Yield the releases from below `newest` down to `oldest`."""
        below = newest
        for _ in range(_MOST_RELEASES):
            below = self.release(python, below)
            if below is None or Version(below) < Version(oldest):
                return
            yield below

    def pythons(self) -> tuple[BasePython, ...]:
        """Return the installed Pythons, one of each minor version: that of this process first."""
        own = Path(getattr(sys, "_base_executable", sys.executable))
        pythons = {f"{sys.version_info[0]}.{sys.version_info[1]}": own}
        for version, place in (*self._listed(), *_of_pyenv()):
            if version in _PYTHONS:
                pythons.setdefault(version, place)
        return tuple(BasePython(path, version) for version, path in pythons.items())

    def _listed(self) -> Iterator[tuple[str, Path]]:
        """Yield the Pythons that the installer knows: those on the PATH, but no scripts.

        A script of that name, such as pyenv's, runs a Python only where that is switched on.
        """
        for version in _PYTHONS:
            python = shutil.which(f"python{version}")
            if python and not _is_script(Path(python)):
                yield version, Path(python)


def unreachable(shown: str, variable: str) -> InputError:
    """Return the error for an index that can't be reached; the variable names another one."""
    return InputError(
        "the package index can't be reached, and the release is not installed here yet",
        why=shown,
        next=f"go online once: each environment is kept; or let {variable} name an index that can"
        " be reached",
    )


def _of_pyenv() -> Iterator[tuple[str, Path]]:
    """Yield the Pythons of pyenv; its shims run only those that are switched on."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for place in sorted(root.glob("versions/3.*/bin/python3")):
        yield ".".join(place.parent.parent.name.split(".")[:2]), place


def _is_script(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(2) == b"#!"
