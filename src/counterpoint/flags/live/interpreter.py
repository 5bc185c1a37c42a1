"""Interpreter: the Python whose jaxlib is checked for, and that jaxlib's version.

The version is the name of a directory beside the package: finding it costs no start of an
interpreter and no import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core.errors import UsageError

_HEAD, _TAIL = "jaxlib-", ".dist-info"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and the version of its jaxlib; None where it has none, or hides it."""

    python: Path
    jaxlib: str | None


def find_interpreter(
    python: str | Path | None, environment: Mapping[str, str] | None = None
) -> Interpreter | None:
    """The one that is named; else the first with a jaxlib: our own, the one on PATH."""
    if python is None and (own := _version_in(sys.path)) is not None:
        return Interpreter(Path(sys.executable), own)
    import shutil  # here, since it takes long to load

    search = (os.environ if environment is None else environment).get("PATH")
    if python is not None:
        found = shutil.which(python, path=search)
        if found is None:
            raise UsageError(
                f"--python {python}: there is no such program",
                next="--python .venv/bin/python",
            )
        return _interpreter(Path(found))
    on_path = (shutil.which(name, path=search) for name in ("python", "python3"))
    candidates = [_interpreter(Path(one)) for one in on_path if one]
    return next((one for one in candidates if one.jaxlib), None)


def _interpreter(program: Path) -> Interpreter:
    """Not resolved: a venv's link is what makes it that venv."""
    path = program.absolute()
    return Interpreter(path, _version_in(_packages(path)))


def _packages(python: Path) -> Iterator[str]:
    """Where an interpreter at bin/python keeps its packages."""
    for prefix in (python.parent.parent, python.resolve().parent.parent):
        for pattern in ("lib/python3.*/site-packages", "lib/python3*/dist-packages"):
            yield from (str(path) for path in sorted(prefix.glob(pattern)))


def _version_in(directories: Iterable[str]) -> str | None:
    for directory in directories:
        try:
            names = os.listdir(directory)  # noqa: PTH208 - names only, of thousands of entries
        except OSError:
            continue
        for name in names:
            if name.startswith(_HEAD) and name.endswith(_TAIL):
                return name[len(_HEAD) : -len(_TAIL)]
    return None
