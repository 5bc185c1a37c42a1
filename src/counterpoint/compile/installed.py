"""Checks that the compiler is installed, before minutes are spent lowering a program for it.

It is JAX's plugin for CUDA, or libtpu, in the Python that runs Counterpoint; nothing is imported
here.
"""

from __future__ import annotations

import sys
from importlib import metadata
from importlib.util import find_spec
from typing import Final

from counterpoint.core import UsageError

_PLUGINS: Final = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")


def require_compiler(*, tpus: bool = False) -> None:
    """Raise the error that a compile without the compiler would raise."""
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


_LONGEST: Final = 300


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def first_line(text: str) -> str:
    return shortened(text.strip().partition("\n")[0])


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
