"""Hosts of one run differ in versions, settings or hardware.

## What it does

Compares what all hosts have: packages, settings of XLA, JAX and NCCL, driver, GPUs, kernel
settings, MTU, limits.

## Why it costs time

Processes with other versions or flags compile other programs: collectives that don't match hang. A
host with smaller buffers or packets makes all others wait for it.

## How it is detected

Each rank of `counterpoint doctor --cluster` sends its facts to rank 0. What most have is taken as
meant; who differs is named, by rank where ranks of one host differ. jax, jaxlib, plugins, libtpu,
NCCL, XLA_FLAGS and the GPUs are errors, other packages, variables, the driver, network settings and
limits warnings. Variables that name a rank, a device, a file or an interface are left out.

## Example

```
jaxlib: 0.10.1 on node7, 0.10.2 on the 63 others
```

## Fix

The same container image, and one place that sets variables, for all hosts.

## Fix safety

Which of the two is meant is not known here.

## False alarms

A run that mixes kinds of hosts on purpose (a CPU host that only coordinates).

## References

- https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from counterpoint.doctor.cluster.gathering import Gathering
from counterpoint.doctor.diagnosis import Status, Verdict, not_applicable, ok

CODE: Final = "DOC601"
NAME: Final = "hosts-differ"
SINCE: Final = "0.1"

_SOURCE: Final = "https://docs.jax.dev/en/latest/multi_process.html"
_GRAVE: Final = re.compile(
    r"package (jax|jaxlib|libtpu|jax-cuda\d+-(plugin|pjrt)|nvidia-nccl.*)"
    r"|setting (XLA_FLAGS|LIBTPU_INIT_ARGS|JAX_ENABLE_X64|JAX_DEFAULT_MATMUL_PRECISION)|GPUs"
)
_SLIGHT: Final = re.compile(r"huge pages|governor|sysctl kernel\..*")
_NAMED: Final = 6
_WHY: Final = {
    "package": "other versions compile other programs",
    "python": "other versions may compile other programs",
    "setting": "other settings compile other programs, or choose other algorithms",
    "GPUs": "programs are compiled for one kind and number of devices",
    "driver": "one host may fail, or be slower, where others are not",
    "sysctl": "the slowest connection makes all others wait",
    "MTU": "large packets are lost on the way to the smaller one, or sent in pieces",
    "limit": "the run ends at the lowest",
}
_LACKING: Final = "not there"
_LOOK: Final = {
    "python": "python --version   # on each host: the same image or environment for all",
    "driver": "nvidia-smi   # on each host",
    "GPUs": "nvidia-smi -L   # on each host",
    "limit": "ulimit -l   # on each host; /etc/security/limits.d sets it",
    "huge": "cat /sys/kernel/mm/transparent_hugepage/enabled   # on each host",
    "governor": "sudo cpupower frequency-set -g performance   # on all hosts",
}


def check(gathering: Gathering) -> Iterator[Verdict]:
    """One for each fact in which hosts differ."""
    reports = gathering.reports
    if len(reports) < 2:
        yield not_applicable("one rank: nothing to compare")
        return
    found = False
    for name in sorted({name for report in reports for name in report.compared}):
        having = _having(gathering, name)
        if len(having) > 1:
            found = True
            yield _verdict(name, having)
    if not found:
        hosts = len({report.host for report in reports})
        where = "one host" if hosts == 1 else f"{hosts} hosts"
        yield ok(f"{len(reports)} ranks on {where} have the same versions and settings")


def _having(gathering: Gathering, name: str) -> Mapping[str, list[str]]:
    """Hosts by what they have of it. An interface that a host has not is no difference.

    Where ranks of one host differ, the ranks are named.
    """
    found: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
    everywhere = name.startswith(("package", "setting"))
    for report in gathering.reports:
        value = report.compared.get(name, _LACKING if everywhere else None)
        if value is not None:
            found[value].setdefault(report.host, []).append(report.rank)
    times = Counter(host for hosts in found.values() for host in hosts)
    return {
        value: [
            label
            for host, ranks in hosts.items()
            for label in (
                [host] if times[host] == 1 else [f"rank {one} of {host}" for one in ranks]
            )
        ]
        for value, hosts in found.items()
    }


def _verdict(name: str, having: Mapping[str, list[str]]) -> Verdict:
    kind, _, rest = name.partition(" ")
    usual = max(having, key=lambda value: (len(having[value]), value != _LACKING))
    others = [value for value in having if value != usual]
    parts = [f"{_short(value)} on {_hosts(having[value])}" for value in others]
    parts.append(f"{_short(usual)} on {_rest(having[usual])}")
    status = Status.WARNING
    if _GRAVE.fullmatch(name):
        status = Status.ERROR
    elif _SLIGHT.fullmatch(name):
        status = Status.NOTE
    return Verdict(
        status=status,
        found=f"{_label(kind, rest)}: {', '.join(parts)}",
        wanted="the same on all hosts",
        why=_WHY.get(kind, "hosts of one run should be alike"),
        remedy=_remedy(kind, rest, usual),
        source=_SOURCE,
    )


def _label(kind: str, rest: str) -> str:
    if kind in ("package", "setting", "sysctl"):
        return rest
    return f"{kind} {rest}".strip()


def _hosts(hosts: list[str]) -> str:
    more = f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else ""
    return ", ".join(hosts[:_NAMED]) + more


def _rest(hosts: list[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"the {len(hosts)} others"


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."


def _remedy(kind: str, name: str, usual: str) -> str:
    if kind == "package":
        return f"pip uninstall {name}" if usual == _LACKING else f"pip install {name}=={usual}"
    if kind == "setting":
        given = f"export {name}={shlex.quote(usual)}"
        return f"{f'unset {name}' if usual == _LACKING else given}   # or the other one, everywhere"
    if name == "open files":
        return f"ulimit -n {'unlimited' if usual == 'none' else usual}"
    if kind == "sysctl":
        value = f'"{usual}"' if " " in usual else usual
        return f"sudo sysctl -w {name}={value}"
    if kind == "MTU":
        return f"sudo ip link set dev {name} mtu {usual}"
    return _LOOK.get(kind, "")
