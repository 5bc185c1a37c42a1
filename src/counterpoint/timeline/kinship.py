"""Whether several profiles are hosts of one run."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.core.errors import InputError
from counterpoint.timeline.gather import Gathered
from counterpoint.timeline.recording import Recording


def suspect_copies(recordings: Sequence[Recording]) -> list[str]:
    """A warning for each profile that holds exactly what another holds.

    It counts as a host all the same: made-up sets of many hosts are made of copies.
    """
    notes: list[str] = []
    for index, recording in enumerate(recordings):
        twin = next((one for one in recordings[:index] if _same(one, recording)), None)
        if twin is not None:
            notes.append(
                f"{recording.source} holds the very spans of {twin.source}: if it is a copy, leave"
                " it out, for here it counts as another host"
            )
    return notes


def _same(one: Recording, other: Recording) -> bool:
    return (
        len(one.spans) > 0
        and one.spans.shape == other.spans.shape
        and one.spans.equals(other.spans)
        and one.ops.equals(other.ops)
    )


def require_one_kind(recordings: Sequence[Recording]) -> None:
    """Refuse to take a GPU's and a TPU's profile for hosts of one run."""
    kinds = {device.kind: one.source for one in recordings for device in one.devices}
    if len(kinds) > 1:
        found = ", ".join(f"{kind} in {source}" for kind, source in sorted(kinds.items()))
        raise InputError(
            f"these profiles are not of one run: {found}",
            why="several profiles are read as the hosts of one run",
            next="explain each by itself",
        )


def strangers(gathered: Gathered) -> list[str]:
    """A warning when no program ran on more than one host."""
    hosts = {device.host for device in gathered.devices}
    if len(hosts) < 2 or any(len(ran_on) > 1 for ran_on in gathered.hosts_of_program.values()):
        return []
    return [
        (
            f"these {len(hosts)} profiles share no program: they are hardly of one run, and figures"
            " of all together mean little; explain each by itself"
        )
    ]
