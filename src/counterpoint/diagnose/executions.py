"""How often ops were executed: an execution may have several spans.

A GPU may need several kernels of one name for an instruction, such as the passes of a sort. XLA on
a CPU copies the operand of a sort first, under the name of the sort. So spans are no count.
"""

from __future__ import annotations

import polars as pl

from counterpoint.hlo.loops import times_per_run
from counterpoint.timeline import Timeline

_IN_RUN = ("device", "run")


def executions(timeline: Timeline, spans: pl.DataFrame) -> pl.DataFrame:
    """Return `count`, how often each op was executed on each device, by op and device.

    Within a run of its program, an op has at most as many executions as the HLO tells, and as it
    has spans. In a loop whose number of turns is not known, it has as many as that op of the
    loop's body which has the fewest spans. Without HLO or run, each span is an execution.
    """
    counted = spans.group_by("op", *_IN_RUN).agg(count=pl.len())
    several = counted.filter((pl.col("count") > 1) & pl.col("run").is_not_null())
    if several.is_empty():
        return counted.group_by("op", "device").agg(pl.col("count").sum())
    bodies = timeline.ops.with_row_index("row").select("row", "program", "computation")
    in_body = counted.join(bodies, left_on="op", right_on="row").drop_nulls("computation")
    told = _told(timeline, in_body.join(several, on="op", how="semi"))
    fewest = pl.col("count").min().over("program", "computation", *_IN_RUN)
    most = (
        in_body.with_columns(fewest=fewest)
        .join(told, on=["program", "computation"], how="left")
        .select("op", *_IN_RUN, most=pl.coalesce("times", "fewest"))
    )
    return (
        counted.join(most, on=["op", *_IN_RUN], how="left")
        .group_by("op", "device")
        .agg(pl.min_horizontal("count", "most").sum().alias("count"))
    )


def _told(timeline: Timeline, in_body: pl.DataFrame) -> pl.DataFrame:
    """Return `times`, how often a run executes each computation, as far as the HLO tells."""
    bodies = in_body.select("program", "computation").unique()
    found: list[tuple[int, str, int | None]] = []
    for number, body in bodies.iter_rows():
        program = timeline.programs[int(number)].hlo()
        if program is not None and body in program.computations:
            found.append((number, body, times_per_run(program, body)))
    schema = {"program": pl.UInt16, "computation": pl.String, "times": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row")
