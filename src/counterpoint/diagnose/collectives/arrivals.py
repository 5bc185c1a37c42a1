"""Arrivals: when a device needs the result of an async collective or host transfer.

If the done has a span of its own (TPU), this is the start of that span. If not (GPU streams wait
without a trace), it is the end of the last work that the schedule places between start and done,
including iterations of loops there; without any, the start itself.

Executions are matched by their turn: the k-th execution of a computation within a run. An
instruction with several spans per execution (kernels) is counted the same way. The work of loops,
calls and branches is found by time (overlapped_work.py).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.threads import on_threads
from counterpoint.diagnose.collectives.overlapped_work import (
    KEYS,
    Called,
    Longs,
    Work,
    called_computations,
    work_in_calls,
)
from counterpoint.diagnose.selection import Selection, device_blocks
from counterpoint.timeline.model import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "name": pl.String,  # of the start
    "device": pl.UInt16,
    "step": pl.Int32,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,  # of the start's own span
    "arrival_ps": pl.Int64,  # null: not known
    "has_done_span": pl.Boolean,  # the done has a span of its own
}

_TEXTS: Final = ("name", "computation", "part")


def arrivals(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return one row per execution of a start that begins in a step: SCHEMA.

    The spans are those of one device after the other, in order of start.
    """
    ops = _parts(selection)
    ran = np.zeros(len(selection.timeline.ops), bool)
    ran[spans["op"].to_numpy()] = True
    called = called_computations(selection, ops.filter(pl.Series(ran[ops["row"].to_numpy()])))
    # Devices are independent, and the tables of all of them together would not fit the caches.
    blocks = (spans[rows] for rows in device_blocks(spans))
    parts = on_threads(lambda own: _arrivals(selection, own, ops, called), blocks, rows=len(spans))
    return pl.concat([pl.DataFrame(schema=SCHEMA), *parts])


def _arrivals(
    selection: Selection, spans: pl.DataFrame, ops: pl.DataFrame, called: Called
) -> pl.DataFrame:
    transfers, work = _executions(spans, ops)
    starts = _starts(selection, transfers)
    if not len(starts):
        return pl.DataFrame(schema=SCHEMA)
    dones = (
        transfers.filter(pl.col("part") == "done")
        .group_by("execution")
        # Between slices the send is done long before the data from others have arrived.
        .agg(pl.col("start_ps").sort_by(pl.col("opcode") == "send-done").first().alias("done_ps"))
    )
    starts = starts.with_columns(work_ps=work.last_before(starts))
    has_done = pl.col("done_ps").is_not_null()
    last_work = pl.max_horizontal("work_ps", "called_ps")
    arrival = pl.max_horizontal(pl.coalesce("done_ps", last_work), "start_ps")
    return (
        work_in_calls(selection, spans, starts, work, called)
        .join(dones, on="execution", how="left")
        .filter(pl.col("step").is_not_null())
        .with_columns(
            has_done_span=has_done,
            arrival_ps=pl.when(has_done | pl.col("awaited") | pl.col("at_once")).then(arrival),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
    )


def is_transfer() -> pl.Expr:
    """Return an expression for ops that move data to other devices or the host, and their dones."""
    return (pl.col("lane") == Lane.COLLECTIVE) | (
        pl.col("pair").is_not_null() & (pl.col("category") == "host")
    )


def _parts(selection: Selection) -> pl.DataFrame:
    """Return ops of computations that contain transfers, each with its part in them."""
    ops = selection.timeline.ops.with_row_index("row").with_columns(
        name=pl.coalesce("pair", "op", "name"),
        computation=pl.col("computation").fill_null(""),
    )
    opcode = pl.col("opcode").fill_null("")
    part = (
        pl.when(is_transfer() & pl.col("async_window"))
        .then(pl.lit("window"))
        .when(is_transfer() & opcode.str.ends_with("-done"))
        .then(pl.lit("done"))
        .when(is_transfer())
        .then(pl.lit("start"))
        .when(
            pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY])
            & pl.col("pair").is_null()
            & pl.col("position").is_not_null()
        )
        .then(pl.lit("work"))
    )
    ops = ops.with_columns(part=part).filter(pl.col("part").is_not_null())
    where = ops.filter(is_transfer()).select("program", "computation").unique()
    ops = ops.join(where, on=["program", "computation"], nulls_equal=True)
    # Millions of spans are grouped by them: numbers are faster than texts.
    return ops.cast({name: pl.Enum(ops[name].unique().sort()) for name in _TEXTS})


def _executions(spans: pl.DataFrame, ops: pl.DataFrame) -> tuple[pl.DataFrame, Work]:
    """Return the spans of transfers among these ops, each with its turn, and all executed work.

    Spans of one execution share a turn, and its number: `where` numbers that of the computation,
    `execution` that of the instruction in it.
    """
    op, of_ops = spans["op"].to_numpy(), ops["row"].to_numpy()
    row_of = np.full(max(int(op.max(initial=0)), int(of_ops.max(initial=0))) + 1, -1)
    row_of[of_ops] = np.arange(len(ops))
    rows = row_of[op]
    kept = np.flatnonzero(rows >= 0)
    rows = rows[kept]
    run = spans["run"].cast(pl.Int64).fill_null(-1).to_numpy()[kept]
    site = np.where(run >= 0, run, -1 - spans["device"].cast(pl.Int64).to_numpy()[kept])
    place = ops.select(pl.struct("program", "computation").rank("dense")).to_series().to_numpy()
    beside = (site - site.min(initial=0)) * (int(place.max(initial=0)) + 1) + place[rows]
    turn = _turns(site - site.min(initial=0), beside, ops, rows)
    where = beside * (int(turn.max(initial=0)) + 1) + turn
    works = (ops["part"] == "work").to_numpy()[rows]
    moves = ~works
    transfers = _transfers(
        spans[kept[moves]], ops[rows[moves]], where=where[moves], turn=turn[moves]
    )
    return transfers, _work(spans[kept[works]], ops, rows[works], where[works])


def _transfers(
    spans: pl.DataFrame, ops: pl.DataFrame, *, where: Longs, turn: Longs
) -> pl.DataFrame:
    """Return spans with the facts of their ops, and with their turns."""
    times = spans.select(
        "device",
        pl.col("run").cast(pl.Int64).fill_null(-1),
        "step",
        "start_ps",
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        turn=pl.Series(turn, dtype=pl.Int64),
        where=pl.Series(where, dtype=pl.Int64),
    )
    facts = ops.select(
        "program",
        "computation",
        "name",
        "part",
        pl.col("position", "done_position").cast(pl.Int64),
        "opcode",
    )
    name = pl.col("name").to_physical().cast(pl.Int64)
    return pl.concat([times, facts], how="horizontal").with_columns(
        execution=pl.col("where") * (name.max() + 1) + name
    )


def _work(spans: pl.DataFrame, ops: pl.DataFrame, rows: Longs, where: Longs) -> Work:
    """Join the spans of each op's execution."""
    position, done = (
        ops[name].cast(pl.Int64).fill_null(-1).to_numpy() for name in ("position", "done_position")
    )
    positions = int(max(position.max(initial=0), done.max(initial=0))) + 2
    place = where * positions + position[rows]
    order = np.argsort(place, kind="stable")
    place, begin = place[order], spans["start_ps"].to_numpy()[order]
    end = begin + spans["dur_ps"].to_numpy()[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    if not len(first):
        return Work(place, begin, end, positions)
    joined = np.minimum.reduceat(begin, first), np.maximum.reduceat(end, first)
    return Work(place[first], *joined, positions)


def _turns(site: Longs, beside: Longs, ops: pl.DataFrame, rows: Longs) -> Longs:
    """Return the turn of each span.

    `site` numbers its run on its device, from 0, and `beside` its computation there.
    """
    number = site * len(ops) + rows
    order = np.argsort(number, kind="stable")
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    length = np.diff(first, append=len(order))
    at, many = np.empty_like(number), np.empty_like(number)
    at[order] = np.arange(len(order)) - np.repeat(first, length)
    many[order] = np.repeat(length, length)
    # A computation ran as often as its transfers.
    moves = (ops["part"] != "work").to_numpy()[rows]
    most = np.zeros(int(beside.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, beside[moves], many[moves])
    turns = most[beside]
    split = (turns > 0) & (many > turns) & (many % np.maximum(turns, 1) == 0)
    return np.where(split, at * turns // many, at)


def _starts(selection: Selection, transfers: pl.DataFrame) -> pl.DataFrame:
    """Return one row per execution of a start; its window replaces it if it has no other span.

    `awaited`: a done is known. `at_once`: there is none, and the device waits from the start on.
    """
    tpus = [
        index for index, device in enumerate(selection.timeline.devices) if device.kind == "tpu"
    ]
    plain = ~pl.col("opcode").fill_null("-start").str.ends_with("-start")
    # A TPU core runs ops one after another; without a schedule a GPU's op may or may not block.
    in_line = pl.col("position").is_not_null() | (plain & pl.col("device").is_in(tpus))
    is_window = pl.col("part") == "window"
    return (
        transfers.filter(pl.col("part").is_in(["start", "window"]))
        .with_columns(
            end_ps=pl.when(~is_window).then("end_ps"),
            window_end_ps=pl.when(is_window).then("end_ps"),
        )
        # A start precedes its window, and the send of a transfer between slices its recv.
        .sort("part", pl.col("done_position").is_null(), "start_ps", maintain_order=True)
        .group_by("execution", maintain_order=True)
        .agg(
            pl.first(*KEYS, "where", "step", "start_ps", "position", "done_position", "opcode"),
            # Several kernels of one execution form one transfer.
            pl.col("end_ps", "window_end_ps").max(),
        )
        .with_columns(
            awaited=pl.col("done_position").is_not_null(),
            at_once=pl.col("done_position").is_null() & in_line & pl.col("window_end_ps").is_null(),
            end_ps=pl.coalesce("end_ps", "window_end_ps"),
            done_position=pl.col("done_position").fill_null(-1),
        )
    )
