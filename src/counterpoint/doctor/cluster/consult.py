"""The doctor on all hosts: each rank gathers and judges its own, rank 0 merges and prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from counterpoint.capture.world import World
from counterpoint.doctor.checks import Check
from counterpoint.doctor.cluster.attending import attend_meeting
from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.cluster.hosting import host_meeting
from counterpoint.doctor.cluster.meeting import meeting_path
from counterpoint.doctor.cluster.merged import Comparison
from counterpoint.doctor.cluster.report import report_of
from counterpoint.doctor.cluster.seat import seated
from counterpoint.doctor.diagnosis import Diagnosis, diagnose_hosts
from counterpoint.doctor.examine import examine
from counterpoint.doctor.facts import Facts


@dataclass(frozen=True, slots=True)
class Terms:
    """What is checked, where the ranks meet, and how long they wait for each other."""

    checks: tuple[Check, ...]
    comparisons: tuple[Comparison, ...]
    meet: Path
    seconds: float


def consult(facts: Facts, world: World, terms: Terms, say: Callable[[Diagnosis], None]) -> int:
    """The exit code, the same on all ranks; `say` is called on rank 0 only."""
    rank = world.seats[0].rank
    facts = seated(facts, world)
    report = report_of(rank, facts, examine(facts, terms.checks))
    path = meeting_path(terms.meet, world)

    def finish(gathering: Gathering) -> int:
        diagnosis = merge(gathering, terms.comparisons)
        say(diagnosis)
        return int(diagnosis.failed)

    if rank == 0:
        return host_meeting(report, world.size, path, terms.seconds, finish)
    return attend_meeting(report, path, terms.seconds)


def merge(gathering: Gathering, comparisons: Sequence[Comparison]) -> Diagnosis:
    """What was found: differences first, then what hosts say alike."""
    together = [
        replace(verdict, code=one.CODE, name=one.NAME)
        for one in comparisons
        for verdict in one.check(gathering)
    ]
    by_host = [(report.host, report.verdicts) for report in gathering.reports]
    hosts, said = diagnose_hosts(by_host, together)
    offsets = {host: (one.ms, one.within_ms) for host, one in gathering.offset_of_host.items()}
    return Diagnosis(hosts=hosts, said=said, ranks=gathering.size, offsets_ms=offsets)
