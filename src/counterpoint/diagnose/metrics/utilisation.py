"""How much of the chip a step uses, where operations and bytes are known."""

from __future__ import annotations

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
    device = _common_device(selection)
    seconds = selection.median_ms / 1e3 if selection.lengths_ms else 0.0
    computing = ops.filter(~pl.col("category").is_in(["collective", "control"]))
    flops = _rate(computing, "flops", seconds)
    accessed = _rate(computing, "bytes_accessed", seconds)
    known = float(computing.filter(pl.col("flops").is_not_null())["self_ms"].sum())
    total = float(computing["self_ms"].sum())
    chip = find_chip(device.chip) if device else None
    peak_flops = chip.bf16_flops if chip else (device.peak_flops if device else None)
    # What GPU profiles give as bandwidth assumes double data rate, half the truth for HBM3 on AMD.
    peak_bytes = chip.hbm_bytes if chip else (device.peak_bytes if device else None)
    return Utilisation(
        chip=(chip.name if chip else device.chip) if device else None,
        busy_share=None if idle_ms is None or not seconds else 1 - idle_ms / 1e3 / seconds,
        flops_per_s=flops,
        flops_known_share=known / total if total and flops is not None else None,
        mfu=flops / peak_flops if flops is not None and peak_flops else None,
        bytes_per_s=accessed,
        hbm_share=accessed / peak_bytes if accessed is not None and peak_bytes else None,
    )


def _rate(ops: pl.DataFrame, of: str, seconds: float) -> float | None:
    known = ops.filter(pl.col(of).is_not_null())
    if not seconds or not len(known):
        return None
    return float((known[of] * known["count"]).sum()) / seconds


def _common_device(selection: Selection) -> Device | None:
    """The device all selected ones are like; None when they differ."""
    chosen = [selection.timeline.devices[index] for index in selection.devices]
    alike = {(device.chip, device.peak_flops, device.peak_bytes) for device in chosen}
    return chosen[0] if len(alike) == 1 else None
