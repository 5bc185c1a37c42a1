"""Results of checks: of one check, of one rank, of all ranks, and merged by host for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from counterpoint.core.frozen import frozen


class Status(StrEnum):
    """Severity of a verdict. Only errors and warnings make the doctor's exit code 1."""

    ERROR = "error"  # the run fails, or does not do what it seems to do
    WARNING = "warning"  # it costs time, or will fail under load
    NOTE = "note"  # not a problem, but worth knowing
    UNKNOWN = "unknown"  # can't be determined here; `found` says why
    OK = "ok"
    NOT_APPLICABLE = "not applicable"


FAILING: Final = (Status.ERROR, Status.WARNING)
"""Statuses with which a run should not be started."""


@frozen(kw_only=True)
class CheckResult:
    """One finding. `code` and `name` are the check's; the check need not set them itself."""

    status: Status
    found: str
    wanted: str = ""
    why: str = ""
    remedy: str = ""
    source: str = ""
    code: str = ""
    name: str = ""


def ok(found: str) -> CheckResult:
    """Return a verdict that nothing is wrong."""
    return CheckResult(status=Status.OK, found=found)


def unknown(found: str) -> CheckResult:
    """Return a verdict that the state can't be determined; `found` says why."""
    return CheckResult(status=Status.UNKNOWN, found=found)


def not_applicable(found: str) -> CheckResult:
    """Return a verdict that the check does not apply here; `found` says why."""
    return CheckResult(status=Status.NOT_APPLICABLE, found=found)


_ORDER: Final = {status: index for index, status in enumerate(Status)}


@frozen
class SharedResult:
    """One verdict, and the hosts that share it; empty if it is about all of them together."""

    verdict: CheckResult
    hosts: tuple[str, ...]


@frozen(kw_only=True)
class Checkup:
    """Verdicts of the `hosts` that reported, most severe first; `ranks` is how many started."""

    hosts: tuple[str, ...]
    verdicts: tuple[SharedResult, ...]
    ranks: int = 1

    @property
    def failed(self) -> bool:
        """True if a run should not be started."""
        return any(shared.verdict.status in FAILING for shared in self.verdicts)

    def of(self, status: Status) -> tuple[SharedResult, ...]:
        """Return the verdicts with one status, in order."""
        return tuple(shared for shared in self.verdicts if shared.verdict.status is status)


def merge_results(
    by_host: Iterable[tuple[str, tuple[CheckResult, ...]]],
    together: Iterable[CheckResult] = (),
    ranks: int = 1,
) -> Checkup:
    """Merge the verdicts of hosts; cross-host verdicts come before those of single hosts."""
    hosts: dict[str, None] = {}
    sharing: dict[CheckResult, dict[str, None]] = {}
    for host, verdicts in by_host:
        hosts[host] = None
        for verdict in verdicts:
            sharing.setdefault(verdict, {})[host] = None
    shared = [SharedResult(verdict, ()) for verdict in together]
    shared += [SharedResult(verdict, tuple(names)) for verdict, names in sharing.items()]
    ordered = sorted(
        shared,
        key=lambda shares: (_ORDER[shares.verdict.status], bool(shares.hosts), shares.verdict.code),
    )
    return Checkup(hosts=tuple(hosts), verdicts=tuple(ordered), ranks=ranks)


@frozen(kw_only=True)
class HostReport:
    """The verdicts of one rank, and the facts compared between hosts; `node` is Slurm's name."""

    rank: int
    host: str
    node: str = ""
    verdicts: tuple[CheckResult, ...]
    compared: Mapping[str, str]


@frozen(kw_only=True)
class HostReports:
    """The reports, by rank, that arrived from `size` ranks within `seconds`.

    `nodes` are the nodes of Slurm's step; filled in when ranks are missing.
    """

    size: int
    seconds: float
    reports: tuple[HostReport, ...]
    nodes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks without a report."""
        present = {report.rank for report in self.reports}
        return tuple(rank for rank in range(self.size) if rank not in present)
