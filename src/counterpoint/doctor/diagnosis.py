"""Verdict: the result of one check on a host; Checkup: those of all hosts, equal ones as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """How bad it is. Only errors and warnings make the doctor's exit code 1."""

    ERROR = "error"  # the run fails, or does something else than it seems to
    WARNING = "warning"  # it costs time, or will fail under load
    NOTE = "note"  # true, and worth knowing
    UNKNOWN = "unknown"  # can't be told here; `found` says why
    OK = "ok"
    NOT_APPLICABLE = "not applicable"


BAD: Final = (Status.ERROR, Status.WARNING)
"""What a run should not be started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One finding. `code` and `name` are the check's; it need not give them itself."""

    status: Status
    found: str
    wanted: str = ""
    why: str = ""
    remedy: str = ""
    source: str = ""
    code: str = ""
    name: str = ""


def ok(found: str) -> Verdict:
    """All is well."""
    return Verdict(status=Status.OK, found=found)


def unknown(found: str) -> Verdict:
    """It can't be told, and why."""
    return Verdict(status=Status.UNKNOWN, found=found)


def not_applicable(found: str) -> Verdict:
    """The question does not arise here, and why."""
    return Verdict(status=Status.NOT_APPLICABLE, found=found)


_ORDER: Final = {status: index for index, status in enumerate(Status)}


@dataclass(frozen=True, slots=True)
class SharedVerdict:
    """One verdict, and the hosts that share it; none if it is about all of them together."""

    verdict: Verdict
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The verdicts, gravest first, of the `hosts` that reported; `ranks` were started."""

    hosts: tuple[str, ...]
    verdicts: tuple[SharedVerdict, ...]
    ranks: int = 1

    @property
    def failed(self) -> bool:
        """Tell whether a run should not be started."""
        return any(one.verdict.status in BAD for one in self.verdicts)

    def of(self, status: Status) -> tuple[SharedVerdict, ...]:
        """The verdicts of one status, in order."""
        return tuple(one for one in self.verdicts if one.verdict.status is status)


def check_up(
    by_host: Iterable[tuple[str, tuple[Verdict, ...]]],
    together: Iterable[Verdict] = (),
    ranks: int = 1,
) -> Checkup:
    """Merge the verdicts of hosts; those on all hosts together come before those of single ones."""
    hosts: dict[str, None] = {}
    sharing: dict[Verdict, dict[str, None]] = {}
    for host, verdicts in by_host:
        hosts[host] = None
        for verdict in verdicts:
            sharing.setdefault(verdict, {})[host] = None
    shared = [SharedVerdict(verdict, ()) for verdict in together]
    shared += [SharedVerdict(verdict, tuple(those)) for verdict, those in sharing.items()]
    ordered = sorted(
        shared,
        key=lambda one: (_ORDER[one.verdict.status], bool(one.hosts), one.verdict.code),
    )
    return Checkup(hosts=tuple(hosts), verdicts=tuple(ordered), ranks=ranks)
