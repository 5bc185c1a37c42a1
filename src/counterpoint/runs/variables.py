"""The settings that a Run's program had, as far as the Run tells: what it inherited is not kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from counterpoint.runs.run import Rank, Run


def variables_of(run: Run) -> dict[str, str]:
    """Variables of the first rank that were set or changed, and XLA_FLAGS as XLA read them."""
    if not run.ranks:
        return {}
    rank = run.ranks[0]
    found = dict(_set(rank.environment.get("set"))) | dict(
        _changed(rank.environment.get("changed"))
    )
    read = next((flags for flags in _flags_read(rank) if flags), None)
    return found | ({"XLA_FLAGS": read} if read else {})


def jaxlib_of(run: Run) -> str | None:
    """The jaxlib that the program ran on."""
    versions = (process.versions.get("jaxlib") for rank in run.ranks for process in rank.processes)
    return next((version for version in versions if version), None)


def device_of(run: Run) -> str | None:
    """What its devices are called."""
    devices = (name for rank in run.ranks for process in rank.processes for name in process.devices)
    return next(devices, None)


def _set(added: object) -> Iterator[tuple[str, str]]:
    if isinstance(added, dict):
        for name, value in cast("Mapping[str, object]", added).items():
            yield name, str(value)


def _changed(changed: object) -> Iterator[tuple[str, str]]:
    if isinstance(changed, dict):
        for name, values in cast("Mapping[str, Sequence[object]]", changed).items():
            yield name, str(values[-1]) if values else ""


def _flags_read(rank: Rank) -> Iterator[str]:
    for process in rank.processes:
        flags = process.facts.get("xla_flags")
        if isinstance(flags, str):
            yield flags
