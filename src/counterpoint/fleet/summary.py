"""What a fleet shows as a whole: its step, its hosts one by one, late units and builds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.columns import around_median
from counterpoint.diagnose.selection import WindowKind
from counterpoint.fleet.collectives import FleetCollective, find_collectives
from counterpoint.fleet.extract import MOST_STEPS
from counterpoint.fleet.fleet import Fleet, FleetHost
from counterpoint.fleet.stragglers import Late, find_late
from counterpoint.fleet.tasks import Gathering


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """A host in its median step: means over its devices, as `explain` of its profile shows."""

    host: FleetHost
    devices: int
    step_ms: float
    compute_ms: float
    exposed_ms: float
    idle_ms: float
    each_ms: tuple[float, ...]  # of each step; NaN: it has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Hosts whose step has the same program; `build` is None where profiles hold no HLO."""

    program: str | None
    build: str | None
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FleetSummary:
    """Milliseconds of a median step, mean over all devices; or of what replaces it.

    `window_ms` is the length of that, to which the parts add up, and `step_ms` is None where no
    whole step was seen.
    """

    fleet: Fleet
    gathering: Gathering
    steps: int
    window_ms: float
    min_ms: float
    max_ms: float
    compute_ms: float
    hidden_ms: float
    exposed_ms: float
    copy_ms: float
    idle_ms: float
    hosts: tuple[HostRow, ...]
    late: tuple[Late, ...]
    builds: tuple[Build, ...]
    collectives: tuple[FleetCollective, ...]
    host_steps: NDArray[np.float64]  # milliseconds that a host waits in each step, a row per host

    @property
    def step_ms(self) -> float | None:
        """The median step."""
        return self.window_ms if self.fleet.window is WindowKind.STEP else None

    @property
    def is_full(self) -> bool:
        """Return whether there may have been more steps than extracts hold."""
        return self.steps == MOST_STEPS

    @property
    def builds_differ(self) -> bool:
        """Return whether one program was compiled to different modules."""
        programs = Counter(each.program for each in self.builds if each.build is not None)
        return any(count > 1 for count in programs.values())


def summarize(fleet: Fleet, gathering: Gathering) -> FleetSummary:
    """Return what a fleet shows."""
    lengths = fleet.step_lengths
    lengths = lengths[np.isfinite(lengths)]
    return FleetSummary(
        fleet=fleet,
        gathering=gathering,
        steps=len(lengths),
        window_ms=fleet.step_ms,
        min_ms=float(lengths.min()),
        max_ms=float(lengths.max()),
        **_parts(
            fleet.step_lengths,
            {name: np.nanmean(part, axis=0) for name, part in fleet.parts.items()},
        ),
        hosts=_rows(fleet),
        late=find_late(fleet),
        builds=_builds(fleet),
        collectives=find_collectives(fleet),
        host_steps=fleet.of_hosts(fleet.exposed),
    )


def _parts(
    lengths: NDArray[np.float64], parts: Mapping[str, NDArray[np.float64]]
) -> dict[str, float]:
    """Return what a median step consists of: parts of the steps around it, scaled to its length.

    So they add up to it, as those that `explain` shows of one profile.
    """
    known = np.isfinite(lengths)
    if not known.any():
        return {f"{name}_ms": np.nan for name in parts}
    low, high = around_median(lengths[known].tolist())
    typical = known & (low <= lengths) & (lengths <= high)
    scale = np.median(lengths[known]) / lengths[typical].mean()
    return {f"{name}_ms": float(part[typical].mean() * scale) for name, part in parts.items()}


def _rows(fleet: Fleet) -> tuple[HostRow, ...]:
    lengths = fleet.of_hosts(fleet.length)
    parts = {name: fleet.of_hosts(fleet.parts[name]) for name in ("compute", "exposed", "idle")}
    devices = np.bincount(fleet.host_of, minlength=len(fleet.hosts))
    return tuple(
        HostRow(
            host=host,
            devices=int(devices[at]),
            each_ms=tuple(own.tolist()),
            **_parts(own, {"step": own, **{name: part[at] for name, part in parts.items()}}),
        )
        for at, (host, own) in enumerate(zip(fleet.hosts, lengths, strict=True))
    )


def _builds(fleet: Fleet) -> tuple[Build, ...]:
    """Return the hosts of each program and build, the most frequent first."""
    by_build: dict[tuple[str | None, str | None], list[str]] = {}
    for host in fleet.hosts:
        by_build.setdefault((host.program, host.build), []).append(host.name)
    builds = [
        Build(program=program, build=build, hosts=tuple(hosts))
        for (program, build), hosts in by_build.items()
    ]
    return tuple(sorted(builds, key=lambda each: (-len(each.hosts), each.hosts)))
