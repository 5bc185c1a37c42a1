"""The device memory that allocators have given out, from their events on host threads.

XLA's allocator (tsl/framework/bfc_allocator.cc) and libtpu record each allocation and release at
host_tracer_level 2, the profiler's default: events without length, whose stats tell how much is
given out afterwards. A GPU's allocator is named GPU_0_bfc; a TPU's has the number of its core.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.model import MEMORY, Device
from counterpoint.timeline.xplane.events import Events, Stat
from counterpoint.timeline.xplane.planes import USED_STAT, Plane, as_text

_FREE_STAT: Final = "bytes_available"
_RESERVED_STAT: Final = "bytes_reserved"
_PEAK_STAT: Final = "peak_bytes_in_use"
_NAME_STAT: Final = "allocator_name"
_CORE_STAT: Final = "index_on_host"
_GPU: Final = re.compile(r"GPU_(\d+)_bfc$")


def memory_changes(plane: Plane, events: Events, start: NDArray[np.int64]) -> pl.DataFrame:
    """Return the changes of device memory on a thread, with `kind` and `ordinal` of the device."""
    used, free = _numbers(events, USED_STAT), _numbers(events, _FREE_STAT)
    reserved = _numbers(events, _RESERVED_STAT).fill_null(0)
    kind, ordinal = _owners(plane, events)
    table = pl.DataFrame(
        {
            "kind": kind,
            "ordinal": ordinal,
            "start_ps": start,
            "used_bytes": used,
            "limit_bytes": used + free + reserved,
            "peak_bytes": _numbers(events, _PEAK_STAT),
        }
    )
    return table.filter(pl.col("kind").is_not_null() & (pl.col("used_bytes") >= 0))


def of_devices(changes: Sequence[pl.DataFrame], devices: Sequence[Device]) -> pl.DataFrame:
    """Return the changes in the memory of these devices; of others, nothing is known."""
    known = pl.DataFrame(
        {
            "kind": [device.kind for device in devices],
            "ordinal": [device.ordinal for device in devices],
            "device": range(len(devices)),
        },
        schema={"kind": pl.String, "ordinal": pl.Int64, "device": pl.UInt16},
    )
    joined = pl.concat(changes).join(known, on=("kind", "ordinal"), maintain_order="left")
    return joined.sort("start_ps", maintain_order=True).select(*MEMORY).cast({**MEMORY})


def _numbers(events: Events, name: str) -> pl.Series:
    stat = events.stats.get(name)
    if stat is None:
        return pl.Series(name, [None], pl.Int64).new_from_index(0, len(events))
    known = pl.Series(stat.known & ~stat.is_text)
    return pl.select(pl.when(known).then(pl.Series(stat.value))).to_series()


def _owners(plane: Plane, events: Events) -> tuple[pl.Series, pl.Series]:
    """Return kind and ordinal of the device of each event; null: the host's memory, or unknown."""
    named, core = events.stats.get(_NAME_STAT), events.stats.get(_CORE_STAT)
    owners: list[tuple[str, int] | None] = [None] * len(events)
    if named is not None:
        owners = [_gpu(text) for text in _texts(plane, named)]
    if core is not None:
        rows = zip(owners, core.known.tolist(), core.value.tolist(), strict=True)
        owners = [("tpu", number) if own is None and known else own for own, known, number in rows]
    kinds = [None if it is None else it[0] for it in owners]
    ordinals = [None if it is None else it[1] for it in owners]
    return pl.Series(kinds, dtype=pl.String), pl.Series(ordinals, dtype=pl.Int64)


def _gpu(allocator: str | None) -> tuple[str, int] | None:
    match = _GPU.match(allocator or "")
    return ("gpu", int(match[1])) if match else None


def _texts(plane: Plane, stat: Stat) -> list[str | None]:
    return [as_text(value) for value in plane.values(stat)]
