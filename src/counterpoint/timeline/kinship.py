"""Whether several profiles are hosts of one run."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.core.errors import InputError
from counterpoint.timeline.gather import Gathered
from counterpoint.timeline.recording import Recording


def without_copies(recordings: Sequence[Recording]) -> tuple[list[Recording], list[str]]:
    """Each profile once; one that was given twice, by whatever name, is left out and named."""
    kept: list[Recording] = []
    notes: list[str] = []
    for recording in recordings:
        twin = next((one for one in kept if _same(one, recording)), None)
        if twin is None:
            kept.append(recording)
        else:
            notes.append(f"{recording.source} is a copy of {twin.source}: it counts once")
    _require_one_kind(kept)
    return kept, notes


def _same(one: Recording, other: Recording) -> bool:
    return (
        len(one.spans) > 0
        and one.spans.shape == other.spans.shape
        and one.spans.equals(other.spans)
        and one.ops.equals(other.ops)
    )


def _require_one_kind(recordings: Sequence[Recording]) -> None:
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
