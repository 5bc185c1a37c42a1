"""Who is there: hosts of the run whose profiles are missing, chips that differ, other times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from counterpoint.hlo import Program
from counterpoint.timeline.device import Device
from counterpoint.timeline.origin import Origin

_LISTED: Final = 3
_NUMBER: Final = re.compile(r"(.*?)(\d+)(\D*)$")
_S: Final = 1e9
_APART_NS: Final = 60 * 10**9
"""Clocks may be off by so much on machines that nobody looks after; alignment puts that right."""


def absent_hosts(program: Program | None, devices: Sequence[Device], names: list[str]) -> list[str]:
    """Say so when a program runs on more devices than were read."""
    if program is None or not devices:
        return []
    total = program.num_partitions * program.num_replicas
    if total <= len(devices):
        return []
    each = set(Counter(device.host for device in devices).values())
    per_host = next(iter(each))
    if len(each) > 1 or total % per_host:
        read = f"profiles of {len(devices)} of {total} devices were read"
    else:
        hosts = total // per_host
        read = f"profiles of {len(devices) // per_host} of {hosts} hosts were read"
        missing = _missing(names, hosts)
        if missing:
            more = ", ..." if len(missing) > _LISTED else ""
            read += f" (without {', '.join(missing[:_LISTED])}{more})"
    here = f"{read}: the program runs on {total} devices, and {len(devices)} are here"
    return [f"{here}; who waits for the others is not known"]


def _missing(names: list[str], count: int) -> list[str]:
    """The names that are left out, where hosts are numbered one after the other."""
    found = [_NUMBER.match(name) for name in names]
    parts = [(match[1], match[2], match[3]) for match in found if match is not None]
    if len(parts) < len(names) or len({(head, tail) for head, _, tail in parts}) > 1:
        return []
    head, digits, tail = parts[0]
    width = len(digits) if digits.startswith("0") or len({len(p[1]) for p in parts}) == 1 else 0
    numbers = {int(number) for _, number, _ in parts}
    first = 1 if 0 not in numbers and count in numbers else 0
    expected = set(range(first, first + count))
    if not numbers <= expected or len(numbers) < 2:
        return []
    return [f"{head}{number:0{width}}{tail}" for number in sorted(expected - numbers)]


def differing_chips(devices: Sequence[Device]) -> list[str]:
    """Say so when devices are not alike."""
    chips = Counter(device.chip or "a chip without a name" for device in devices)
    if len(chips) < 2:
        return []
    told = ", ".join(f"{count} x {chip}" for chip, count in chips.most_common())
    means = "figures are means over all of them, and the slower ones set the pace"
    return [f"chips differ: {told}; {means}; --device explains some alone"]


def other_times(hosts: Sequence[Origin]) -> list[str]:
    """Say so when hosts did not record at the same time, by their own clocks."""
    first = hosts[0].interval_ns
    if first is None:
        return []
    apart: list[tuple[float, str]] = []
    for host in hosts[1:]:
        own = host.interval_ns
        if own is not None and max(own[0] - first[1], first[0] - own[1]) > _APART_NS:
            apart.append(((own[0] - first[0]) / _S, host.source))
    if not apart:
        return []
    seconds, source = max(apart, key=lambda one: abs(one[0]))
    others = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
    when = f"{_duration(abs(seconds))} {'after' if seconds > 0 else 'before'} {hosts[0].source}"
    why = "clocks are that far apart, or these are profiles of two runs, not to be read together"
    return [f"{source}{others} was recorded {when}, with no moment in common: {why}"]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"
