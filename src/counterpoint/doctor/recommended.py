"""Recommended values of the kernel's TCP settings, each with its source.

There are two sources. MaxText's `rto_setup.sh` is what Google runs on TPU hosts before multislice
training (revision bee0290; its buffer sizes are from an earlier revision). ESnet's pages are for
hosts with fast interfaces. Where the two contradict each other (tcp_mtu_probing), nothing is
recommended.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown


@frozen(kw_only=True)
class RecommendedSysctl:
    """One sysctl, with the fields that `sysctls.toml` describes."""

    name: str
    write: str
    why: str
    source: str
    least: int | None = None
    most: int | None = None
    one_of: Sequence[str] = ()
    grave: bool = False
    grave_below: int | None = None

    def met(self, value: str) -> bool | None:
        """Return whether a value is acceptable; None if it can't be parsed."""
        words = value.split()
        if self.one_of:
            return value.strip() in self.one_of
        if not words or not words[-1].isdecimal():
            return None
        value_now = int(words[-1])
        return (self.least or 0) <= value_now <= (value_now if self.most is None else self.most)

    def is_grave(self, value: str) -> bool:
        """Return whether an unacceptable value costs much."""
        if self.grave_below is None:
            return self.grave
        return int(value.rsplit(maxsplit=1)[-1]) < self.grave_below


_TABLE: Final = tomllib.loads(
    files("counterpoint.doctor").joinpath("sysctls.toml").read_text(encoding="utf-8")
)


def _read(group: str) -> tuple[RecommendedSysctl, ...]:
    sources: dict[str, str] = _TABLE["sources"]
    return tuple(
        RecommendedSysctl(**entry | {"source": sources[entry["source"]]}) for entry in _TABLE[group]
    )


BUFFERS: Final = _read("buffers")
BEHAVIOR: Final = _read("behavior")
BACKLOG: Final = _read("backlog")[0]
MAXTEXT: Final[str] = _TABLE["sources"]["maxtext"]
FAST_MBPS: Final = 100_000
"""Interface speed from which ESnet recommends the longer queue."""

SYSCTLS: Final = (
    *(recommended.name for recommended in (*BUFFERS, *BEHAVIOR, BACKLOG)),
    "net.core.default_qdisc",
    "net.ipv4.tcp_mtu_probing",
    "kernel.numa_balancing",
)
"""All sysctls that are read."""


def compare_sysctls(
    facts: HostFacts, wanted: Sequence[RecommendedSysctl], fine: str
) -> Iterator[CheckResult]:
    """Yield one Verdict for each difference, or one `ok` if there is none."""
    if facts.hosts == 1 and not facts.dcn:
        yield not_applicable("one host, no step waits for TCP (for several hosts: `dcn=`)")
        return
    known = [
        (setting, facts.network.sysctls[setting.name])
        for setting in wanted
        if setting.name in facts.network.sysctls
    ]
    if not known:
        yield unknown("the kernel does not show these settings")
        return
    bad = [(setting, value) for setting, value in known if setting.met(value) is False]
    for setting, value in bad:
        grave = setting.is_grave(value) and facts.by_tcp
        yield CheckResult(
            status=Status.WARNING if grave else Status.NOTE,
            found=f"{setting.name} = {' '.join(value.split())}",
            wanted=setting.write,
            why=setting.why
            + ("" if facts.by_tcp else "; little of a step's traffic uses TCP on this host"),
            remedy=f"sudo sysctl -w {setting.name}={_quoted(setting.write)}",
            source=setting.source,
        )
    if not bad:
        yield ok(f"{fine} ({len(known)} settings)")


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value
