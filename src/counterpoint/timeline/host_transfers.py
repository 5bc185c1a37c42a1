"""Host transfers: the ops that are part of transfers between slices, and the role of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.hlo.transfers import Transfer, transfers
from counterpoint.timeline.model import Schema, Timeline

__all__ = ["host_transfers"]

ROLES: Final = ("send", "send-done", "recv", "recv-done")

HOST_TRANSFERS: Final[Schema] = {
    "row": pl.UInt32,  # of Timeline.ops
    "program": pl.UInt16,
    "name": pl.String,  # the instruction that begins it: `pair` of all its ops
    "role": pl.String,  # of ROLES
    "kind": pl.String,
    "rendezvous": pl.String,  # `name` of Timeline.transfers; null: the profile has no HLO
    "wire_bytes": pl.Float64,  # bytes a device sends over the network; null: the slices are unknown
}


def host_transfers(timeline: Timeline) -> pl.DataFrame:
    """Return HOST_TRANSFERS: one row per op that is part of a transfer.

    Each transfer lasts from its send to its recv-done. On a device, `recv` itself waits for
    nothing, and only the send has a `done_position`.
    """
    ops = timeline.ops.with_row_index("row").filter(
        pl.col("opcode").is_in(ROLES)
        # Sends and receives between GPUs have these names themselves.
        & ~pl.col("collective").is_in(["send", "recv"])
        & pl.col("pair").is_not_null()
    )
    if ops.is_empty():
        return pl.DataFrame(schema=HOST_TRANSFERS)
    known = pl.DataFrame(
        [
            (program, name, transfer.rendezvous)
            for program in ops["program"].drop_nulls().unique().to_list()
            for name, transfer in _transfers(timeline, program)
        ],
        schema={"program": pl.UInt16, "op": pl.String, "rendezvous": pl.String},
        orient="row",
    )
    return (
        ops.join(known, on=["program", "op"], how="left", maintain_order="left")
        .with_columns(
            name="pair",
            role="opcode",
            kind="collective",
            wire_bytes=pl.col("bytes") * pl.col("bus_factor"),
        )
        .select(*HOST_TRANSFERS)
        .cast({**HOST_TRANSFERS})
    )


def _transfers(timeline: Timeline, program: int) -> Iterator[tuple[str, Transfer]]:
    """Yield the transfers of all hosts' builds of a program: their names may differ."""
    entry = timeline.programs[program]
    by_name: dict[str, Transfer] = {}
    for host in entry.variants:
        hlo = entry.hlo(host)
        if hlo is not None:
            by_name = {**transfers(hlo), **by_name}
    yield from by_name.items()
