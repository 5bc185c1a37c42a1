"""Device memory of a Run, and the work that a step repeats to save it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import polars as pl

from counterpoint.core import UsageError
from counterpoint.diagnose.attribution import holding
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import chip_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.phase import Phase
from counterpoint.timeline.model import Lane

if TYPE_CHECKING:
    from counterpoint.runs.run import Run

GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of the device with the highest peak; `whole` is the chip's capacity."""

    peak: int
    limit: int | None
    whole: int | None

    @property
    def most(self) -> int | None:
        """The most a program could allocate, as far as is known."""
        return self.limit if self.limit is not None else self.whole

    @property
    def spare(self) -> int | None:
        """Memory that was never used."""
        return None if self.most is None else max(0, self.most - self.peak)


def memory_of(data: StepData) -> DeviceMemory | None:
    """Return the memory use; None if no Run recorded the peak.

    The agent reads peak and limit from JAX's allocator. Older Runs lack the limit: then it is known
    only if the Run names the allocator's share, since inherited variables are not kept.
    """
    run = data.context.run
    peaks = dict(_peaks(run)) if run is not None else {}
    if run is None or not peaks:
        return None
    fullest = max(peaks, key=lambda device: peaks[device])
    whole = _whole(data)
    limit = dict(_limits(run)).get(fullest)
    return DeviceMemory(peaks[fullest], limit or _by_share(data, run, whole), whole)


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
            limits = process.facts.get("memory_limit")
            if isinstance(limits, dict):
                for device, limit in cast("Mapping[str, object]", limits).items():
                    if isinstance(limit, int) and limit > 0:
                        yield (rank.number, process.pid, device), limit


def _whole(data: StepData) -> int | None:
    chip = chip_of(data)
    if chip is None:
        return None
    return chip.gpu.memory_bytes if chip.gpu else round(chip.memory_bytes)


def _by_share(data: StepData, run: Run, whole: int | None) -> int | None:
    from counterpoint.compile.allocator import MEMORY_VARIABLES, memory_fraction
    from counterpoint.runs.reports import variables_of

    known = variables_of(run) | dict(data.context.environment or {})
    if whole is None or not any(known.get(name, "").strip() for name in MEMORY_VARIABLES):
        return None
    try:
        return int(whole * memory_fraction(known))
    except UsageError:  # a share that JAX rejects too
        return None


_CLONE: Final = r"\.remat\d*(_(un)?compressed)?(\.\d+)*$"


def by_request(data: StepData) -> pl.DataFrame:
    """Return rows of `StepData.ops` that repeat the forward pass; `ms` is their exposed time.

    JAX marks what `jax.checkpoint` recomputes with `rematted_computation`.
    """
    rows = data.ops.filter((pl.col("phase") == Phase.REMAT) & ~pl.col("op").str.contains(_CLONE))
    return _with_ms(data, rows)


def by_compiler(data: StepData) -> pl.DataFrame:
    """Return rows of `StepData.ops` that XLA cloned from others to save memory.

    XLA's pass clones instructions with the suffix `.remat`
    (xla/hlo/transforms/simplifiers/hlo_rematerialization.cc).
    """
    return _with_ms(data, data.ops.filter(pl.col("op").str.contains(_CLONE)))


def _exposed_copies(data: StepData) -> pl.DataFrame:
    """Return the time of each copy in which neither a kernel computes nor a collective runs."""
    copies = (
        data.timeline.ops.with_row_index("row")
        .filter(pl.col("lane") == Lane.COPY)
        .select("row", "program", name=pl.coalesce("op", "name"))
    )
    return (
        holding(data.selection, data.spans)
        .filter(pl.col("step").is_not_null())
        .join(copies, left_on="op", right_on="row")
        .group_by("program", op="name")
        .agg(exposed_ms=pl.col("held_ps").sum() * data.selection.scale)
    )


def original(row: dict[str, Any]) -> str:
    """Return the name of the op that a clone was made from."""
    return re.sub(_CLONE, "", str(row["op"]))


def _with_ms(data: StepData, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `ms`: the exposed time of collectives and copies, the self time of others; sorted by it.

    A step is no longer for what it repeats while it computes.
    """
    exposed = data.cached(collective_profile).select("program", "op", "exposed_ms")
    if (rows["lane"] == Lane.COPY).any():
        exposed = pl.concat([exposed, data.cached(_exposed_copies)])
    return (
        rows.join(exposed, on=["program", "op"], how="left", nulls_equal=True)
        .with_columns(ms=pl.coalesce("exposed_ms", "self_ms"))
        .drop("exposed_ms")
        .filter(pl.col("ms") > 0)
        .sort("ms", "op", descending=[True, False])
    )
