"""Arrivals: when a device needs the result of an async collective or host transfer.

If the done has a span of its own (TPU), this is the start of that span. If not (GPU streams wait
without a trace), it is the end of the last work that the schedule places between start and done,
including iterations of loops there; without any, the start itself.

Executions are matched by their turn: the k-th execution of a computation within a run. An
instruction with several spans per execution (kernels) is counted the same way.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.diagnose.collectives.between import work_in_calls
from counterpoint.diagnose.selection import Selection
from counterpoint.timeline import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "name": pl.String,  # of the start
    "device": pl.UInt16,
    "step": pl.Int32,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,  # of the start's own span
    "arrival_ps": pl.Int64,  # null: not known
    "told_by_done": pl.Boolean,  # the done has a span of its own
}

_TURN: Final = ("device", "run", "computation", "turn")
_KEYS: Final = ("device", "run", "program", "name", "turn")


def arrivals(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Return one row per execution of a start that begins in a step: SCHEMA."""
    ops = _parts(selection)
    executed = _executions(spans, ops)
    starts = _starts(selection, executed)
    if not len(starts):
        return pl.DataFrame(schema=SCHEMA)
    dones = (
        executed.filter(pl.col("part") == "done")
        .group_by(*_KEYS)
        # Between slices the send is done long before the data from others have arrived.
        .agg(pl.col("start_ps").sort_by(pl.col("opcode") == "send-done").first().alias("done_ps"))
    )
    has_done = pl.col("done_ps").is_not_null()
    arrival = pl.max_horizontal(pl.coalesce("done_ps", "work_ps"), "start_ps")
    return (
        _with_last_work(selection, spans, starts, executed)
        .join(dones, on=[*_KEYS], how="left", nulls_equal=True)
        .filter(pl.col("step").is_not_null())
        .with_columns(
            told_by_done=has_done,
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
    return ops.join(where, on=["program", "computation"], nulls_equal=True)


def _executions(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of these ops, each with its turn; spans of one execution share a turn."""
    facts = ops.select(
        "row", "program", "computation", "name", "part", "position", "done_position", "opcode"
    )
    own = ["device", "run", "op"]
    counted = (
        spans.select("device", "op", "run", "step", "start_ps", "dur_ps")
        .with_columns(pl.col("run").cast(pl.Int64).fill_null(-1))
        .join(facts, left_on="op", right_on="row")
        .sort("start_ps")
        .with_columns(at=pl.int_range(pl.len()).over(own), many=pl.len().over(own))
    )
    # A computation ran as often as its transfers.
    beside = ["device", "run", "program", "computation"]
    turns = pl.col("many").filter(pl.col("part") != "work").max().over(beside)
    split = (pl.col("many") > turns) & (pl.col("many") % turns == 0)
    return counted.with_columns(
        pl.col("position", "done_position").cast(pl.Int64),
        turn=pl.when(split).then(pl.col("at") * turns // pl.col("many")).otherwise(pl.col("at")),
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
    ).drop("at", "many", "dur_ps")


def _starts(selection: Selection, executed: pl.DataFrame) -> pl.DataFrame:
    """Return one row per execution of a start; its window replaces it if it has no other span.

    `awaited`: a done is known. `at_once`: there is none, and the device waits from the start on.
    """
    tpus = [
        index for index, device in enumerate(selection.timeline.devices) if device.kind == "tpu"
    ]
    plain = ~pl.col("opcode").fill_null("-start").str.ends_with("-start")
    # A TPU core runs ops one after another; without a schedule a GPU's op may or may not block.
    in_line = pl.col("position").is_not_null() | (plain & pl.col("device").is_in(tpus))
    return (
        executed.filter(pl.col("part").is_in(["start", "window"]))
        # A start precedes its window, and the send of a transfer between slices its recv.
        .sort("part", pl.col("done_position").is_null(), "start_ps", maintain_order=True)
        .group_by(*_KEYS, "computation", maintain_order=True)
        .agg(
            pl.first("step", "start_ps", "position", "done_position", "opcode"),
            # Several kernels of one execution form one transfer.
            pl.col("end_ps").filter(pl.col("part") == pl.col("part").first()).max(),
            windowed=(pl.col("part") == "window").any(),
        )
        .with_columns(
            awaited=pl.col("done_position").is_not_null(),
            at_once=pl.col("done_position").is_null() & in_line & ~pl.col("windowed"),
            done_position=pl.col("done_position").fill_null(-1),
        )
    )


def _with_last_work(
    selection: Selection, spans: pl.DataFrame, starts: pl.DataFrame, executed: pl.DataFrame
) -> pl.DataFrame:
    """Add `work_ps` to starts: the end of the last work between start and done."""
    work = (
        executed.filter(pl.col("part") == "work")
        .group_by(*_TURN, "program", "position")
        .agg(pl.col("start_ps").min().alias("begin_ps"), pl.col("end_ps").max().alias("work_ps"))
        .rename({"position": "work_position"})
        .sort("work_position")
    )
    direct = (
        starts.sort("done_position")
        .join_asof(
            work,
            left_on="done_position",
            right_on="work_position",
            by=[*_TURN, "program"],
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .with_columns(work_ps=pl.when(pl.col("work_position") > pl.col("position")).then("work_ps"))
        .drop("work_position", "begin_ps")
    )
    called = work_in_calls(selection, spans, direct, work)
    return called.with_columns(work_ps=pl.max_horizontal("work_ps", "called_ps"))
