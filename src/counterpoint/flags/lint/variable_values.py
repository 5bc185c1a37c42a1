"""Variables: JAX's booleans in the environment, and profilers that set variables there."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.lint.context import LintContext

YES: Final = frozenset({"y", "yes", "t", "true", "on", "1"})
NO: Final = frozenset({"n", "no", "f", "false", "off", "0"})
"""Spellings of a bool that JAX accepts, in any case; it fails on anything else."""

_NSYS: Final = ("NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")
"""Variables that Nsight Systems sets in the process that it records."""


def is_yes(text: str | None) -> bool:
    """Return whether JAX reads a variable as true; None, unset, is not."""
    return (text or "").lower() in YES


def is_no(text: str | None) -> bool:
    """Return whether JAX reads a variable as false; None, unset, is not."""
    return (text or "").lower() in NO


def under_nsys(case: LintContext) -> bool:
    """Return whether Nsight Systems records this process."""
    return any(case.variables.get(name) for name in _NSYS)
