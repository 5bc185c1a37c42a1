"""What is measured: one command per reader, each from a profile to something that tells of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

OTHERS = Path(__file__).parent / "others.py"


@dataclass(frozen=True, slots=True)
class Contender:
    """One reader; `command` gives what to run for a file."""

    name: str
    command: Callable[[Path], list[str]]


def _counterpoint(file: Path) -> list[str]:
    return [sys.executable, "-m", "counterpoint", "explain", str(file), "--json"]


def _in_python(file: Path) -> list[str]:
    return ["env", "COUNTERPOINT_NATIVE=off", *_counterpoint(file)]


def _other(what: str) -> Callable[[Path], list[str]]:
    return lambda file: [sys.executable, "-P", str(OTHERS), what, str(file)]


OURS = Contender("counterpoint explain", _counterpoint)

COUNTING = Contender("jax ProfileData", _other("profile_data"))
"""Prints how many events it found."""

CONTENDERS = (
    OURS,
    Contender("the same, decoded by numpy", _in_python),
    Contender("xprof op_profile", _other("op_profile")),
    Contender("xprof overview_page", _other("overview_page")),
    COUNTING,
)
"""In the order in which they take turns."""
