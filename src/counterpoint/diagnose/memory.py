"""Memory of the devices in a Run: how much of it was used at most, and how much there was.

The agent asks JAX's allocator for both. Older Runs tell no limit: then it is known only where the
Run names the allocator's share, since what it inherited is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from counterpoint.compile.allocator import VARIABLES, memory_fraction
from counterpoint.core.errors import UsageError
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.machines import chip_of
from counterpoint.hardware.gpu import gpus
from counterpoint.runs import Run
from counterpoint.runs.variables import variables_of

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the device that used most; `whole` is the chip's."""

    peak: int
    limit: int | None
    whole: int | None

    @property
    def most(self) -> int | None:
        """What a program could have at most, as far as it is known."""
        return self.limit if self.limit is not None else self.whole

    @property
    def spare(self) -> int | None:
        """What was never used."""
        return None if self.most is None else max(0, self.most - self.peak)


def memory_of(case: Case) -> Memory | None:
    """None where no Run tells the peak."""
    run = case.context.run
    peaks = dict(_peaks(run)) if run is not None else {}
    if run is None or not peaks:
        return None
    fullest = max(peaks, key=lambda device: peaks[device])
    whole = _whole(case)
    told = dict(_limits(run)).get(fullest)
    return Memory(peaks[fullest], told or _by_share(case, run, whole), whole)


_Device = tuple[int, int, str]


def _peaks(run: Run) -> Iterator[tuple[_Device, int]]:
    for rank in run.ranks:
        for process in rank.processes:
            for device, peak in process.peak_memory.items():
                if device != "host" and peak > 0:
                    yield (rank.number, process.pid, device), peak


def _limits(run: Run) -> Iterator[tuple[_Device, int]]:
    for rank in run.ranks:
        for process in rank.processes:
            told = process.facts.get("memory_limit")
            if isinstance(told, dict):
                for device, limit in cast("Mapping[str, object]", told).items():
                    if isinstance(limit, int) and limit > 0:
                        yield (rank.number, process.pid, device), limit


def _whole(case: Case) -> int | None:
    chip = chip_of(case)
    if chip is None:
        return None
    gpu = next((gpu for gpu in gpus() if gpu.chip == chip.name), None)
    return gpu.memory_bytes if gpu else round(chip.memory_bytes)


def _by_share(case: Case, run: Run, whole: int | None) -> int | None:
    known = variables_of(run) | dict(case.context.environment or {})
    if whole is None or not any(known.get(name, "").strip() for name in VARIABLES):
        return None
    try:
        return int(whole * memory_fraction(known))
    except UsageError:  # a share that JAX did not take either
        return None
