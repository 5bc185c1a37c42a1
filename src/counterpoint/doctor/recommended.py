"""Recommended values of the kernel's TCP settings, each with its source.

There are two sources. MaxText's `rto_setup.sh` is what Google runs on TPU hosts before multislice
training (revision bee0290; its buffer sizes are from an earlier revision). ESnet's pages are for
hosts with fast interfaces. Where the two contradict each other (tcp_mtu_probing), nothing is
recommended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

MAXTEXT: Final = "https://github.com/AI-Hypercomputer/maxtext/blob/bee0290/rto_setup.sh"
ESNET: Final = "https://fasterdata.es.net/host-tuning/linux/"
GOOGLE: Final = "https://docs.cloud.google.com/compute/docs/networking/tcp-optimization-for-network-performance-in-gcp-and-hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedSysctl:
    """One sysctl. `least`, `most`: bounds on the last of its numbers; `one_of`: accepted values.

    `write` is the value to set. `grave`: a wrong value costs time in each step that waits for TCP;
    with `grave_below`, only a value below it does.
    """

    name: str
    write: str
    why: str
    source: str
    least: int | None = None
    most: int | None = None
    one_of: tuple[str, ...] = ()
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


BUFFERS: Final = (
    RecommendedSysctl(
        name="net.ipv4.tcp_rmem",
        write="4096 540000 15728640",
        least=15728640,
        grave_below=6291456,
        why="limits the TCP window, and so the bytes per round trip",
        source=MAXTEXT,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_wmem",
        write="4096 262144 67108864",
        least=67108864,
        grave_below=4194304,
        why="limits the bytes in flight without an acknowledgment",
        source=MAXTEXT,
    ),
    RecommendedSysctl(
        name="net.core.rmem_max",
        write="67108864",
        least=67108864,
        why="the largest receive buffer that programs can set (SO_RCVBUF)",
        source=ESNET,
    ),
    RecommendedSysctl(
        name="net.core.wmem_max",
        write="67108864",
        least=67108864,
        why="the largest send buffer that programs can set (SO_SNDBUF)",
        source=ESNET,
    ),
    RecommendedSysctl(
        name="net.core.optmem_max",
        write="131072",
        least=131072,
        why="zero-copy sends need memory for their bookkeeping",
        source=MAXTEXT,
    ),
)
"""Buffer sizes. Autotuned TCP uses tcp_rmem and tcp_wmem; below the kernel's default is grave."""

BEHAVIOR: Final = (
    RecommendedSysctl(
        name="net.ipv4.tcp_slow_start_after_idle",
        write="0",
        one_of=("0",),
        why="between the bursts of a step, the congestion window shrinks",
        source=MAXTEXT,
        grave=True,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_congestion_control",
        write="cubic",
        one_of=("cubic", "bbr", "bbr2", "bbr3", "dctcp", "htcp"),
        why="other algorithms grow too slowly on fast links",
        source=ESNET,
        grave=True,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_window_scaling",
        write="1",
        one_of=("1",),
        why="without it, no window is larger than 64 KiB",
        source=GOOGLE,
        grave=True,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_sack",
        write="1",
        one_of=("1",),
        why="without it, a lost packet retransmits much of the window",
        source=ESNET,
        grave=True,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_no_metrics_save",
        write="1",
        one_of=("1",),
        why="new connections would inherit the slow state of earlier ones",
        source=MAXTEXT,
    ),
    RecommendedSysctl(
        name="net.core.somaxconn",
        write="4096",
        least=4096,
        why="many hosts connect at once when a run starts",
        source=MAXTEXT,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_max_syn_backlog",
        write="4096",
        least=4096,
        why="many hosts connect at once when a run starts",
        source=MAXTEXT,
    ),
    RecommendedSysctl(
        name="net.ipv4.tcp_rto_min_us",
        write="5000",
        most=20000,
        why="a lost packet is retransmitted after 200 ms, longer than many training steps",
        source=MAXTEXT,
    ),
)
"""Settings of TCP's behavior, apart from buffer sizes."""

BACKLOG: Final = RecommendedSysctl(
    name="net.core.netdev_max_backlog",
    write="250000",
    least=250000,
    why="a burst at 100 Gb/s overruns a shorter queue",
    source=ESNET,
)
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
    """Yield one CheckResult for each difference, or one `ok` if there is none."""
    if facts.hosts == 1 and not facts.dcn:
        yield not_applicable("one host, no step waits for TCP (for several hosts: --dcn)")
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
