"""The doctor on all hosts: each rank reports, rank 0 compares, prints and sets the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from counterpoint.core.rules import DocumentedRule
from counterpoint.doctor.cluster import hosts_differ, missing_ranks
from counterpoint.doctor.cluster.exchange import (
    HostReport,
    HostReports,
    collect_reports,
    send_report,
)
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.gather.machine import run_tool
from counterpoint.doctor.result import CheckResult, Checkup, merge_results


class ClusterCheck(DocumentedRule, Protocol):
    """A pure function of the reports of all ranks."""

    def check(self, gathering: HostReports) -> Iterator[CheckResult]:
        """Yield at least one verdict."""
        ...


CLUSTER_CHECKS: Final[tuple[ClusterCheck, ...]] = (hosts_differ, missing_ranks)
"""All comparisons, by code."""


def report_of(rank: int, facts: HostFacts, verdicts: Sequence[CheckResult]) -> HostReport:
    """Return the report of this process."""
    return HostReport(
        rank=rank,
        host=facts.host,
        node=os.environ.get("SLURMD_NODENAME", ""),
        verdicts=tuple(verdicts),
        compared=dict(hosts_differ.comparable(facts)),
    )


def exchange_and_report(
    report: HostReport,
    size: int,
    directory: Path,
    seconds: float,
    show: Callable[[HostReports], int],
) -> int:
    """Return the exit code, the same on all ranks; `show` runs on rank 0 only, and returns it."""
    if report.rank:
        return send_report(report, directory, seconds)
    if size == 1:
        return show(HostReports(size=1, seconds=seconds, reports=(report,)))
    return collect_reports(report, size, directory, seconds, show)


def merge_reports(gathering: HostReports, comparisons: Sequence[ClusterCheck]) -> Checkup:
    """Merge the reports: differences between hosts first, then the verdicts of each host."""
    if gathering.missing:
        nodes = run_tool(
            ("scontrol", "show", "hostnames", os.environ.get("SLURM_STEP_NODELIST", ""))
        )
        gathering = replace(gathering, nodes=tuple((nodes or "").split()))
    together = [
        replace(verdict, code=comparison.CODE, name=comparison.NAME)
        for comparison in comparisons
        for verdict in comparison.check(gathering)
    ]
    by_host = [(report.host, report.verdicts) for report in gathering.reports]
    return merge_results(by_host, together, ranks=gathering.size)
