"""Report: what one rank sends to rank 0: its verdicts, and the facts that hosts are compared by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from counterpoint.doctor.cluster.wire import Gone
from counterpoint.doctor.diagnosis import Status, Verdict
from counterpoint.doctor.facts import Facts

_OWN: Final = re.compile(
    r"RANK|PROCESS|LOCAL_ID|_ID$|_IDS$|VISIBLE|TASK|WORKER|SLICE_ID|HOSTID|_PORT$|_IFNAME|_HCA"
    r"|_BIND|GPU_DEVICE|TOPO_FILE|_DUMP_|_FILE$|_DIR$|_NICS?$"
)
"""Names of variables that are meant to differ between ranks or hosts."""

_PLACE: Final = re.compile(r"--xla_dump_to=\S*")
"""A flag that may name another directory on each rank, and compiles nothing else."""


@dataclass(frozen=True, slots=True)
class Report:
    """One rank's."""

    rank: int
    host: str
    verdicts: tuple[Verdict, ...]
    compared: Mapping[str, str]


def report_of(rank: int, facts: Facts, verdicts: Sequence[Verdict]) -> Report:
    """What is sent."""
    return Report(rank, facts.host, tuple(verdicts), dict(_compared(facts)))


def as_message(report: Report) -> dict[str, Any]:
    """The report as JSON's objects."""
    return {
        "rank": report.rank,
        "host": report.host,
        "verdicts": [asdict(one) for one in report.verdicts],
        "compared": dict(report.compared),
    }


def from_message(message: Mapping[str, Any]) -> Report:
    """What was sent, checked: another release's may be of another shape."""
    try:
        return Report(
            rank=int(message["rank"]),
            host=str(message["host"]),
            verdicts=tuple(_verdict(one) for one in message["verdicts"]),
            compared={str(name): str(value) for name, value in message["compared"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as failure:
        raise Gone(f"a report of another shape: {failure}") from None


def _verdict(message: Mapping[str, Any]) -> Verdict:
    words = {name: str(value) for name, value in message.items() if name != "status"}
    return Verdict(status=Status(message["status"]), **words)


def _compared(facts: Facts) -> Iterator[tuple[str, str]]:
    """`kind name` and value. Free space and loads differ anyway, and are no facts of this kind."""
    yield "python", facts.software.python
    yield from ((f"package {name}", version) for name, version in facts.software.packages.items())
    yield from (
        (f"setting {name}", " ".join(_PLACE.sub("", value).split()))
        for name, value in facts.environment.items()
        if not _OWN.search(name)
    )
    yield "driver", facts.gpus.driver or "none"
    names = sorted(card.name for card in facts.gpus.cards)
    yield "GPUs", f"{len(names)} x {', '.join(sorted(set(names)))}" if names else "none"
    yield from (
        (f"sysctl {name}", " ".join(value.split())) for name, value in facts.network.sysctls.items()
    )
    for one in facts.network.interfaces:
        if one.up and one.physical and one.mtu is not None:
            yield f"MTU {one.name}", str(one.mtu)
    for name, limit in (("open files", facts.machine.open_files), ("locked", facts.machine.locked)):
        if limit is not None:
            yield f"limit {name}", "none" if limit.soft is None else str(limit.soft)
    if facts.machine.huge_pages:
        yield "huge pages", facts.machine.huge_pages
    if facts.machine.governors:
        yield "governor", ", ".join(sorted(facts.machine.governors))
