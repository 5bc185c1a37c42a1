"""Variables: how JAX reads booleans out of the environment, and who else is at work there."""

from __future__ import annotations

from typing import Final

from counterpoint.flags.lint.context import Case

YES: Final = frozenset({"y", "yes", "t", "true", "on", "1"})
NO: Final = frozenset({"n", "no", "f", "false", "off", "0"})
"""What JAX takes for a bool, in any case; at anything else it ends."""

_NSYS: Final = ("NSYS_PROFILING_SESSION_ID", "NVTX_INJECTION64_PATH")
"""Nsight Systems sets them in the process that it records."""


def is_yes(text: str | None) -> bool:
    """Whether JAX takes a variable for true; one that is not set is not."""
    return (text or "").lower() in YES


def is_no(text: str | None) -> bool:
    """Whether JAX takes a variable for false; one that is not set is not."""
    return (text or "").lower() in NO


def under_nsys(case: Case) -> bool:
    """Whether Nsight Systems records this process."""
    return any(case.variables.get(name) for name in _NSYS)
