"""The modules a profile is made from: which ran, which are selected, and their names.

One program of a Timeline may be several modules for XLA: hosts that compiled it to different
fingerprints. A module without a fingerprint can only have bare names, which match any module: it is
included only if it is the only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.profiles.profile import Profile, is_fingerprint
from counterpoint.timeline.model import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleCosts:
    """One module of a profile. Times are sums over its counted runs on all its devices.

    Hosts that compiled a program to different fingerprints have separate modules, with their own
    runs; the costs are those of all hosts.
    """

    name: str
    fingerprint: str | None  # None: not in the profile
    instructions: int
    collectives: int
    executions: int  # runs that count, on the device with the most
    devices: int
    hosts: int
    device_ms: float  # of everything that ran, each concurrent kernel counted
    covered_ms: float  # of what the costs were made from
    cost_ms: float  # of single executions, collectives without waiting

    @property
    def covered(self) -> float | None:
        """Share of the module's device time that has a cost; None if it took no time."""
        return self.covered_ms / self.device_ms if self.device_ms else None


@dataclass(frozen=True, slots=True)
class ProfileBuild:
    """A profile, its modules (highest cost first), and notes."""

    profile: Profile
    modules: tuple[ModuleCosts, ...]
    notes: tuple[str, ...]


_LISTED: Final = 12
_SHOWN: Final = 8
_PREFIX: Final = 4
"""Minimum digits of a fingerprint prefix that may identify a module."""


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One compiled module, and the hosts that ran it."""

    number: int  # of the program in the Timeline
    name: str
    fingerprint: str | None
    hosts: tuple[int, ...]
    program: Program | None


def find_modules(timeline: Timeline) -> list[Module]:
    """Return every module that ran."""
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
        mark = program.fingerprint if program is not None else None
        known = mark if mark is not None and is_fingerprint(mark) else None
        builds.setdefault(known, []).append(host)
    return [
        Module(number, entry.name, fingerprint, tuple(own), entry.hlo(own[0]))
        for fingerprint, own in builds.items()
    ]


def choose_modules(
    modules: Sequence[Module], wanted: str | None
) -> tuple[list[Module], list[Module]]:
    """Return modules to make a profile from, and those left out because only names are known."""
    chosen = [module for module in modules if wanted is None or _is(module, wanted)]
    if not chosen:
        raise UsageError(
            f"no module {wanted!r} ran in this profile",
            why=f"these did: {list_modules(modules)}",
            next="omit --module",
        )
    _refuse_ambiguous(chosen, wanted)
    keyed = [module for module in chosen if module.fingerprint is not None]
    bare = [module for module in chosen if module.fingerprint is None]
    if keyed and wanted is None:
        return keyed, bare
    if bare and len({module.number for module in chosen}) > 1:
        raise InputError(
            f"{len(bare)} of the modules are known by name only, and bare names would mix"
            " their costs",
            why="without their HLO in the profile their fingerprints are unknown;"
            f" they are {list_modules(bare)}",
            next=f"use --module #{bare[0].number}",
        )
    return chosen, []


def _refuse_ambiguous(chosen: Sequence[Module], wanted: str | None) -> None:
    by_digits = [
        module for module in chosen if wanted is not None and not _is_exactly(module, wanted)
    ]
    if len({module.fingerprint for module in by_digits}) > 1:
        raise UsageError(
            f"--module {wanted}: {len(by_digits)} fingerprints begin with it",
            why=f"they are {list_modules(by_digits)}",
            next=f"use --module #{by_digits[0].number}",
        )


def require_one(modules: Sequence[Module]) -> None:
    """Refuse bare names for more than one program."""
    if len({module.number for module in modules}) > 1:
        raise UsageError(
            f"bare names of {len(modules)} modules would mix their costs",
            why=f"a bare name matches every module; they are {list_modules(modules)}",
            next=f"use --module #{modules[0].number}",
        )


def list_modules(modules: Sequence[Module]) -> str:
    """Return names, numbers and fingerprints, as `choose_modules` accepts them."""
    names = [_label(module) for module in modules[:_LISTED]]
    more = len(modules) - _LISTED
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _label(module: Module) -> str:
    digits = f" ({module.fingerprint[:_SHOWN]})" if module.fingerprint else ""
    return f"#{module.number} {module.name}{digits}"


def _is(module: Module, wanted: str) -> bool:
    prefix = len(wanted) >= _PREFIX and (module.fingerprint or "").startswith(wanted)
    return prefix or _is_exactly(module, wanted)


def _is_exactly(module: Module, wanted: str) -> bool:
    return wanted in (f"#{module.number}", module.name, module.fingerprint)
