"""GPU work with the op and module execution each piece belongs to, and what is not known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.nsys.activities import GRAPHS
from counterpoint.timeline.nsys.annotations import MODULE
from counterpoint.timeline.nsys.database import Database
from counterpoint.timeline.nsys.host_ranges import HostRanges
from counterpoint.timeline.nsys.launches import find_xla_ranges, link, read_nodes
from counterpoint.timeline.nsys.tables import Clock, build_executions
from counterpoint.timeline.recording import IN_GRAPHS

WORK_KEYS: Final = ("name", "thunk", "module", "hint")
"""What makes two pieces of work the same op."""

_NO_RANGES: Final = (
    "no NVTX ranges of XLA: HLO ops and module executions are unknown (a profile of JAX has them"
    " with nsys profile --trace=cuda,nvtx)"
)
_SEE_OPS: Final = "XLA_FLAGS=--xla_gpu_enable_command_buffer= shows each op"


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """`rows` of work with the columns thunk, module and run of `launches.link`."""

    rows: pl.DataFrame
    notes: tuple[str, ...]


def attribute(
    database: Database,
    activities: pl.DataFrame,
    host: HostRanges,
    annotations: pl.DataFrame,
    calls: pl.DataFrame,
    clock: Clock,
) -> Work:
    """Find op and execution of each activity by the XLA range it was launched in."""
    placed = activities.filter(pl.col("device").is_not_null())
    sane = clock.sane(placed)
    notes = _left_out(len(activities) - len(sane))
    xla = find_xla_ranges(host.ranges, annotations)
    linked = link(sane, calls, xla, read_nodes(database))
    rows = pl.concat([sane, linked], how="horizontal")
    is_cut = pl.Series(xla.is_open, dtype=pl.Boolean).gather(rows["run"]).fill_null(value=False)
    notes += _on_links(rows, annotations) + _on_graphs(rows, database)
    notes += _on_cuts(rows["run"].filter(is_cut).n_unique())
    return Work(rows.with_columns(run=pl.when(~is_cut).then(pl.col("run"))), tuple(notes))


def describe(names: pl.DataFrame, annotations: pl.DataFrame) -> pl.DataFrame:
    """Columns of OPS for the distinct WORK_KEYS."""
    texts = annotations.with_row_index("text_row").with_columns(pl.col("text_row").cast(pl.Int64))
    thunks = texts.select(thunk="text_row", op="op", scope="scope")
    modules = texts.select(module="text_row", called="module", program_key="program_key")
    return (
        names.join(thunks, on="thunk", how="left", maintain_order="left")
        .join(modules, on="module", how="left", maintain_order="left")
        .select("name", "op", "program_key", "hint", "scope", module="called")
    )


def executions(rows: pl.DataFrame, annotations: pl.DataFrame, clock: Clock) -> pl.DataFrame:
    """Executions of modules on each device: from the first of their work to the last."""
    spans = (
        rows.filter(pl.col("run").is_not_null())
        .group_by("device", "run", "module", maintain_order=True)
        .agg(pl.col("start").min(), pl.col("end").max())
    )
    described = annotations.select("module", "program_key")[spans["module"]]
    return build_executions(
        pl.concat([spans.drop("module").rename({"run": "run_key"}), described], how="horizontal"),
        clock,
    )


def _left_out(count: int) -> list[str]:
    if not count:
        return []
    return [f"{count:,} GPU activities have impossible times or no device; they were left out"]


def _on_cuts(count: int) -> list[str]:
    if not count:
        return []
    return [f"{count:,} execution(s) had not ended when the profile stopped; they are left out"]


def _on_links(rows: pl.DataFrame, annotations: pl.DataFrame) -> list[str]:
    if not len(rows):
        return ["no GPU activity was recorded: profile with nsys profile --trace=cuda,nvtx"]
    if not (annotations["kind"] == MODULE).any():
        return [_NO_RANGES]
    lost = rows.filter(pl.col("module").is_null())
    if not len(lost):
        return []
    share = f"{len(lost):,} of {len(rows):,}"
    return [f"{share} GPU activities were launched outside XLA's modules: their module is unknown"]


def _on_graphs(rows: pl.DataFrame, database: Database) -> list[str]:
    notes: list[str] = []
    nodes = rows.filter(pl.col("node").is_not_null())
    unknown = nodes["thunk"].null_count()
    if unknown:
        notes.append(
            f"{unknown:,} of {len(nodes):,} GPU activities {IN_GRAPHS} have an unknown op:"
            f" the profile did not see XLA put them there under its name; {_SEE_OPS}"
        )
    whole = rows.filter(pl.col("hint") == "graph")
    if GRAPHS in database.tables and len(whole):
        notes.append(
            f"{len(whole):,} launches of CUDA graphs were recorded whole, so what ran {IN_GRAPHS}"
            f" is unknown: profile with nsys profile --cuda-graph-trace=node; {_SEE_OPS}"
        )
    return notes
