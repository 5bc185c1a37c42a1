"""Hosts of one run differ in versions, settings or hardware.

## What it does

Compares packages, settings of XLA, JAX and NCCL, driver, GPUs, kernel settings, MTU and limits of
all hosts.

## Why it costs time

Processes with different versions or flags compile different programs, and collectives that don't
match hang. A host with smaller buffers or packets makes all others wait.

## How it is detected

`counterpoint doctor --json` writes the facts of its host, and `counterpoint doctor --compare` reads
those of all hosts. The most common value is taken as intended; hosts with another one are named.
Differences in jax, jaxlib, plugins, libtpu, NCCL, XLA_FLAGS and the GPUs are errors; in other
packages, variables, the driver, network settings and limits, warnings. Variables that name a rank,
a device, a file or an interface are ignored.

## Example

```
jaxlib: 0.10.1 on node7, 0.10.2 on the 63 others
```

## Fix

Use the same container image on all hosts, and set variables in one place.

## Fix safety

The doctor can't know which value is intended.

## False alarms

A run that deliberately mixes kinds of hosts, such as a CPU host that only coordinates.

## References

- https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from counterpoint.core.printable import some
from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, HostReport, Status, not_applicable, ok

CODE: Final = "DOC601"
NAME: Final = "hosts-differ"
SINCE: Final = "0.1"

_OWN: Final = re.compile(
    r"RANK|PROCESS|LOCAL_ID|_ID$|_IDS$|VISIBLE|TASK|WORKER|SLICE_ID|HOSTID|_PORT$|_IFNAME|_HCA"
    r"|_BIND|GPU_DEVICE|TOPO_FILE|_DUMP_|_FILE$|_DIR$|_NICS?$"
)
"""Names of variables that are meant to differ between ranks or hosts."""
_DUMP: Final = re.compile(r"--xla_dump_to=\S*")
"""A flag that may name another directory on each rank without changing the program."""
_GRAVE: Final = re.compile(
    r"package (jax|jaxlib|libtpu|jax-cuda\d+-(plugin|pjrt)|nvidia-nccl.*)"
    r"|setting (XLA_FLAGS|LIBTPU_INIT_ARGS|JAX_ENABLE_X64|JAX_DEFAULT_MATMUL_PRECISION)|GPUs"
)
_SLIGHT: Final = re.compile(r"huge pages|governor|sysctl kernel\..*")
_MISSING: Final = "missing"
_NAMED: Final = 6

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "package": ("different versions compile different programs", "pip install {name}=={value}"),
    "python": (
        "different versions may compile different programs",
        "python --version   # on each host",
    ),
    "setting": (
        "different settings compile different programs or select different algorithms",
        "export {name}={value}   # or the other value, on all hosts",
    ),
    "driver": (
        "one host may fail or be slower than the others",
        "nvidia-smi   # on each host",
    ),
    "GPUs": ("a program is compiled for one kind and number of devices", "nvidia-smi -L"),
    "sysctl": ("the slowest connection makes all others wait", "sudo sysctl -w {name}={value}"),
    "MTU": ("large packets are lost or fragmented", "sudo ip link set dev {name} mtu {value}"),
    "open files": ("the run ends at the lowest limit", "ulimit -n {value}"),
    "locked memory": ("the run ends at the lowest limit", "ulimit -l   # on each host"),
    "huge pages": ("hosts should be alike", "cat /sys/kernel/mm/transparent_hugepage/enabled"),
    "governor": ("hosts should be alike", "sudo cpupower frequency-set -g performance"),
}
"""The reason why a difference matters, and the command that fixes it, by kind of fact."""


def comparable(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """Yield facts that should be the same on all hosts, as `KIND NAME` or `KIND`, with values."""
    yield "python", facts.software.python
    yield from ((f"package {name}", version) for name, version in facts.software.packages.items())
    for name, value in facts.environment.items():
        if not _OWN.search(name):
            yield f"setting {name}", " ".join(_DUMP.sub("", value).split())
    yield "driver", facts.gpus.driver or "none"
    names = sorted(card.name for card in facts.gpus.cards)
    yield "GPUs", f"{len(names)} x {', '.join(sorted(set(names)))}" if names else "none"
    for name, value in facts.network.sysctls.items():
        yield f"sysctl {name}", " ".join(value.split())
    for interface in facts.network.interfaces:
        if interface.up and interface.physical and interface.mtu is not None:
            yield f"MTU {interface.name}", str(interface.mtu)
    machine = facts.machine
    for name, limit in (("open files", machine.open_files), ("locked memory", machine.locked)):
        if limit is not None:
            yield name, "unlimited" if limit.soft is None else str(limit.soft)
    if machine.huge_pages:
        yield "huge pages", machine.huge_pages
    if machine.governors:
        yield "governor", ", ".join(sorted(machine.governors))


def check(reports: Sequence[HostReport]) -> Iterator[CheckResult]:
    """Yield one verdict for each fact in which hosts differ."""
    if len(reports) < 2:
        yield not_applicable("one host: nothing to compare")
        return
    alike = True
    for fact in sorted({fact for report in reports for fact in report.compared}):
        places = _places(reports, fact)
        if len(places) > 1:
            alike = False
            yield _difference(fact, places)
    if alike:
        yield ok(f"{len(reports)} hosts have the same versions and settings")


def _places(reports: Sequence[HostReport], fact: str) -> Mapping[str, list[str]]:
    """Return the hosts by value.

    A missing interface or limit is not a difference; a missing package or setting is.
    """
    default = _MISSING if fact.startswith(("package", "setting")) else None
    hosts: dict[str, list[str]] = {}
    for report in reports:
        value = report.compared.get(fact, default)
        if value is not None:
            hosts.setdefault(value, []).append(report.host)
    return hosts


def _difference(fact: str, places: Mapping[str, list[str]]) -> CheckResult:
    kind = next(kind for kind in _KINDS if fact == kind or fact.startswith(f"{kind} "))
    name = fact.removeprefix(kind).strip()
    usual = max(places, key=lambda value: (len(places[value]), value != _MISSING))
    parts = [
        f"{_short(value)} on {some(places[value], _NAMED)}" for value in places if value != usual
    ]
    most = places[usual]
    parts.append(f"{_short(usual)} on {most[0] if len(most) == 1 else f'the {len(most)} others'}")
    status = Status.NOTE if _SLIGHT.fullmatch(fact) else Status.WARNING
    why, remedy = _KINDS[kind]
    if usual == _MISSING:
        remedy = {"package": "pip uninstall {name}", "setting": "unset {name}"}[kind]
    return CheckResult(
        status=Status.ERROR if _GRAVE.fullmatch(fact) else status,
        found=f"{fact if kind == 'MTU' else name or kind}: {', '.join(parts)}",
        wanted="the same on all hosts",
        why=why,
        remedy=remedy.format(name=name, value=shlex.quote(usual)),
        source="https://docs.jax.dev/en/latest/multi_process.html",
    )


def _short(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "..."
