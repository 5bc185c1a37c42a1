"""Interpreter: the Python that lowers and compiles: this process's own, or one with another JAX.

The other one needs JAX and its compiler, and nothing of Counterpoint: it finds Counterpoint's
source through PYTHONPATH, in a directory that contains nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from counterpoint.compile.installed import installed_version
from counterpoint.core.frozen import frozen

_PYTHONPATH: Final = "PYTHONPATH"


@frozen(kw_only=True)
class Interpreter:
    """A Python, and what it has installed: `versions` by the name of the package."""

    python: Path
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    source: Path | None = None  # a directory that contains the package `counterpoint` alone

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process of this Python: nothing of another one's packages."""
        mine = {
            name: value
            for name, value in inherited.items()
            if name not in ("PYTHONHOME", "VIRTUAL_ENV", _PYTHONPATH)
        }
        places = [str(self.source)] if self.source else []
        places += filter(None, [inherited.get(_PYTHONPATH)])
        return {
            **mine,
            "VIRTUAL_ENV": str(self.python.parent.parent),
            "PATH": os.pathsep.join([str(self.python.parent), inherited.get("PATH", os.defpath)]),
            **({_PYTHONPATH: os.pathsep.join(places)} if places else {}),
        }


def python_of(interpreter: Interpreter | None) -> str:
    """Return the path of the Python to start; None is this process's own."""
    return sys.executable if interpreter is None else str(interpreter.python)


def environment_of(interpreter: Interpreter | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that it starts."""
    return dict(inherited) if interpreter is None else interpreter.environment(inherited)


def version_in(interpreter: Interpreter | None, package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    if interpreter is None:
        return installed_version(package)
    return interpreter.versions.get(package)
