"""How much of the chip a step uses, where operations and bytes are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from counterpoint.diagnose.selection import Selection
from counterpoint.hardware import find_chip
from counterpoint.timeline.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Figures of a median step, mean over devices; None where something needed is not known.

    FLOP/s and bytes count what the compiled ops do, rematerialisation included, so `mfu` is the
    hardware's utilisation: the model's own is lower by the recomputed part.
    """

    chip: str | None
    busy_share: float | None
    flops_per_s: float | None
    flops_known_share: float | None  # of compute time, in ops whose operations are known
    mfu: float | None
    bytes_per_s: float | None
    hbm_share: float | None


def utilisation(selection: Selection, ops: pl.DataFrame, idle_ms: float | None) -> Utilisation:
    """Utilisation from the op profile and the idle time of a median step."""
    chips = [_peaks(selection.timeline.devices[index]) for index in selection.devices]
    peak_flops = _mean([chip.flops for chip in chips])
    peak_bytes = _mean([chip.bytes for chip in chips])
    seconds = selection.median_ms / 1e3 if selection.lengths_ms else 0.0
    computing = _with_pairs(
        selection, ops.filter(~pl.col("category").is_in(["collective", "control"]))
    )
    flops = _rate(computing, "flops", seconds)
    accessed = _rate(computing, "bytes_accessed", seconds)
    known = float(computing.filter(pl.col("flops").is_not_null())["self_ms"].sum())
    total = float(computing["self_ms"].sum())
    return Utilisation(
        chip=" and ".join(names) if (names := _names(chips)) else None,
        busy_share=None if idle_ms is None or not seconds else 1 - idle_ms / 1e3 / seconds,
        flops_per_s=flops,
        flops_known_share=known / total if total and flops is not None else None,
        mfu=flops / peak_flops if flops is not None and peak_flops else None,
        bytes_per_s=accessed,
        hbm_share=accessed / peak_bytes if accessed is not None and peak_bytes else None,
    )


def _with_pairs(selection: Selection, ops: pl.DataFrame) -> pl.DataFrame:
    """With `work`: the start of what an op is a part of, else the op itself."""
    named = pl.coalesce("op", "name").alias("op")
    pairs = selection.timeline.ops.select("program", named, work="pair").drop_nulls("work")
    return ops.join(
        pairs.unique(["program", "op"]), on=["program", "op"], how="left", nulls_equal=True
    ).with_columns(pl.coalesce("work", "op"))


def _rate(ops: pl.DataFrame, of: str, seconds: float) -> float | None:
    """Per second; TPU profiles give a copy's bytes with its start and once more with its end."""
    known = ops.filter(pl.col(of).is_not_null())
    if not seconds or not len(known):
        return None
    once = known.group_by("program", "work").agg((pl.col(of) * pl.col("count")).max())
    return float(once[of].sum()) / seconds


@dataclass(frozen=True, slots=True)
class _Peaks:
    """What one device can do at most; None where nobody tells."""

    name: str | None
    flops: float | None
    bytes: float | None


def _peaks(device: Device) -> _Peaks:
    # What GPU profiles give as bandwidth assumes double data rate, half the truth for HBM3 on AMD.
    chip = find_chip(device.chip)
    if chip is None:
        return _Peaks(device.chip, device.peak_flops, device.peak_bytes)
    return _Peaks(chip.name, chip.bf16_flops, chip.hbm_bytes)


def _mean(peaks: Sequence[float | None]) -> float | None:
    """What all together can do, per device: chips may differ, but each must be known."""
    known = [peak for peak in peaks if peak]
    return sum(known) / len(known) if known and len(known) == len(peaks) else None


def _names(chips: Sequence[_Peaks]) -> list[str]:
    """The chips' names; none where some have none."""
    names = list(dict.fromkeys(chip.name for chip in chips if chip.name))
    return names if all(chip.name for chip in chips) else []
