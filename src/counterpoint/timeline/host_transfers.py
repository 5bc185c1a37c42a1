"""Which ops of a Timeline carry collectives between TPU slices, and in which part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.hlo import Transfer, transfers
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.recording import Schema

ROLES: Final = ("send", "send-done", "recv", "recv-done")

HOST_TRANSFERS: Final[Schema] = {
    "row": pl.UInt32,  # of Timeline.ops
    "program": pl.UInt16,
    "name": pl.String,  # the instruction that begins it: `pair` of all its ops
    "role": pl.String,  # of ROLES
    "kind": pl.String,
    "rendezvous": pl.String,  # `name` of Timeline.transfers; null: the profile has no HLO
    "wire_bytes": pl.Float64,  # what a device sends over the network; null: the slices are unknown
}


def host_transfers(timeline: Timeline) -> pl.DataFrame:
    """One row per op that is part of one: HOST_TRANSFERS.

    Each lasts from its send to its recv-done. On a device of its own `recv` waits for nothing, and
    `done_position` stands with the send alone.
    """
    ops = timeline.ops.with_row_index("row").filter(
        pl.col("opcode").is_in(ROLES)
        # Sends and receives between GPUs are called so themselves.
        & ~pl.col("collective").is_in(["send", "recv"])
        & pl.col("pair").is_not_null()
    )
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
    """Of all hosts' builds of a program: their names may differ."""
    entry = timeline.programs[program]
    found: dict[str, Transfer] = {}
    for host in entry.variants:
        hlo = entry.hlo(host)
        if hlo is not None:
            found = {**transfers(hlo), **found}
    yield from found.items()
