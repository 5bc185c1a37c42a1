"""How often ops were executed: an execution may have several spans.

A GPU may need several kernels of one name for an instruction, such as the passes of a sort. XLA on
a CPU copies the operand of a sort first, under the name of the sort. So spans are no count.
"""

from __future__ import annotations

import polars as pl

from counterpoint.hlo.loops import times_per_run
from counterpoint.timeline.model import Timeline

_IN_RUN = ("device", "run")
_BODY = ("program", "computation")


def executions(timeline: Timeline, spans: pl.DataFrame) -> pl.DataFrame:
    """Return `count`, how often each op was executed on each device, by op and device.

    Within a run of its program, an op has at most as many executions as the HLO tells, and as it
    has spans. In a loop whose number of turns is not known, it has as many as that op of the
    loop's body which has the fewest spans. Without HLO or run, each span is an execution.
    """
    counted = spans.group_by("op", *_IN_RUN).agg(count=pl.len())
    several = counted.filter((pl.col("count") > 1) & pl.col("run").is_not_null())
    told = _told(timeline, several["op"].unique())
    unknown = told.filter(pl.col("times").is_null()).drop("times")
    fewest = (
        counted.join(unknown, on="op")
        .with_columns(fewest=pl.col("count").min().over(*_BODY, *_IN_RUN))
        .select("op", *_IN_RUN, "fewest")
    )
    times = pl.when(pl.col("run").is_not_null()).then("times")
    return (
        counted.join(told.select("op", "times"), on="op", how="left")
        .join(fewest, on=["op", *_IN_RUN], how="left")
        .group_by("op", "device")
        .agg(pl.min_horizontal("count", times, "fewest").sum().alias("count"))
    )


def _told(timeline: Timeline, several: pl.Series) -> pl.DataFrame:
    """Return the ops of all computations of these: op, program, computation, times.

    `times` is how often a run executes the computation, null if the HLO does not tell.
    """
    ops = timeline.ops.with_row_index("row").select("program", "computation", op="row")
    bodies = ops.filter(pl.col("op").is_in(several.implode())).select(_BODY).drop_nulls().unique()
    times_of_body: list[tuple[int, str, int | None]] = []
    for number, body in bodies.iter_rows():
        program = timeline.programs[int(number)].hlo()
        if program is not None and body in program.computations:
            times_of_body.append((number, body, times_per_run(program, body)))
    schema = {"program": pl.UInt16, "computation": pl.String, "times": pl.Int64}
    return ops.join(pl.DataFrame(times_of_body, schema=schema, orient="row"), on=_BODY)
