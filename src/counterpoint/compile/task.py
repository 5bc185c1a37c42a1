"""One compile that is wanted: which program, for which devices, with which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from counterpoint.compile.workload import Workload
from counterpoint.hardware.target import Target

TIMEOUT_S: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A workload, its target, and what is asked of the compiler.

    `options` are XLA flags by name, without dashes. `environment` is added to a clean one: what the
    caller's own XLA_FLAGS or JAX variables say does not count unless given here.
    """

    workload: Workload
    target: Target
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = TIMEOUT_S
