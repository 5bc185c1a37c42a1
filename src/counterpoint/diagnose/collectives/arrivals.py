"""Arrivals: when a device needs the result of an async collective or host transfer.

If the done has a span of its own (TPU), this is the start of that span. If not (GPU streams wait
without a trace), it is the end of the last work that the schedule places between start and done,
including iterations of loops there; without any, the start itself.

Executions are matched by their turn: the k-th execution of a computation within a run. An
instruction with several spans per execution (kernels) is counted the same way. Instructions of
loops, calls and branches are in computations of their own, so they are found by time: what runs
there after the start and before the first work behind the done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.selection import Selection
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.collectives import transfer_of
from counterpoint.hlo.schedule import async_pairs
from counterpoint.timeline import Lane

_CALLING: Final = ("while", "conditional", "call")

_RUN: Final = ("device", "run")

Longs = NDArray[np.int64]


def work_in_calls(
    selection: Selection, spans: pl.DataFrame, starts: pl.DataFrame, work: pl.DataFrame
) -> pl.DataFrame:
    """Add `called_ps` to starts: the end of the last such work; null if there is none.

    `starts` and `work` are executions with their turns, as numbered by `arrivals`.
    """
    called = _called(selection, starts)
    if not called:
        return starts.with_columns(called_ps=pl.lit(None, pl.Int64))
    limited = _limits(starts, work)
    rows = _rows_of(selection, called)
    parts = [
        _last_in(spans, limited, program, names, rows[program, inside])
        for (program, inside), names in _by_callees(called).items()
    ]
    keys = ["program", "name", "device", "run", "turn"]
    return starts.join(pl.concat(parts), on=keys, how="left")


_Called = Mapping[tuple[int, str], frozenset[str]]


def _called(selection: Selection, starts: pl.DataFrame) -> _Called:
    """Return for each start, by program and name, the computations that run before its done."""
    found: dict[tuple[int, str], frozenset[str]] = {}
    awaited = starts.filter(pl.col("awaited")).select("program", "name").drop_nulls().unique()
    for index, name in awaited.sort("program", "name").rows():
        program = selection.timeline.programs[int(index)].hlo()
        inside = frozenset(_between(program, name)) if program else frozenset[str]()
        if inside:
            found[index, name] = inside
    return found


def _between(program: Program, name: str) -> Iterator[str]:
    start = program.instruction(name)
    done = done_of(program, start) if start else None
    if start is None or done is None:
        return
    instructions = program.computations[start.computation].instructions
    for instruction in instructions[start.index + 1 : done.index]:
        yield from callees(program, instruction)


def done_of(program: Program, start: Instruction) -> Instruction | None:
    """Return what waits for a start; for a transfer between slices, the end of its receive."""
    transfer = transfer_of(program, start)
    if transfer is not None:
        return program.instruction(transfer.recv_done or transfer.send_done or "")
    return program.instruction(async_pairs(program).get(start.name, ""))


def callees(program: Program, instruction: Instruction) -> Iterator[str]:
    """Yield the computations that a loop, call or branch runs, including nested ones."""
    if instruction.opcode not in _CALLING:
        return
    for name in instruction.calls:
        yield name
        for inner in program.computations[name].instructions:
            yield from callees(program, inner)


def _by_callees(called: _Called) -> dict[tuple[int, frozenset[str]], list[str]]:
    grouped: dict[tuple[int, frozenset[str]], list[str]] = {}
    for (program, name), inside in called.items():
        grouped.setdefault((program, inside), []).append(name)
    return grouped


def _rows_of(selection: Selection, called: _Called) -> dict[tuple[int, frozenset[str]], list[int]]:
    """Return the rows of the ops that compute or copy in those computations."""
    ops = (
        selection.timeline.ops.with_row_index("row")
        .filter(pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & pl.col("pair").is_null())
        .select("row", "program", "computation")
    )

    def rows(program: int, inside: Iterable[str]) -> list[int]:
        wanted = (pl.col("program") == program) & pl.col("computation").is_in(list(inside))
        return ops.filter(wanted)["row"].to_list()

    computations = {(program, inside) for (program, _), inside in called.items()}
    return {key: rows(*key) for key in computations}


def _limits(starts: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame:
    """Add `limit_ps` to starts: when the first work behind the done, or the next turn, starts."""
    after_done = (
        work.select("device", "run", "program", "computation", "turn", "work_position", "begin_ps")
        .rename({"work_position": "behind", "begin_ps": "limit_ps"})
        .sort("behind")
    )
    following = pl.col("start_ps").sort().shift(-1).over("device", "run", "program", "name")
    return (
        starts.with_columns(next_ps=following.sort_by("start_ps"))
        .sort("done_position")
        .join_asof(
            after_done,
            left_on="done_position",
            right_on="behind",
            by=["device", "run", "program", "computation", "turn"],
            strategy="forward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .with_columns(limit_ps=pl.coalesce("limit_ps", "next_ps", pl.lit(2**63 - 1)))
    )


def _last_in(
    spans: pl.DataFrame, starts: pl.DataFrame, program: int, names: list[str], rows: list[int]
) -> pl.DataFrame:
    inside = (
        spans.filter(pl.col("op").is_in(rows))
        .with_columns(pl.col("run").cast(pl.Int64).fill_null(-1))
        .select(*_RUN, begin_ps="start_ps", called_ps=pl.col("start_ps") + pl.col("dur_ps"))
        .sort("begin_ps")
    )
    own = (pl.col("program") == program) & pl.col("name").is_in(names)
    return (
        starts.filter(own)
        .sort("limit_ps")
        .join_asof(
            inside,
            left_on="limit_ps",
            right_on="begin_ps",
            by=[*_RUN],
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .filter(pl.col("called_ps") > pl.col("start_ps"))
        .select("program", "name", *_RUN, "turn", "called_ps")
    )


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

_TURN: Final = ("device", "run", "computation", "turn")

_KEYS: Final = ("device", "run", "program", "name", "turn")

_TEXTS: Final = ("name", "computation", "part")


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


def _executions(spans: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Return the spans of these ops, each with its turn; spans of one execution share a turn.

    The spans are those of one device after the other, in order of start.
    """
    if not len(ops):
        return _joined(spans.clear(), ops, np.empty(0, np.int64), np.empty(0, np.int64))
    op = spans["op"].to_numpy()
    row_of = np.full(max(int(op.max(initial=0)), int(ops["row"].to_numpy().max())) + 1, -1)
    row_of[ops["row"].to_numpy()] = np.arange(len(ops))
    rows = row_of[op]
    kept = np.flatnonzero(rows >= 0)
    rows, own = rows[kept], spans[kept]
    run = own["run"].cast(pl.Int64).fill_null(-1).to_numpy()
    site = np.where(run >= 0, run, -1 - own["device"].cast(pl.Int64).to_numpy())
    return _joined(own, ops, rows, _turns(site - site.min(initial=0), ops, rows))


def _joined(spans: pl.DataFrame, ops: pl.DataFrame, rows: Longs, turn: Longs) -> pl.DataFrame:
    """Return spans with the facts of their ops, given as rows of `ops`, and their turns."""
    times = spans.select(
        "device",
        "op",
        pl.col("run").cast(pl.Int64).fill_null(-1),
        "step",
        "start_ps",
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        turn=pl.Series(turn, dtype=pl.Int64),
    )
    facts = ops.select(
        "program",
        "computation",
        "name",
        "part",
        pl.col("position", "done_position").cast(pl.Int64),
        "opcode",
    )
    return pl.concat([times, facts[rows]], how="horizontal")


def _turns(site: Longs, ops: pl.DataFrame, rows: Longs) -> Longs:
    """Return the turn of each span; `site` numbers its run on its device, from 0."""
    number = site * len(ops) + rows
    order = np.argsort(number, kind="stable")
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    length = np.diff(first, append=len(order))
    at, many = np.empty_like(number), np.empty_like(number)
    at[order] = np.arange(len(order)) - np.repeat(first, length)
    many[order] = np.repeat(length, length)
    # A computation ran as often as its transfers.
    place = ops.select(pl.struct("program", "computation").rank("dense")).to_series().to_numpy()
    moves = (ops["part"] != "work").to_numpy()[rows]
    beside = site * (int(place.max()) + 1) + place[rows]
    most = np.zeros(int(beside.max(initial=0)) + 1, np.int64)
    np.maximum.at(most, beside[moves], many[moves])
    turns = most[beside]
    split = (turns > 0) & (many > turns) & (many % np.maximum(turns, 1) == 0)
    return np.where(split, at * turns // many, at)


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
