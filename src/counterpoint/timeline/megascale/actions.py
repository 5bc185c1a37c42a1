"""Transfers out of Megascale's own plane: the actions of its graphs.

Each execution of a collective on a device is a graph, `device_200001_gid_psum.7_0$l456^i78`: device
1 of slice 2, rendezvous `psum.7_0`, launch 456, iteration 78. Its actions leave an event when they
start and one when they end. An end's own duration is what the line had room to show, not the
action's: that is `action_duration_ns`, or from its START on. Of a receive it includes waiting for
the sender; `network_transport_latency_us` is the transport alone, at its end.

Reference: xprof's megascale_perfetto/trace_processor.cc and docs/megascale_viewer.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.megascale.raw import RAW
from counterpoint.timeline.model import Action

_ACTIONS: Final = {
    "DeviceToHost": Action.DEVICE_TO_HOST,
    "NetworkSend": Action.SEND,
    "NetworkReceive": Action.RECEIVE,
    "HostToDevice": Action.HOST_TO_DEVICE,
}
_NETWORK: Final = (Action.SEND, Action.RECEIVE)
_KEY: Final = r"^device_(\d{1,18})_gid_([^$]+)"
_CHUNK: Final = re.compile(r"s(\d{1,18})->(\d{1,18})d\|\$c\d+=(\d{1,15})(?!\d)")
_BARE_CHUNK: Final = re.compile(r"\$c\d+=(\d{1,15})(?!\d)")
_LONGEST_NS: Final = 1 << 50
_PS_PER_NS, _PS_PER_US = 1_000, 1_000_000


def actions(told: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[str]]:
    """Rows of RAW for the ends of actions, and what is to be noted of the rest."""
    parts = pl.col("event").str.split(" ")
    named = told.with_row_index("at").with_columns(
        action=parts.list.first().replace_strict(_ACTIONS, default=None, return_dtype=pl.String),
        stage=parts.list.last(),
        device=pl.col("graph_key").str.extract(_KEY, 1).cast(pl.Int64),
        name=pl.col("graph_key").str.extract(_KEY, 2),
    )
    ends = _timed(named.filter(pl.col("action").is_not_null() & (pl.col("stage") == "END")), named)
    sized = ends.join(_sizes(ends["buffer_sizes"]), on="buffer_sizes", how="left")
    networked = pl.col("action").is_in(_NETWORK)
    rows = sized.with_columns(
        bytes=pl.when(networked)
        .then("network_bytes")
        .otherwise(pl.coalesce("all_bytes", "input_size")),
        latency_ps=_positive("network_transport_latency_us", _LONGEST_NS // 1000) * _PS_PER_US,
        peer=pl.when(pl.col("action") == Action.RECEIVE)
        .then("sources")
        .when(pl.col("action") == Action.SEND)
        .then("destinations"),
        origin=pl.lit("plane"),
    )
    stays = networked & pl.col("only_loopback").fill_null(False)
    loopback = rows.select(stays.sum()).item()
    notes = [f"{loopback:,} transfers of a device to itself are left out"] if loopback else []
    return rows.filter(~stays).select(*RAW).cast({**RAW}), notes


def _positive(name: str, most: int) -> pl.Expr:
    """Where clocks differ, differences wrap round: what is not between is not known."""
    return pl.when(pl.col(name).is_between(1, most)).then(name)


def _timed(ends: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Ends with the start and duration of the whole action."""
    keys = ["graph_key", "action", "action_index"]
    turn = pl.int_range(pl.len()).over(keys)
    starts = (
        named.filter(pl.col("action").is_not_null() & (pl.col("stage") == "START"))
        .sort("start_ps")
        .select(*keys, turn.alias("turn"), began_ps="start_ps")
    )
    end = pl.col("start_ps") + pl.col("dur_ps")
    told = end - _positive("action_duration_ns", _LONGEST_NS) * _PS_PER_NS
    began = pl.when(pl.col("began_ps") <= end).then("began_ps")
    joined = (
        ends.sort("start_ps")
        .with_columns(turn=turn)
        .join(starts, on=[*keys, "turn"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(end_ps=end, start_ps=pl.coalesce(told, began, "start_ps"))
    )
    return joined.with_columns(dur_ps=pl.col("end_ps") - pl.col("start_ps"))


@dataclass(frozen=True, slots=True)
class _Sizes:
    buffer_sizes: str
    network_bytes: int | None
    all_bytes: int | None
    sources: str | None
    destinations: str | None
    only_loopback: bool


_SIZES: Final = {
    "buffer_sizes": pl.String,
    "network_bytes": pl.Int64,
    "all_bytes": pl.Int64,
    "sources": pl.String,
    "destinations": pl.String,
    "only_loopback": pl.Boolean,
}


def _sizes(texts: pl.Series) -> pl.DataFrame:
    """What each distinct text says: the same collective writes the same again and again."""
    rows = [_parse(text) for text in texts.drop_nulls().unique().to_list()]
    return pl.DataFrame(
        [tuple(getattr(row, name) for name in _SIZES) for row in rows], _SIZES, orient="row"
    )


def _parse(text: str) -> _Sizes:
    """`s100001->200001d|$c0=1000`: of device 1 of slice 1 to that of slice 2, chunk 0, bytes."""
    chunks = _CHUNK.findall(text)
    if not chunks:
        bare = [int(size) for size in _BARE_CHUNK.findall(text)]
        told = sum(bare) if bare else None
        return _Sizes(text, told, told, None, None, only_loopback=False)
    leaving = [chunk for chunk in chunks if chunk[0] != chunk[1]]
    return _Sizes(
        text,
        network_bytes=sum(int(size) for *_, size in leaving),
        all_bytes=sum(int(size) for *_, size in chunks),
        sources=_listed([source for source, *_ in leaving]),
        destinations=_listed([target for _, target, _ in leaving]),
        only_loopback=not leaving,
    )


def _listed(ids: list[str]) -> str | None:
    return ",".join(sorted(set(ids), key=int)) or None
