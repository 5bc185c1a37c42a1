"""Results of checks: of one check, of one host, and merged by host for a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True)
class SharedResult:
    """One verdict, and the hosts that share it; empty if it is about all of them together."""

    verdict: CheckResult
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """Verdicts on the `hosts`, most severe first; `compared` are the facts of a single one."""

    hosts: tuple[str, ...]
    verdicts: tuple[SharedResult, ...]
    compared: Mapping[str, str] | None = None

    @property
    def failed(self) -> bool:
        """True if a run should not be started."""
        return any(shared.verdict.status in FAILING for shared in self.verdicts)

    def of(self, status: Status) -> tuple[SharedResult, ...]:
        """Return the verdicts with one status, in order."""
        return tuple(shared for shared in self.verdicts if shared.verdict.status is status)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """The verdicts of one host, and its facts that are compared with those of other hosts."""

    host: str
    verdicts: tuple[CheckResult, ...]
    compared: Mapping[str, str]


def merge(reports: Sequence[HostReport], together: Iterable[CheckResult] = ()) -> Checkup:
    """Merge the verdicts of hosts; those on all hosts come before those of single ones."""
    sharing: dict[CheckResult, list[str]] = {}
    for report in reports:
        for verdict in dict.fromkeys(report.verdicts):
            sharing.setdefault(verdict, []).append(report.host)
    shared = [SharedResult(verdict, ()) for verdict in together]
    shared += [SharedResult(verdict, tuple(hosts)) for verdict, hosts in sharing.items()]
    ordered = sorted(
        shared,
        key=lambda shares: (_ORDER[shares.verdict.status], bool(shares.hosts), shares.verdict.code),
    )
    return Checkup(
        hosts=tuple(report.host for report in reports),
        verdicts=tuple(ordered),
        compared=reports[0].compared if len(reports) == 1 else None,
    )
