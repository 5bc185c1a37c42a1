"""Whether several profiles are hosts of one run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from counterpoint.core.basis import Basis
from counterpoint.core.errors import InputError
from counterpoint.timeline.device import Device
from counterpoint.timeline.origin import Origin


def told_already(hosts: Sequence[Origin], new: Origin) -> str | None:
    """What to say of a profile that another holds already: the very spans, of the same host."""
    if new.content is None:
        return None
    for host in hosts:
        if host.content == new.content and host.host == new.host:
            return f"{new.source} is a copy of {host.source}, both of {host.host}: read once"
    return None


def suspect_copies(hosts: Sequence[Origin]) -> list[str]:
    """A warning for each profile that holds exactly what that of another host holds.

    It counts as a host all the same: made-up sets of many hosts are made of copies.
    """
    notes: list[str] = []
    first: dict[bytes, str] = {}
    for host in hosts:
        if host.content is None:
            continue
        twin = first.setdefault(host.content, host.source)
        if twin != host.source:
            notes.append(
                f"{host.source} holds the very spans of {twin}: if it is a copy, leave"
                " it out, for here it counts as another host"
            )
    return notes


def require_same_kind(hosts: Sequence[Origin], new: Origin) -> None:
    """Refuse to take a GPU's and a TPU's, or a measured and a predicted one, for one run's."""
    kinds = {device.kind: one.source for one in (*hosts, new) for device in one.devices}
    if len(kinds) > 1:
        found = ", ".join(f"{kind} in {source}" for kind, source in sorted(kinds.items()))
        raise InputError(
            f"these profiles are not of one run: {found}",
            why="several profiles are read as the hosts of one run",
            next="explain each by itself",
        )
    bases = {one.basis: one.source for one in (*hosts, new)}
    if len(bases) > 1:
        predicted = bases[Basis.PREDICTED]
        other = next(source for basis, source in bases.items() if basis is not Basis.PREDICTED)
        raise InputError(
            f"{predicted} is predicted, and {other} is measured: they are not hosts of one run",
            next=f"counterpoint compare {shlex.quote(other)} {shlex.quote(predicted)}",
        )


def strangers(
    devices: Sequence[Device], hosts_of_program: Mapping[int, Collection[int]]
) -> list[str]:
    """A warning when no program ran on more than one host."""
    hosts = {device.host for device in devices}
    if len(hosts) < 2 or any(len(ran_on) > 1 for ran_on in hosts_of_program.values()):
        return []
    return [
        (
            f"these {len(hosts)} profiles share no program: they are hardly of one run, and figures"
            " of all together mean little; explain each by itself"
        )
    ]
