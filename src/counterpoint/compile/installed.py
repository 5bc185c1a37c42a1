"""Checks that the compiler is installed, before minutes are spent lowering a program for it.

It is JAX's plugin for CUDA, in the Python that runs Counterpoint; nothing is imported here.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from counterpoint.compile.failures import no_compiler

_PLUGINS: Final = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")


def require_compiler() -> None:
    """Raise the error that a compile without the compiler would raise."""
    if not _is_here("jax"):
        raise no_compiler("No module named 'jax'")
    if not any(map(_is_here, _PLUGINS)):
        raise no_compiler(f"No module named {_PLUGINS[0]!r}")


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing, too
        return False
