"""Failures of the compiler that are known, and the option that leads around each.

They stand in the way of a schedule and have nothing to do with it: with the option the compile is
tried again, unless the user has set that option, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a failure reads like, what to compile with instead, and what that means."""

    mark: re.Pattern[str]
    option: str
    value: str
    note: str


REMEDIES: Final = (
    # Code of a custom call is looked up when kernels are made, long after the schedule.
    Remedy(
        re.compile(r"No FFI handler registered|No registered implementation for custom call"),
        "xla_gpu_mock_custom_calls",
        "True",
        "custom calls whose code is not on this machine are scheduled as they are, and left out of"
        " the executable",
    ),
    # jaxlib 0.12.0: an all-reduce of one integer, combined with others.
    Remedy(
        re.compile(r"compiling Triton kernel:.*\n?.*all-reduce"),
        "xla_gpu_experimental_use_collective_kernels",
        "",
        "all-reduces are left to NCCL: XLA's own kernel for small ones does not compile here",
    ),
)


def remedy(said: str, tried: Mapping[str, str]) -> Remedy | None:
    """What to try against this failure, unless it was tried or the user says otherwise."""
    for known in REMEDIES:
        if known.option not in tried and known.mark.search(said):
            return known
    return None


def remedied(taken: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Notes on the options that nobody asked for."""
    for known in REMEDIES:
        if known.option in taken and known.option not in asked:
            yield known.note
