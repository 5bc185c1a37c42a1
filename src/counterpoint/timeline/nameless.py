"""Steps of a profile that names no program, whose host markers say how many there are.

Kernels of CUDA graphs name neither their instruction nor their program, so no run is known. But
steps are alike: a kernel that executes a whole number of times per marker tells where each begins,
also where the host is far ahead of its devices. Where kernels don't divide so (the profile began
in the middle of a step, say) nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

_MOST: Final = 0.9
"""Of a device's time: kernels that execute a whole number of times per marker."""
_ALIKE: Final = 0.1
"""Of the spans in a usual step: steps that differ by more are not told apart rightly."""


def steps_like_markers(
    spans: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> pl.DataFrame | None:
    """Steps of all devices, one for each marker of their host; None where spans don't tell.

    Markers are in order, with the `step` that each marks.
    """
    parts: list[pl.DataFrame] = []
    for (device,), own in spans.group_by("device", maintain_order=True):
        index = int(str(device))
        steps = markers.filter(pl.col("host") == host_of_device[index])["step"]
        starts = _starts(own, len(steps)) if len(steps) > 1 else None
        if starts is None:
            return None
        last = int((own["start_ps"] + own["dur_ps"]).to_numpy().max())
        ends = np.append(starts[1:], last)
        parts.append(
            pl.DataFrame({"step": steps, "start_ps": starts, "end_ps": ends}).select(
                pl.col("step").cast(pl.Int32),
                pl.lit(index, pl.UInt16).alias("device"),
                "start_ps",
                "end_ps",
            )
        )
    return pl.concat(parts) if parts else None


def _starts(spans: pl.DataFrame, count: int) -> NDArray[np.int64] | None:
    ops = spans.group_by("op").agg(pl.len(), pl.col("dur_ps").sum(), pl.col("start_ps").min())
    whole = ops.filter(pl.col("len") % count == 0)
    if int(whole["dur_ps"].sum()) < max(1, _MOST * int(ops["dur_ps"].sum())):
        return None
    first = whole.sort("start_ps", "op").row(0, named=True)
    begins = spans.filter(pl.col("op") == first["op"])["start_ps"].sort().to_numpy()
    starts = begins[:: first["len"] // count]
    at = np.searchsorted(starts, spans["start_ps"].to_numpy(), side="right") - 1
    held = np.bincount(at[at >= 0], minlength=count)
    usual = float(np.median(held))
    return starts if (np.abs(held - usual) <= _ALIKE * usual).all() else None
