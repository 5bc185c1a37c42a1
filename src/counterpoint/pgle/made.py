"""What `make_profile` gives: the profile, what went into each module, and what to know of it."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.pgle.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCosts:
    """One module of a profile. Times are sums over its counted runs on all its devices.

    Hosts that compiled a program to other fingerprints have modules of their own, of their own
    runs; the costs are those of all hosts.
    """

    name: str
    fingerprint: str | None  # None: the profile tells none
    instructions: int
    collectives: int
    executions: int  # runs that count, on the device that has most of them
    devices: int
    hosts: int
    device_ms: float  # of everything that ran, kernels side by side counted each
    covered_ms: float  # of what the costs were made of
    cost_ms: float  # of single executions, collectives without waiting

    @property
    def covered(self) -> float | None:
        """Share of the module's device time that has a cost; None where it took no time."""
        return self.covered_ms / self.device_ms if self.device_ms else None


@dataclass(frozen=True, slots=True)
class Made:
    """A profile, its modules (the one that costs most first), and what to know of it."""

    profile: Profile
    modules: tuple[ModuleCosts, ...]
    notes: tuple[str, ...]
