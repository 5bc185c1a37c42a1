"""Diagnosis: what all hosts said, alike sayings as one; what `counterpoint doctor` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
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


_NO_OFFSETS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType({})
_ORDER: Final = {status: index for index, status in enumerate(Status)}


@dataclass(frozen=True, slots=True)
class Said:
    """One Verdict, and the hosts that it is about; none where it is about all of them together."""

    verdict: Verdict
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All of it. `ranks` were to come; `hosts` are those that came."""

    hosts: tuple[str, ...]
    said: tuple[Said, ...]
    ranks: int = 1
    offsets_ms: Mapping[str, tuple[float, float]] = field(default_factory=lambda: _NO_OFFSETS)
    """By host: how far its clock is ahead of rank 0's, and how uncertain that is."""

    @property
    def failed(self) -> bool:
        """Whether a run should not be started."""
        return any(one.verdict.status in BAD for one in self.said)

    def of(self, status: Status) -> tuple[Said, ...]:
        """What is of one status, in order."""
        return tuple(one for one in self.said if one.verdict.status is status)


def diagnose_hosts(
    by_host: Iterable[tuple[str, tuple[Verdict, ...]]], together: Iterable[Verdict] = ()
) -> tuple[tuple[str, ...], tuple[Said, ...]]:
    """The hosts, and what they said: the gravest first; `together` before what single hosts say."""
    hosts: dict[str, None] = {}
    saying: dict[Verdict, dict[str, None]] = {}
    for host, verdicts in by_host:
        hosts[host] = None
        for verdict in verdicts:
            saying.setdefault(verdict, {})[host] = None
    said = [Said(verdict, ()) for verdict in together]
    said += [Said(verdict, tuple(those)) for verdict, those in saying.items()]
    ordered = sorted(
        said,
        key=lambda one: (_ORDER[one.verdict.status], bool(one.hosts), one.verdict.code),
    )
    return tuple(hosts), tuple(ordered)
