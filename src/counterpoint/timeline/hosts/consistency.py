"""Checks for hosts that are missing or do not belong to the run."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import Basis, InputError
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.model import Device
from counterpoint.timeline.recording import RecordingSummary
from counterpoint.timeline.steps import dominant

_LISTED: Final = 3
_NUMBER: Final = re.compile(r"(.*?)(\d+)(\D*)$")
_S: Final = 1e9
_APART_NS: Final = 60 * 10**9
"""Clocks of unsynchronized machines may differ by this much; alignment corrects that."""


_TURN_NS: Final = 10**9
"""Profiles of processes of one machine and one run may be this far apart: less than a start."""


def absent_hosts(
    program: Program | None, devices: Sequence[Device], planes: Sequence[int], names: list[str]
) -> list[str]:
    """Return a note if a program runs on more devices than have work in the profiles.

    `planes` has for each host how many devices its profile describes, with work or without.
    """
    if program is None or not devices:
        return []
    total = program.num_partitions * program.num_replicas
    if total <= len(devices):
        return []
    if sum(planes) >= total:
        lost = f"{total - len(devices)} of the {total} devices that the program runs on"
        return [f"the kernels of {lost} are missing: what these devices do was not recorded"]
    each = set(planes)
    per_host = next(iter(each))
    if len(each) > 1 or total % per_host:
        read = f"profiles of {len(devices)} of {total} devices were read"
    else:
        hosts = total // per_host
        read = f"profiles of {len(planes)} of {hosts} hosts were read"
        missing = _missing(names, hosts)
        if missing:
            more = ", ..." if len(missing) > _LISTED else ""
            read += f" (without {', '.join(missing[:_LISTED])}{more})"
    here = f"{len(devices)} of them {'is' if len(devices) == 1 else 'are'} read"
    finding = f"{read}: the program runs on {total} devices, {here}"
    return [f"{finding}; waits for the others are unknown"]


def absent_ranks(ranks: Sequence[tuple[int, int] | None]) -> list[str]:
    """Return a note if the processes of the profiles tell that their run had more of them."""
    known = [rank for rank in ranks if rank is not None]
    sizes = {size for _, size in known}
    if len(known) < len(ranks) or len(sizes) != 1:
        return []
    total, read = sizes.pop(), len({rank for rank, _ in known})
    if read >= total:
        return []
    return [f"profiles of {read} of {total} ranks were read; waits for the others are unknown"]


def _missing(names: list[str], count: int) -> list[str]:
    """Return the missing names, if hosts are numbered consecutively."""
    matches = [_NUMBER.match(name) for name in names]
    parts = [(match[1], match[2], match[3]) for match in matches if match is not None]
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
    """Return a note if devices have different chips."""
    chips = Counter(device.chip or "unnamed chip" for device in devices)
    if len(chips) < 2:
        return []
    counted = ", ".join(f"{count} x {chip}" for chip, count in chips.most_common())
    means = "figures are means over all of them, and the slowest set the pace"
    return [f"chips differ: {counted}; {means}; --device selects some of them"]


def other_times(recorded: Sequence[tuple[str, tuple[int, int] | None]]) -> list[str]:
    """Return a note if profiles were not recorded at the same time, by each host's own clock.

    They are given by their names, with when they begin and end in nanoseconds.
    """
    first_name, first = recorded[0] if recorded else ("", None)
    if first is None:
        return []
    apart: list[tuple[float, str]] = []
    for name, own in recorded[1:]:
        if own is not None and max(own[0] - first[1], first[0] - own[1]) > _APART_NS:
            apart.append(((own[0] - first[0]) / _S, name))
    if not apart:
        return []
    seconds, source = max(apart, key=lambda item: abs(item[0]))
    more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
    when = f"{_duration(abs(seconds))} {'after' if seconds > 0 else 'before'} {first_name}"
    why = "their clocks differ that much, or the profiles are of different runs"
    return [f"{source}{more} was recorded {when}, without overlap: {why}"]


def require_one_time(hosts: Sequence[RecordingSummary]) -> None:
    """Raise if a machine recorded one profile well after another: then it ran twice.

    Processes of one run are recorded at the same time, and on one machine by one clock. A moment
    between them may be a step in which they take turns; a new process can't start within it.
    """
    latest: dict[str, tuple[int, str]] = {}  # by machine: when a profile ends, and its name
    timed = [(host.interval_ns, host) for host in hosts if host.basis is Basis.MEASURED]
    known = [(interval, host) for interval, host in timed if interval is not None]
    newest = max((interval[0] for interval, _ in known), default=0)
    for (start, end), host in sorted(known, key=lambda each: each[0]):
        before, earlier = latest.get(host.host, (start, host.source))
        if start - before > _TURN_NS:
            last = next(host.source for interval, host in known if interval[0] == newest)
            raise InputError(
                f"{earlier} and {host.source} are of different runs, not hosts of one run",
                why=f"{host.host} recorded them one after the other,"
                f" {_duration((start - before) / _S)} apart",
                next=f"counterpoint explain {shlex.quote(last)}",
            )
        latest[host.host] = max((before, earlier), (end, host.source))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.1f} hours"


def copy_note(hosts: Sequence[RecordingSummary], new: RecordingSummary) -> str | None:
    """Return a note if a profile holds the same spans of the same host as another."""
    if new.content is None:
        return None
    for host in hosts:
        if host.content == new.content and host.host == new.host:
            return f"{new.source} is a copy of {host.source}, both of {host.host}: read once"
    return None


def suspect_copies(hosts: Sequence[RecordingSummary]) -> list[str]:
    """Return a warning for each profile with exactly the content of another host's profile.

    It still counts as a host: synthetic multi-host profiles are made of copies.
    """
    notes: list[str] = []
    first: dict[bytes, str] = {}
    for host in hosts:
        if host.content is None:
            continue
        twin = first.setdefault(host.content, host.source)
        if twin != host.source:
            notes.append(
                f"{host.source} has exactly the spans of {twin} and counts as another host:"
                " if it is a copy, leave it out"
            )
    return notes


def require_same_kind(hosts: Sequence[RecordingSummary], new: RecordingSummary) -> None:
    """Raise if GPU and TPU profiles, or measured and predicted ones, are mixed."""
    kinds = {device.kind: host.source for host in (*hosts, new) for device in host.devices}
    if len(kinds) > 1:
        named = ", ".join(f"{kind} in {source}" for kind, source in sorted(kinds.items()))
        raise InputError(
            f"these profiles are not of one run: {named}",
            why="several profiles are read as the hosts of one run",
            next="explain each separately",
        )
    bases = {host.basis: host.source for host in (*hosts, new)}
    if len(bases) > 1:
        predicted = bases[Basis.PREDICTED]
        measured = next(source for basis, source in bases.items() if basis is not Basis.PREDICTED)
        raise InputError(
            f"{predicted} is predicted, and {measured} is measured: they are not hosts of one run",
            next=f"counterpoint compare {shlex.quote(measured)} {shlex.quote(predicted)}",
        )


def unrelated_hosts(
    hosts: Sequence[RecordingSummary],
    devices: Sequence[Device],
    runs: pl.DataFrame,
    hosts_of_program: Mapping[int, Collection[int]],
    unlike: Collection[int],
) -> list[str]:
    """Return a warning if no host's main program ran on another, too.

    Programs are told apart by their names, and by their ops if these are `unlike`. Stages of a
    pipeline may have programs of their own, so that alone is no error. With different chips, or
    recorded at different times, the profiles are of different runs: raise.
    """
    if len({device.host for device in devices}) < 2:
        return []
    mains = _main_programs(runs, devices)
    if len(mains) < 2:  # nothing that could differ
        return []
    main = set(mains) - set(unlike)
    if any(len(hosts_of_program[program]) > 1 for program in main):
        return []
    chips = sorted({device.chip for device in devices if device.chip is not None})
    differ = [
        *([f"their chips differ ({' and '.join(chips)})"] if len(chips) > 1 else []),
        *other_times([(host.source, host.interval_ns) for host in hosts]),
    ]
    if differ:
        raise InputError(
            "these profiles are not of one run: their main programs differ",
            why=f"{differ[0]}; several profiles are read as the hosts of one run",
            next="explain each separately",
        )
    return [
        (
            f"these {len(hosts)} profiles have different main programs: they are probably not of"
            " one run, and figures over all of them mean little; explain each separately"
        )
    ]


def _main_programs(runs: pl.DataFrame, devices: Sequence[Device]) -> list[int]:
    """Return the program with most device time of each host on which any is known."""
    host = np.array([device.host for device in devices], dtype=np.int64)
    by_host = host[runs["device"].to_numpy()] if len(runs) else host[:0]
    programs = (dominant(runs.filter(by_host == one)) for one in np.unique(by_host))
    return [program for program in programs if program is not None]
