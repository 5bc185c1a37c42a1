"""Workarounds: options with which XLA compiles programs that it would otherwise fail on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Workaround:
    """How to recognize a failure, the option that avoids it, and a note on what that changes."""

    mark: re.Pattern[str]
    option: str
    value: str
    note: str


WORKAROUNDS: Final = (
    # Code of a custom call is looked up when kernels are generated, long after scheduling.
    # A program that calls LAPACK was lowered for CPUs, and can't run on a GPU.
    Workaround(
        re.compile(
            r"(No FFI handler registered|No registered implementation for custom call)(?!.*lapack_)"
            r"|Failed to materialize symbols.*_mosaic_gpu"
        ),
        "xla_gpu_mock_custom_calls",
        "True",
        "custom calls without code on this machine are scheduled as they are and left out of"
        " the executable",
    ),
    # jaxlib 0.12.0: an all-reduce of one integer, combined with others.
    Workaround(
        re.compile(r"compiling Triton kernel:.*\n?.*all-reduce"),
        "xla_gpu_experimental_use_collective_kernels",
        "",
        "all-reduces are left to NCCL: XLA's own kernel for small ones does not compile here",
    ),
)


def find_workaround(message: str, tried: Mapping[str, str]) -> Workaround | None:
    """Return the workaround for this failure, unless its option was tried or set by the user."""
    for workaround in WORKAROUNDS:
        if workaround.option not in tried and workaround.mark.search(message):
            return workaround
    return None


def workaround_notes(taken: Mapping[str, str], requested: Mapping[str, str]) -> Iterator[str]:
    """Yield a note for each workaround that was used."""
    for workaround in WORKAROUNDS:
        if workaround.option in taken and workaround.option not in requested:
            yield workaround.note
