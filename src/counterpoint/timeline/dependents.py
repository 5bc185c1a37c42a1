"""Ops of CPU devices end before ops that use their results begin.

The end of an op that XLA runs on a pool of threads is marked by the thread that finished it, after
it has begun with what waited for the op: with a collective, for example, which then waits for other
devices. So the mark may come late; that an op has ended is certain when one begins that uses its
results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.hlo.model.program import Program
from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN

_NO_WORK: Final = frozenset(("bitcast", "get-tuple-element", "tuple"))
"""Instructions that are no ops: what uses them uses their operands."""


def ended_before_use(
    spans: pl.DataFrame,
    run_of: NDArray[np.uint32],
    ops: pl.DataFrame,
    programs: Sequence[int],
    hlo: Callable[[int], Program | None],
    rows_by_start: Sequence[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return how long spans last, at most until their results are used in their run.

    `run_of` has the run of each span, `programs` the program of each op, and `rows_by_start` the
    rows of each device's spans in the order of time.
    """
    lasts = spans["dur_ps"].to_numpy()
    uses = pl.DataFrame(
        [*_uses(ops, programs, hlo)],
        schema={"op": pl.UInt32, "user": pl.UInt32},
        orient="row",
    )
    if uses.is_empty():
        return lasts
    placed = spans.select("device", "op", "start_ps", run=pl.Series(run_of)).with_row_index("row")
    rows = np.concatenate([_going_on(spans, rows) for rows in rows_by_start])
    going_on = placed[rows].filter(pl.col("run") != NO_RUN).join(uses, on="op").sort("start_ps")
    users = placed.filter(pl.col("op").is_in(going_on["user"].unique().implode()))
    used = (
        going_on.join_asof(
            users.select("device", "run", used_ps="start_ps", user="op").sort("used_ps"),
            left_on="start_ps",
            right_on="used_ps",
            by=["device", "run", "user"],
            strategy="forward",
            check_sortedness=False,
        )
        .group_by("row")
        .agg((pl.col("used_ps") - pl.col("start_ps")).min())
        .drop_nulls()
    )
    rows, most = used["row"].to_numpy(), used["used_ps"].to_numpy()
    result = lasts.copy()
    result[rows] = np.minimum(lasts[rows], most)
    return result


def _going_on(spans: pl.DataFrame, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of a device's spans that last until the next one has begun, or longer.

    They are few, and results of the others are not used before they end.
    """
    start = spans["start_ps"].to_numpy()[rows]
    end = start + spans["dur_ps"].to_numpy()[rows]
    return rows[:-1][end[:-1] > start[1:]]


def _uses(
    ops: pl.DataFrame, programs: Sequence[int], hlo: Callable[[int], Program | None]
) -> Iterator[tuple[int, int]]:
    """Yield ops with each of the ops that use their results."""
    rows: dict[int, dict[str, int]] = {}
    for row, (name, program) in enumerate(zip(ops["op"].to_list(), programs, strict=True)):
        if name is not None and program != NO_PROGRAM:
            rows.setdefault(program, {})[name] = row
    for number, row_of in rows.items():
        program = hlo(number)
        if program is None:
            continue
        for computation in program.computations.values():
            makers: dict[str, tuple[str, ...]] = {}  # ops whose results a value holds
            for it in computation.instructions:
                made_by = tuple(one for name in it.operands for one in makers.get(name, ()))
                user = row_of.get(it.name)
                if user is not None:
                    makers[it.name] = (it.name,)
                    yield from ((row_of[one], user) for one in dict.fromkeys(made_by))
                elif it.opcode in _NO_WORK:
                    makers[it.name] = made_by
