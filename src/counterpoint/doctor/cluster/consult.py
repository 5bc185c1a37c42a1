"""The doctor on all hosts: each rank reports, rank 0 compares, prints and sets the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from counterpoint.core.rules import Documented
from counterpoint.doctor.cluster import hosts_differ, missing_ranks
from counterpoint.doctor.cluster.exchange import Gathering, HostReport, answer, collect
from counterpoint.doctor.diagnosis import Checkup, Verdict, check_up
from counterpoint.doctor.facts import Facts
from counterpoint.doctor.gather.machine import ask


class Comparison(Documented, Protocol):
    """A pure function of the reports of all ranks."""

    def check(self, gathering: Gathering) -> Iterator[Verdict]:
        """Yield at least one verdict."""
        ...


COMPARISONS: Final[tuple[Comparison, ...]] = (hosts_differ, missing_ranks)
"""All comparisons, by code."""


def report_of(rank: int, facts: Facts, verdicts: Sequence[Verdict]) -> HostReport:
    """Return the report of this process."""
    return HostReport(
        rank=rank,
        host=facts.host,
        node=os.environ.get("SLURMD_NODENAME", ""),
        verdicts=tuple(verdicts),
        compared=dict(hosts_differ.comparable(facts)),
    )


def consult(
    report: HostReport,
    size: int,
    directory: Path,
    seconds: float,
    show: Callable[[Gathering], int],
) -> int:
    """Return the exit code, the same on all ranks; `show` runs on rank 0 only, and returns it."""
    if report.rank:
        return answer(report, directory, seconds)
    if size == 1:
        return show(Gathering(size=1, seconds=seconds, reports=(report,)))
    return collect(report, size, directory, seconds, show)


def merge(gathering: Gathering, comparisons: Sequence[Comparison]) -> Checkup:
    """Merge the reports: differences between hosts first, then the verdicts of each host."""
    if gathering.missing:
        nodes = ask(("scontrol", "show", "hostnames", os.environ.get("SLURM_STEP_NODELIST", "")))
        gathering = replace(gathering, nodes=tuple((nodes or "").split()))
    together = [
        replace(verdict, code=comparison.CODE, name=comparison.NAME)
        for comparison in comparisons
        for verdict in comparison.check(gathering)
    ]
    by_host = [(report.host, report.verdicts) for report in gathering.reports]
    return check_up(by_host, together, ranks=gathering.size)
