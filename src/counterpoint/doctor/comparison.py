"""Reports of several hosts, each written there by `counterpoint doctor --json`, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from counterpoint.core import InputError
from counterpoint.doctor import hosts_differ
from counterpoint.doctor.checks import results_of
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Checkup, HostReport, Status, merge


class _Verdict(msgspec.Struct):
    code: str
    name: str
    status: Status
    found: str
    wanted: str | None
    why: str | None
    remedy: str | None
    source: str | None


class _Report(msgspec.Struct, tag_field="schema", tag="counterpoint.doctor/1"):
    hosts: list[str]
    verdicts: list[_Verdict]
    compared: dict[str, str] | None


def report_of(facts: HostFacts, verdicts: Sequence[CheckResult]) -> HostReport:
    """Return the report of this host."""
    compared = dict(hosts_differ.comparable(facts))
    return HostReport(host=facts.host, verdicts=tuple(verdicts), compared=compared)


def compare(paths: Sequence[Path]) -> Checkup:
    """Read the reports of hosts and merge them: their differences first."""
    reports = [_read(path) for path in paths]
    names = Counter(report.host for report in reports)
    reports = [
        # Containers on several hosts may have one name.
        replace(report, host=f"{report.host} ({path})") if names[report.host] > 1 else report
        for report, path in zip(reports, paths, strict=True)
    ]
    return merge(reports, results_of(hosts_differ, hosts_differ.check, reports))


def _read(path: Path) -> HostReport:
    try:
        report = msgspec.json.decode(path.read_bytes(), type=_Report)
    except OSError as failure:
        raise InputError(
            f"{path}: can't be read: {failure.strerror}",
            next="counterpoint doctor --json -o host.json",
        ) from None
    except (RecursionError, msgspec.MsgspecError) as failure:
        raise InputError(
            f"{path}: not a report of `counterpoint doctor --json`: {failure}",
            next="counterpoint doctor --json -o host.json",
        ) from None
    if report.compared is None or len(report.hosts) != 1:
        raise InputError(
            f"{path}: the report of {len(report.hosts)} hosts",
            why="what is compared are reports of one host each",
            next="name the reports that this one was made of",
        )
    verdicts = tuple(
        CheckResult(
            status=it.status,
            found=it.found,
            wanted=it.wanted or "",
            why=it.why or "",
            remedy=it.remedy or "",
            source=it.source or "",
            code=it.code,
            name=it.name,
        )
        for it in report.verdicts
    )
    return HostReport(host=report.hosts[0], verdicts=verdicts, compared=report.compared)
