"""Diagnosis: what all hosts said, alike sayings as one; what `counterpoint doctor` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from counterpoint.doctor.verdict import BAD, Status, Verdict

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
