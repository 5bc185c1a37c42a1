"""Interpreter: the Python that lowers and compiles: this process's own, or one with another JAX.

The other one needs JAX and its compiler, but no installed Counterpoint: it finds Counterpoint's
source through PYTHONPATH, in a directory that contains nothing else.

`require_compiler` checks that this one has a compiler (JAX's plugin for CUDA, or libtpu) before
minutes are spent lowering a program for it; it does not import JAX.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError

_PYTHONPATH: Final = "PYTHONPATH"
_PLUGINS: Final = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python, and what it has installed: `versions` by the name of the package."""

    python: Path
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    source: Path | None = None  # a directory that contains the package `counterpoint` alone

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a process of this Python, without another one's packages."""
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
    """Return the path of the Python to start; None stands for this process's own."""
    return sys.executable if interpreter is None else str(interpreter.python)


def environment_of(interpreter: Interpreter | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that runs this Python; None stands for our own."""
    return dict(inherited) if interpreter is None else interpreter.environment(inherited)


def version_in(interpreter: Interpreter | None, package: str) -> str | None:
    """Return the version of an installed package; None if it is not installed."""
    if interpreter is None:
        return installed_version(package)
    return interpreter.versions.get(package)


def require_compiler(*, tpus: bool = False) -> None:
    """Raise the error of a compile without a compiler, if there is none."""
    if tpus:
        if not _is_here("jax") or not _is_here("libtpu"):
            raise no_libtpu()
        return
    if not _is_here("jax"):
        raise no_compiler("No module named 'jax'")
    if not any(map(_is_here, _PLUGINS)):
        raise no_compiler(f"No module named {_PLUGINS[0]!r}")


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing, too
        return False


def no_compiler(detail: str) -> UsageError:
    """Return the error if JAX or its compiler for CUDA is missing."""
    jax = installed_version("jax")
    if jax is None:
        return UsageError(
            "compiling needs JAX and its compiler for CUDA, and neither is installed",
            why=f"{sys.executable}: {detail}",
            next=f"{sys.executable} -m pip install 'counterpoint[compiler]'",
        )
    return UsageError(
        f"jax {jax} is installed, but not its compiler for CUDA",
        why=first_line(detail),
        next=f"{sys.executable} -m pip install 'counterpoint[compiler]'"
        f" jax-cuda13-pjrt=={jax} jax-cuda13-plugin=={jax}",
    )


def no_libtpu() -> UsageError:
    """Return the error if JAX or libtpu, its compiler for TPUs, is missing."""
    jax = installed_version("jax")
    return UsageError(
        "compiling for TPUs needs JAX and libtpu, and neither is installed"
        if jax is None
        else f"jax {jax} is installed, but not libtpu, its compiler for TPUs",
        why="it is a package of 210 MB under Google's own terms, so nothing installs it unasked;"
        " no TPU is needed",
        next=f"{sys.executable} -m pip install 'jax[tpu]{f'=={jax}' if jax else ''}'",
    )


def installed_version(package: str) -> str | None:
    """Return the version of a package that this Python has; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def first_line(text: str) -> str:
    """Return the first line of a message, shortened."""
    return shortened(text.strip().partition("\n")[0])


def shortened(text: str) -> str:
    """Return the beginning of a message that is too long for an error."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
