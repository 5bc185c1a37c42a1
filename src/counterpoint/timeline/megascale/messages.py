"""Transfers out of events on host threads: messages between slices, copies, registrations.

A message's event stands where it arrived: it was sent `duration_us` before, by the clock of the
sender. Where the two clocks differ by more than it took, that is 0, and the message has no time;
one within a slice takes no network. Both are left out, as xprof does (dcn_utils.cc), and counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from counterpoint.timeline.megascale.raw import RAW
from counterpoint.timeline.model import Action

_NETWORK: Final = (Action.SEND, Action.RECEIVE)
_LONGEST_US: Final = 1 << 40
_PS_PER_US: Final = 1_000_000
_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGTPE]?)(i?)B?", re.IGNORECASE)
_POWERS: Final = " KMGTPE"


def messages(
    told: pl.DataFrame, actions: Mapping[str, Action]
) -> tuple[pl.DataFrame, Sequence[str]]:
    """Rows of RAW, and what is to be noted; `actions` has what each event's name tells of."""
    rows = _with_sizes(told).with_columns(
        action=pl.col("event").replace_strict(actions, return_dtype=pl.String),
        loops=pl.col("dcn_source_slice_id") == pl.col("dcn_destination_slice_id"),
    )
    networked = pl.col("action").is_in(_NETWORK)
    skewed = networked & ~pl.col("duration_us").is_between(1, _LONGEST_US)
    loops = networked & pl.col("loops")
    kept = rows.filter(~skewed.fill_null(False) & ~loops.fill_null(False))
    apart, within = rows.select(skewed.sum(), loops.sum().alias("loops")).row(0)
    return _timed(kept).select(*RAW).cast({**RAW}), _notes(apart or 0, within or 0)


def _notes(apart: int, within: int) -> list[str]:
    notes: list[str] = []
    if apart:
        notes.append(
            f"{apart:,} messages between slices tell no duration: clocks of their hosts differ by"
            " more than they took; they are left out"
        )
    if within:
        notes.append(f"{within:,} messages of a slice to itself are left out")
    return notes


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    receives = pl.col("action") == Action.RECEIVE
    networked = pl.col("action").is_in(_NETWORK)
    told = pl.when(networked).then(pl.col("duration_us") * _PS_PER_US)
    here = pl.when(receives).then(pl.lit("destination")).otherwise(pl.lit("source"))
    return rows.with_columns(
        start_ps=pl.col("start_ps") - pl.when(receives).then(told.fill_null(0)).otherwise(0),
        dur_ps=pl.coalesce(told, "dur_ps"),
        latency_ps=pl.when(receives).then(told),
        name=pl.coalesce("dcn_label", "event"),
        device=pl.when(here == "destination")
        .then("dcn_destination_per_slice_device_id")
        .otherwise("dcn_source_per_slice_device_id"),
        peer=pl.when(receives)
        .then(_place("source"))
        .when(pl.col("action") == Action.SEND)
        .then(_place("destination")),
        origin=pl.lit("host"),
    )


def _place(end: str) -> pl.Expr:
    """A device of a slice as `slice/device`."""
    return pl.format("{}/{}", f"dcn_{end}_slice_id", f"dcn_{end}_per_slice_device_id")


def _with_sizes(told: pl.DataFrame) -> pl.DataFrame:
    known = {text: size_in_bytes(text) for text in told["size"].drop_nulls().unique().to_list()}
    read = pl.col("size").replace_strict(known, default=None, return_dtype=pl.Int64)
    return told.with_columns(bytes=pl.coalesce("payload_size_bytes", "buffer_size", read))


def size_in_bytes(text: str) -> int | None:
    """`4.29GB` as bytes: the runtime rounds to three digits, in powers of 1000."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    power = _POWERS.index(found[2].upper() or " ")
    size = float(found[1]) * (1024 if found[3] else 1000) ** power
    return round(size) if size < 1 << 62 else None
