"""`lower_command`: what a program jits, without training.

The program runs unchanged on virtual CPU devices, with an agent in its process that keeps what JAX
lowers and ends it as soon as the step is known. It computes next to nothing and holds next to no
memory: docs/guide/predict-inputs.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 900.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """What came of it: `load_workload(directory, name)` reads the step."""

    directory: Path
    name: str
    devices: int
    platform: str = "cuda"  # what it is lowered for; "cpu" where it could not be for CUDA
    # The program's own flags and variables, as it set or inherited them: Settings of a prediction.
    xla_flags: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    others: tuple[str, ...] = ()  # what else it compiled, the larger first
    notes: tuple[str, ...] = ()


def lower_command(
    command: Sequence[str],
    *,
    devices: int,
    directory: Path,
    program: str | None = None,
    timeout_s: float = TIMEOUT_S,
    on_progress: Say | None = None,
) -> Lowering:
    """Run a command until its step has been lowered for so many devices.

    `program` names the function that is the step; else it is the one with the most FLOPs.
    """
    raise NotImplementedError
