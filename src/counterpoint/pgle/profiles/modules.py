"""The modules a profile is made of: which ran, which are asked for, and what each is called.

One program of a Timeline may be several modules for XLA: hosts that compiled it to other
fingerprints. A module without a fingerprint can only have bare names, which match any module: it is
taken when it is alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.hlo import Program
from counterpoint.pgle.profiles.profile import Profile, is_fingerprint
from counterpoint.timeline import Timeline


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


_LISTED: Final = 12
_SHOWN: Final = 8
_PREFIX: Final = 4
"""Digits of a fingerprint that are enough to name a module by, if no other begins so."""


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One compiled module, and the hosts that ran it."""

    number: int  # of the program in the Timeline
    name: str
    fingerprint: str | None
    hosts: tuple[int, ...]
    program: Program | None


def find_modules(timeline: Timeline) -> list[Module]:
    """Every module that ran."""
    hosts = [device.host for device in timeline.devices]
    ran: list[tuple[int, int]] = timeline.runs.select("device", "program").unique().rows()
    hosts_of: dict[int, set[int]] = {}
    for device, number in ran:
        hosts_of.setdefault(number, set()).add(hosts[device])
    return [
        module
        for number in sorted(hosts_of)
        for module in _builds(timeline, number, sorted(hosts_of[number]))
    ]


def _builds(timeline: Timeline, number: int, hosts: list[int]) -> list[Module]:
    entry = timeline.programs[number]
    builds: dict[str | None, list[int]] = {}
    for host in hosts:
        program = entry.hlo(host)
        found = program.fingerprint if program is not None else None
        known = found if found is not None and is_fingerprint(found) else None
        builds.setdefault(known, []).append(host)
    return [
        Module(number, entry.name, fingerprint, tuple(own), entry.hlo(own[0]))
        for fingerprint, own in builds.items()
    ]


def choose_modules(
    modules: Sequence[Module], wanted: str | None
) -> tuple[list[Module], list[Module]]:
    """Modules to make a profile of, and those left out because nothing but a name tells them."""
    chosen = [module for module in modules if wanted is None or _is(module, wanted)]
    if not chosen:
        raise UsageError(
            f"no module {wanted!r} ran in this profile",
            why=f"these did: {list_modules(modules)}",
            next="leave --module out",
        )
    _refuse_ambiguous(chosen, wanted)
    keyed = [module for module in chosen if module.fingerprint is not None]
    bare = [module for module in chosen if module.fingerprint is None]
    if keyed and wanted is None:
        return keyed, bare
    if bare and len({module.number for module in chosen}) > 1:
        raise InputError(
            f"{len(bare)} of the modules are known by name only, and bare names would mix them",
            why="without their HLO in the profile nobody knows their fingerprints;"
            f" they are {list_modules(bare)}",
            next=f"--module '#{bare[0].number}'",
        )
    return chosen, []


def _refuse_ambiguous(chosen: Sequence[Module], wanted: str | None) -> None:
    by_digits = [it for it in chosen if wanted is not None and not _is_exactly(it, wanted)]
    if len({module.fingerprint for module in by_digits}) > 1:
        raise UsageError(
            f"--module {wanted}: {len(by_digits)} fingerprints begin so",
            why=f"they are {list_modules(by_digits)}",
            next=f"--module '#{by_digits[0].number}'",
        )


def require_one(modules: Sequence[Module]) -> None:
    """Refuse to give bare names to more than one program."""
    if len({module.number for module in modules}) > 1:
        raise UsageError(
            f"bare names of {len(modules)} modules would mix them",
            why=f"a bare name matches every module; they are {list_modules(modules)}",
            next=f"--module '#{modules[0].number}'",
        )


def list_modules(modules: Sequence[Module]) -> str:
    """Names, numbers and fingerprints, as `choose_modules` takes them."""
    names = [_told(module) for module in modules[:_LISTED]]
    more = len(modules) - _LISTED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _told(module: Module) -> str:
    digits = f" ({module.fingerprint[:_SHOWN]})" if module.fingerprint else ""
    return f"#{module.number} {module.name}{digits}"


def _is(module: Module, wanted: str) -> bool:
    prefix = len(wanted) >= _PREFIX and (module.fingerprint or "").startswith(wanted)
    return prefix or _is_exactly(module, wanted)


def _is_exactly(module: Module, wanted: str) -> bool:
    return wanted in (f"#{module.number}", module.name, module.fingerprint)
