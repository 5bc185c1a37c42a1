"""The op profile: time of each instruction in a median step, and its place in the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from counterpoint.diagnose.attribution import PHASES
from counterpoint.diagnose.executions import executions
from counterpoint.diagnose.grouping import GROUPINGS, Grouping
from counterpoint.diagnose.selection import Selection
from counterpoint.hardware.chip import find_chip
from counterpoint.timeline.model import Device, Lane

if TYPE_CHECKING:
    from counterpoint.hardware.chip import Chip

KEYS = ("program", "op")

"""An op is identified by its program and instruction; kernels without one by their own name."""


def op_profile(selection: Selection, timed: pl.DataFrame) -> pl.DataFrame:
    """Return ops by self time in a median step, mean over devices; longest first.

    Columns: program, op, category, phase, scope, source, collective, lane, count (executions per
    step), self_ms, share (of the step), flops and bytes_accessed (of one execution).
    """
    # Windows from a start to its done contain no work of their own.
    windows = selection.timeline.ops.with_row_index("row").filter("async_window")["row"].to_list()
    worked = timed.filter(~pl.col("op").is_in(windows))
    per_device = (
        worked.group_by("op", "device")
        .agg(pl.col("self_ps").sum())
        .join(executions(selection.timeline, worked), on=["op", "device"])
    )
    # A collective is identified by its start, as in the table of collectives.
    start = pl.when(pl.col("lane") == Lane.COLLECTIVE).then("pair")
    ops = selection.timeline.ops.with_row_index("row").with_columns(
        op=pl.coalesce(start, "op", "name")
    )
    step_ms = selection.shown_ms if selection.lengths_ms else 0.0
    facts = pl.first("category", "phase", "scope", "source", "collective", "flops", "lane")
    return (
        per_device.join(ops, left_on="op", right_on="row")
        .drop("op")
        .rename({"op_right": "op"})
        .sort("self_ps", "device", descending=[True, False])
        # Several kernels may execute one instruction: on a device their times add up, their
        # executions don't. Each host numbers its ops separately, so devices are combined only here.
        .group_by(*KEYS, "device", maintain_order=True)
        .agg(facts, pl.first("bytes_accessed"), pl.col("count").max(), pl.col("self_ps").sum())
        .group_by(*KEYS, maintain_order=True)
        .agg(
            facts,
            pl.first("bytes_accessed"),
            (pl.col("count").sum() / max(selection.occurrences, 1)).alias("count"),
            (pl.col("self_ps").sum() * selection.scale).alias("self_ms"),
        )
        .with_columns(share=pl.col("self_ms") / step_ms if step_ms else pl.lit(None, pl.Float64))
        .sort("self_ms", "op", descending=[True, False])
    )


FINEST: Final[tuple[Grouping, ...]] = ("op", "scope", "source", "category")

SCHEMA: Final = {
    "by": pl.String,
    "name": pl.String,  # null: not known for these ops
    "category": pl.String,  # the category with most of its time
    "self_ms": pl.Float64,  # per median step, mean over devices
    "share": pl.Float64,  # of the step
    "ops": pl.UInt32,  # instructions, and kernels without one
    "count": pl.Float64,  # executions per step and device
    **{f"{phase}_ms": pl.Float64 for phase in PHASES},
    "longest": pl.String,  # the op with most of its time
}

_MOST: Final = 0.7

"""Share of the time in ops that the rows of a table should cover."""

_FEW: Final = 4

_LAYERS: Final = 3

"""Minimum count of numbers behind one name for layers; two may be the two halves of a block."""

_NUMBERED: Final = re.compile(r"(.*?)(?<!\d)(\d++)(\]?)$")


def grouped(ops: pl.DataFrame, by: Grouping) -> pl.DataFrame:
    """Return the frame of `op_profile` aggregated: SCHEMA, most expensive first."""
    named = ops.with_columns(name=pl.col(by))
    if by == "scope":
        scopes: list[str] = ops["scope"].drop_nulls().unique().sort().to_list()
        named = named.with_columns(pl.col("name").replace(merged_layers(scopes)))
    phase = pl.col("phase").fill_null("other")
    ms = pl.col("self_ms")
    keys = ["name", *(["program"] if by == "op" else [])]
    return (
        named.with_columns(kind_ms=ms.sum().over(*keys, "category"))
        .sort("self_ms", "op", descending=[True, False])
        .group_by(keys, maintain_order=True)
        .agg(
            pl.lit(by).alias("by"),
            pl.col("category").sort_by("kind_ms", descending=True, maintain_order=True).first(),
            ms.sum(),
            pl.col("share").sum(),
            pl.len().cast(pl.UInt32).alias("ops"),
            pl.col("count").sum(),
            *(
                ms.filter(phase == phase_name).sum().alias(f"{phase_name}_ms")
                for phase_name in PHASES
            ),
            pl.first("op").alias("longest"),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("self_ms", "name", descending=[True, False])
    )


def all_groups(ops: pl.DataFrame) -> pl.DataFrame:
    """Return groups by scope, source and category; by op it is the op profile itself."""
    return pl.concat([grouped(ops, by) for by in GROUPINGS if by != "op"])


def finest(ops: pl.DataFrame, rows: int) -> Grouping:
    """Return the finest grouping of which `rows` rows cover most of the time; else category.

    Slightly more ops than rows need no aggregation.
    """
    if len(ops) <= _FEW * rows:
        return "op"
    whole = float(ops["self_ms"].sum())
    for by in FINEST[:-1]:
        known = grouped(ops, by).head(rows).filter(pl.col("name").is_not_null())
        if float(known["self_ms"].sum()) >= _MOST * whole:
            return by
    return FINEST[-1]


def merged_layers(scopes: Iterable[str]) -> Mapping[str, str]:
    """Return each scope with the numbers of its layers replaced.

    Where at least three numbers follow one name at one place of the scope, `layers_0` to
    `layers_31` become `layers_*`: single ops of a model with many layers are all small.
    """
    merged = {scope: tuple(scope.split("/")) for scope in scopes}
    for depth in range(max(map(len, merged.values()), default=0)):
        numbers: dict[tuple[str, ...], set[str]] = {}
        for parts in merged.values():
            if layer := _numbered(parts, depth):
                numbers.setdefault(layer[0], set()).add(layer[1])
        for scope, parts in merged.items():
            layer = _numbered(parts, depth)
            if layer and len(numbers[layer[0]]) >= _LAYERS:
                merged[scope] = (*layer[0], *parts[depth + 1 :])
    return {scope: "/".join(parts) for scope, parts in merged.items()}


def _numbered(parts: tuple[str, ...], depth: int) -> tuple[tuple[str, ...], str] | None:
    """Return the path down to this part with `*` for its number, and the number."""
    match = _NUMBERED.match(parts[depth]) if depth < len(parts) else None
    if match is None:
        return None
    return (*parts[:depth], f"{match[1]}*{match[3]}"), match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """Figures of a median step, mean over devices; None if something needed is not known.

    FLOP/s and bytes count what the compiled ops do. `hfu`, the utilization of the hardware, is
    their share of the chip's dense bfloat16 peak; `mfu`, that of the model, leaves out what is
    recomputed for the backward pass. Where no op's phase is known, nothing is left out:
    `recomputed_flops_per_s` is None then, and `mfu` an upper bound.
    """

    chip: str | None
    busy_share: float | None
    flops_per_s: float | None
    recomputed_flops_per_s: float | None
    flops_known_share: float | None  # of compute time, in ops whose operations are known
    mfu: float | None
    hfu: float | None
    above_peak: float | None  # FLOP/s over the peak, if more: then there is no mfu
    bytes_per_s: float | None
    hbm_share: float | None


def utilization(
    selection: Selection, ops: pl.DataFrame, idle_ms: float | None, given: Chip | None = None
) -> Utilization:
    """Return utilization from the op profile and the idle time of a median step.

    `given` is the chip of devices that the profile does not name.
    """
    chips = [_peaks(selection.timeline.devices[index], given) for index in selection.devices]
    peak_flops = _mean([chip.flops for chip in chips])
    peak_bytes = _mean([chip.bytes for chip in chips])
    seconds = selection.shown_ms / 1e3 if selection.lengths_ms else 0.0
    computing = _with_pairs(
        selection, ops.filter(~pl.col("category").is_in(["collective", "control"]))
    )
    flops = _rate(computing, "flops", seconds)
    recomputed = _recomputed(computing, seconds)
    # Some profilers tell the bytes of copies alone, which are not the rate of the memory.
    told = computing.filter((pl.col("lane") != Lane.COPY) | pl.col("program").is_not_null())
    accessed = (
        _rate(computing, "bytes_accessed", seconds) if told["bytes_accessed"].count() else None
    )
    hbm = accessed / peak_bytes if accessed is not None and peak_bytes else None
    share = flops / peak_flops if flops is not None and peak_flops else None
    believed = share if share is not None and share <= 1 else None
    known = float(computing.filter(pl.col("flops").is_not_null())["self_ms"].sum())
    total = float(computing["self_ms"].sum())
    return Utilization(
        chip=" and ".join(names) if (names := _names(chips)) else None,
        busy_share=None if idle_ms is None or not seconds else 1 - idle_ms / 1e3 / seconds,
        flops_per_s=flops,
        recomputed_flops_per_s=None if flops is None else recomputed,
        flops_known_share=known / total if total and flops is not None else None,
        mfu=believed and believed * (1 - (recomputed or 0.0) / flops) if flops else believed,
        hfu=believed,
        above_peak=share if share is not None and share > 1 else None,
        bytes_per_s=accessed,
        hbm_share=hbm if hbm is None or hbm <= 1 else None,
    )


def _with_pairs(selection: Selection, ops: pl.DataFrame) -> pl.DataFrame:
    """Add `work`: the start of the pair that an op is a part of, else the op itself."""
    named = pl.coalesce("op", "name").alias("op")
    pairs = selection.timeline.ops.select("program", named, work="pair").drop_nulls("work")
    return ops.join(
        pairs.unique(["program", "op"]), on=["program", "op"], how="left", nulls_equal=True
    ).with_columns(pl.coalesce("work", "op"))


def _recomputed(computing: pl.DataFrame, seconds: float) -> float | None:
    """Return the rate of recomputed operations; None if no phase is known."""
    if not len(computing.filter(pl.col("phase").is_not_null() & (pl.col("phase") != "other"))):
        return None
    return _rate(computing.filter(pl.col("phase") == "remat"), "flops", seconds) or 0.0


def _rate(ops: pl.DataFrame, of: str, seconds: float) -> float | None:
    """Return a rate per second.

    TPU profiles count a copy's bytes at its start and at its end, and three times at its start,
    which has a pair of buffers as its result.
    """
    known = ops.filter(pl.col(of).is_not_null())
    if not seconds or not len(known):
        return None
    all_of_it = known.with_columns((pl.col(of) * pl.col("count")).alias(of))
    once = all_of_it.filter(pl.col(of) > 0).group_by("program", "work").agg(pl.col(of).min())
    return float(once[of].sum()) / seconds


@dataclass(frozen=True, slots=True)
class _Peaks:
    """Peak rates of one device; None if not known."""

    name: str | None
    flops: float | None
    bytes: float | None


def _peaks(device: Device, given: Chip | None) -> _Peaks:
    # GPU profiles assume double data rate for bandwidth, half the true value for HBM3 on AMD.
    chip = find_chip(device.chip) if device.chip else given
    if chip is None:
        return _Peaks(device.chip, device.peak_flops, device.peak_bytes)
    return _Peaks(chip.name, chip.bf16_flops, chip.hbm_bytes)


def _mean(peaks: Sequence[float | None]) -> float | None:
    """Return the peak per device of all together: chips may differ, but each must be known."""
    known = [peak for peak in peaks if peak]
    return sum(known) / len(known) if known and len(known) == len(peaks) else None


def _names(chips: Sequence[_Peaks]) -> list[str]:
    """Return the chips' names; none if any is unnamed."""
    names = list(dict.fromkeys(chip.name for chip in chips if chip.name))
    return names if all(chip.name for chip in chips) else []
