"""Runs: the executions of each program on each device.

The profiler's data is used if there is any (run ids, module lines); else runs are found from the
ops themselves: an op that executes once per run and comes first marks where runs begin. Spans
before the first mark were cut off by the start of the profile, and belong to no run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import distinct, values_of
from counterpoint.core.threads import on_threads
from counterpoint.timeline.model import Schema
from counterpoint.timeline.recording import Recording

RUN_SCHEMA: Final[Schema] = {
    "device": pl.UInt16,
    "program": pl.UInt16,
    "key": pl.Int64,  # the profiler's run id, if there is one
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
}

NO_RUN: Final = int(np.iinfo(np.uint32).max)
NO_PROGRAM: Final = -1

_FAIR_SHARE: Final = 0.1
_CUT: Final = 0.5

Programs = NDArray[np.int32]
Rows = NDArray[np.uint32]
Longs = NDArray[np.int64]

_BLOCK: Final = 1 << 16
"""Spans that are looked at at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class RunsOfSpans:
    """Runs sorted by device and start, and the run of each span (NO_RUN: in none)."""

    runs: pl.DataFrame
    run_of: Rows


def find_runs(
    recording: Recording,
    op_program: Programs,
    execution_program: Programs,
    positions: NDArray[np.int32],
) -> RunsOfSpans:
    """Find the runs of one recording.

    `op_program` and `execution_program` give the program of each row of those tables, NO_PROGRAM
    if unknown; `positions` gives the position of each op in its program's entry computation, -1 if
    it has none there.
    """
    spans = recording.spans
    if spans["run_key"].null_count() < len(spans):
        return _by_key(spans, op_program)
    op_of_span = spans["op"].to_numpy()
    spans = spans.select(
        "device",
        "op",
        "start_ps",
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        program=pl.Series(op_program[op_of_span], dtype=pl.Int32),
        position=pl.Series(positions[op_of_span], dtype=pl.Int32),
    )
    if len(recording.executions):
        return _by_execution(spans, recording.executions, execution_program)
    return _by_counting(spans)


def _without_cut(all_runs: RunsOfSpans, spans: Longs) -> RunsOfSpans:
    """Remove runs cut off by the start or end of the profile; `spans` is the number of each run's.

    They are the first or last of their program on a device and lack most of its spans.
    """
    runs, run_of = all_runs.runs, all_runs.run_of
    counted = runs.with_columns(spans=pl.Series(spans, dtype=pl.Int64))
    of_device = ["device", "program"]
    cut = counted.select(
        cut=(pl.col("spans") < _CUT * pl.col("spans").median().over("program"))
        & (
            (pl.int_range(pl.len()).over(of_device) == 0)
            | (pl.int_range(pl.len()).over(of_device) == pl.len().over(of_device) - 1)
        )
    )["cut"].to_numpy()
    if not cut.any():
        return all_runs
    place = np.append(np.where(cut, NO_RUN, np.cumsum(~cut) - 1), NO_RUN).astype(np.uint32)
    at = np.minimum(run_of, len(runs))
    return RunsOfSpans(runs.filter(~pl.Series(cut)), place[at])


def _by_key(spans: pl.DataFrame, op_program: Programs) -> RunsOfSpans:
    """Group spans of one device and program by run id; in numpy, for speed.

    Spans are stored line by line, and thousands in a row are of one run: such a stretch is grouped
    as one.
    """
    blocks = [slice(at, at + _BLOCK) for at in range(0, len(spans), _BLOCK)]
    stretches = np.concatenate(on_threads(_stretches(spans, op_program), blocks), axis=1)
    device, own, key, begins, ends, lengths = stretches
    of_run = np.flatnonzero(own >= 0)
    first, code = distinct([device[of_run], own[of_run], key[of_run]])
    first = of_run[first]
    begin = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(begin, code, begins[of_run])
    end = np.full(len(first), np.iinfo(np.int64).min)
    np.maximum.at(end, code, ends[of_run])
    count = np.zeros(len(first), np.int64)
    np.add.at(count, code, lengths[of_run])
    order = np.lexsort((begin, device[first]))
    place = np.empty(len(order), np.uint32)
    place[order] = np.arange(len(order), dtype=np.uint32)
    run_of = np.full(len(own), NO_RUN, np.uint32)
    run_of[of_run] = place[code]
    columns = {"device": device[first], "program": own[first], "key": key[first]}
    columns |= {"start_ps": begin, "end_ps": end}
    runs = pl.DataFrame({name: column[order] for name, column in columns.items()})
    whole = RunsOfSpans(runs.cast({**RUN_SCHEMA}), np.repeat(run_of, lengths))
    return _without_cut(whole, count[order])


def _stretches(spans: pl.DataFrame, op_program: Programs) -> Callable[[slice], Longs]:
    """Return what finds the stretches of spans of one run in a block of rows.

    It gives device, program (NO_PROGRAM: in no run), run id, first start, last end and length of
    each. The columns of a block stay in the processor's cache.
    """
    devices, ops = spans["device"].to_numpy(), spans["op"].to_numpy()
    starts, durations = spans["start_ps"].to_numpy(), spans["dur_ps"].to_numpy()
    run_key = spans["run_key"]
    keys = (run_key.fill_null(0) if run_key.null_count() else run_key).to_numpy()
    known = run_key.is_not_null().to_numpy() if run_key.null_count() else None

    def find(block: slice) -> Longs:
        device, key, start = devices[block], keys[block], starts[block]
        program = op_program[ops[block]]
        if known is not None:
            program = np.where(known[block], program, NO_PROGRAM)
        changes = device[1:] != device[:-1]
        changes |= key[1:] != key[:-1]
        changes |= program[1:] != program[:-1]
        at = np.append(0, np.flatnonzero(changes) + 1)
        return np.stack(
            [
                device[at].astype(np.int64),
                program[at].astype(np.int64),
                key[at],
                np.minimum.reduceat(start, at),
                np.maximum.reduceat(start + durations[block], at),
                np.diff(at, append=len(start)),
            ]
        )

    return find


def _by_execution(
    spans: pl.DataFrame, executions: pl.DataFrame, execution_program: Programs
) -> RunsOfSpans:
    """Assign each span to the execution during which it starts on its device."""
    runs = (
        executions.select("device", "start_ps", end_ps=pl.col("start_ps") + pl.col("dur_ps"))
        .with_columns(program=pl.Series(execution_program, dtype=pl.Int32))
        .filter(pl.col("program") >= 0)
        .sort("device", "start_ps")
    )
    run_of = np.full(len(spans), NO_RUN, np.uint32)
    run_device, run_start = runs["device"].to_numpy(), runs["start_ps"].to_numpy()
    run_end, run_program = runs["end_ps"].to_numpy(), runs["program"].to_numpy()
    device, start = spans["device"].to_numpy(), spans["start_ps"].to_numpy()
    program = spans["program"].to_numpy()
    for number in values_of(device):
        first, last = np.searchsorted(run_device, [number, number + 1])
        if first == last:
            continue
        rows = np.flatnonzero(device == number)
        at = first + np.searchsorted(run_start[first:last], start[rows], side="right") - 1
        inside = (at >= first) & (start[rows] < run_end[np.maximum(at, first)])
        same = (program[rows] == NO_PROGRAM) | (program[rows] == run_program[at])
        run_of[rows[inside & same]] = at[inside & same]
    return RunsOfSpans(_without_keys(runs), run_of)


def _without_keys(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.with_columns(key=pl.lit(None, pl.Int64)).select(*RUN_SCHEMA).cast({**RUN_SCHEMA})


def _by_counting(spans: pl.DataFrame) -> RunsOfSpans:
    """Split each program's spans on a device wherever its marking op starts."""
    device, program = spans["device"].to_numpy(), spans["program"].to_numpy()
    op, position = spans["op"].to_numpy(), spans["position"].to_numpy()
    start, end = spans["start_ps"].to_numpy(), spans["end_ps"].to_numpy()
    run_of = np.full(len(spans), NO_RUN, np.uint32)
    parts: list[NDArray[np.int64]] = []
    count = 0
    for members in _groups(device, program, start):
        turns = _turns(op[members], position[members], start[members])
        rows, at = members[turns >= 0], turns[turns >= 0]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        run_of[rows] = count + at
        of_first = device[rows[first]], program[rows[first]], start[rows[first]]
        parts.append(np.stack([*of_first, np.maximum.reduceat(end[rows], first)]).astype(np.int64))
        count += len(first)
    if not parts:
        return RunsOfSpans(pl.DataFrame(schema=RUN_SCHEMA), run_of)
    stacked = np.concatenate(parts, axis=1)
    order = np.lexsort((stacked[2], stacked[0]))
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    inside = run_of != NO_RUN
    run_of[inside] = place[run_of[inside]]
    columns = zip(("device", "program", "start_ps", "end_ps"), stacked[:, order], strict=True)
    return RunsOfSpans(_without_keys(pl.DataFrame(dict(columns))), run_of)


def _groups(
    device: NDArray[np.uint16], program: NDArray[np.int32], start: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each device and known program, in order of start."""
    for number in pl.Series(device).unique().sort():
        own = np.flatnonzero(device == number)
        programs = program[own]
        for known in pl.Series(programs).unique().sort():
            if known >= 0:
                rows = own[programs == known]
                yield rows[np.argsort(start[rows], kind="stable")]


def _turns(
    op: NDArray[np.uint32], position: NDArray[np.int32], start: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the run of each span of a group, counted from 0; -1 before the first mark."""
    marks = values_of(start[op == _marking_op(op, position, start)])
    return np.searchsorted(marks, start, side="right") - 1


def _marking_op(
    op: NDArray[np.uint32], position: NDArray[np.int32], start: NDArray[np.int64]
) -> int:
    """Return the op that marks a beginning: the first executed once per run. Spans are in order.

    Ops of the entry computation execute once per run. Some launch a kernel several times, and runs
    cut off by the profile lack some: but the most common count is the number of runs, within one.
    The first op in the schedule with that count marks the run, or an op that starts before it on
    another stream. Without HLO, the smallest count that a fair share of all ops has is taken: ops
    in loops have higher counts, and few are conditional.
    """
    counted = np.bincount(op)
    ops = np.flatnonzero(counted)
    count = counted[ops]
    of_op = np.empty(len(counted), np.int64)  # of several values for an op, the last one remains
    of_op[op[::-1]] = np.arange(len(op) - 1, -1, -1)
    first = of_op[ops]
    of_op[op] = start
    last = of_op[ops]
    entry = np.flatnonzero(position[first] >= 0)
    if len(entry):
        counts, shared = np.unique(count[entry], return_counts=True)
        runs = counts[np.flatnonzero(shared == shared.max())[-1]]
        usual = entry[np.abs(count[entry] - runs) <= 1]
        usual = usual[np.argsort(position[first[usual]], kind="stable")]
        starts = values_of(start[op == ops[usual[0]]])
        since = starts[-2] if len(starts) > 1 else starts[0] - 1
        in_last_run = (count[usual] == count[usual[0]]) & (last[usual] > since)
        marks = usual[in_last_run]
        return int(ops[marks[np.argmin(last[marks])]])
    counts, shared = np.unique(count, return_counts=True)
    fair = counts[shared >= _FAIR_SHARE * len(ops)]
    marks = np.flatnonzero(count == (fair if len(fair) else counts)[0])
    return int(ops[marks[np.argmin(start[first[marks]])]])


def number_runs(runs: pl.DataFrame, host_of_device: Sequence[int]) -> pl.DataFrame:
    """Return the runs with the column `index`, in the order given.

    The same run of a program gets the same number on all devices. Devices of one host that share
    the profiler's run ids are matched by them. Otherwise runs are counted on each device, and
    matched from the last one backward if counts differ: a profile that starts within a step lacks
    runs at its beginning.
    """
    hosts = dict(enumerate(host_of_device))
    runs = runs.with_row_index("row").with_columns(
        host=pl.col("device").replace_strict(hosts, default=None, return_dtype=pl.UInt32)
    )
    of_host = ["host", "program"]
    shared = runs.group_by(of_host).agg(
        shared=(pl.col("key").null_count() == 0)
        & ((pl.col("key").n_unique() < pl.len()) | (pl.col("device").n_unique() == 1))
    )
    by_key = (
        runs.group_by(*of_host, "key")
        .agg(pl.col("start_ps").min())
        .sort("start_ps")
        .with_columns(by_key=pl.int_range(pl.len()).over(of_host))
        .drop("start_ps")
    )
    counted = runs.sort("start_ps").with_columns(
        turn=pl.int_range(pl.len()).over("device", "program"),
        count=pl.len().over("device", "program"),
    )
    most = pl.col("count").max().over("program")
    return (
        counted.join(shared, on=of_host)
        .join(by_key, on=[*of_host, "key"], how="left", nulls_equal=True)
        .with_columns(
            index=pl.when("shared")
            .then(pl.col("by_key"))
            .otherwise(pl.col("turn") + most - pl.col("count"))
            .cast(pl.UInt32)
        )
        .sort("row")
        .select("device", "program", "index", "key", "start_ps", "end_ps")
    )
