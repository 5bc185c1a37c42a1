"""What a compile yields: the scheduled Program and what the compiler told on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoint.hardware.target import Target
from counterpoint.hlo import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on one device, as the compiler plans them. None where this jaxlib does not tell.

    Workspaces of cuDNN and cuBLASLt are unknown without a device, so these are slightly low.
    """

    temp: int | None = None
    argument: int | None = None
    output: int | None = None
    alias: int | None = None
    code: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """One compile of one workload."""

    program: Program
    hlo: bytes = field(repr=False)  # HloModuleProto, scheduled
    log: str = field(repr=False)  # what the compiler printed
    memory: Memory
    seconds: float  # the compile alone, at the time when it was done
    wall_s: float  # with the start of the worker and of JAX, or the look into the cache
    versions: Mapping[str, str]
    target: Target
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()
    from_cache: bool = False

    @property
    def fingerprint(self) -> str | None:
        """What XLA looks a profile up by: the module's fingerprint before it is scheduled."""
        return self.program.fingerprint
