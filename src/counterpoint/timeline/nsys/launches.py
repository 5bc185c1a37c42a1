"""Links each piece of GPU work to the XLA op and module execution that launched it.

    work ──(process, correlation)──► CUDA API call ──(thread, start)──► innermost XLA range
    node of a CUDA graph ──► the call that made the node ──► innermost XLA range

A launched CUDA graph has one correlation for all its nodes: it identifies the module execution, but
its op is the whole command buffer. XLA names each command while it builds the graph, so a node's op
is known if the profile recorded the node's creation, and null otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.nsys.annotations import MODULE, THUNK
from counterpoint.timeline.nsys.database import Database
from counterpoint.timeline.nsys.nesting import OUTSIDE, Longs, Nesting, nearest, nest

NODES: Final = "CUDA_GRAPH_NODE_EVENTS"

_CLONES: Final = 8
"""A graph is cloned when it is instantiated, and again inside another graph; never this deep."""


@dataclass(frozen=True, slots=True, eq=False)
class XlaRanges:
    """XLA's NVTX ranges, nested.

    `text` is the annotation of each; `thunk` and `module` are the innermost range of that kind
    around each range or the range itself, as rows; `is_open` marks those that never ended.
    """

    nesting: Nesting
    text: Longs
    thunk: Longs
    module: Longs
    is_open: NDArray[np.bool_]

    def text_of(self, row: Longs) -> Longs:
        """Return the annotation of each row, OUTSIDE for OUTSIDE."""
        if not len(self.text):
            return np.full(len(row), OUTSIDE, np.int64)
        return np.where(row == OUTSIDE, OUTSIDE, self.text[row])

    def around(self, thread: pl.Series, time: pl.Series) -> tuple[Longs, Longs]:
        """Return the thunk and the module around each moment, as rows."""
        known = (thread.is_not_null() & time.is_not_null()).to_numpy()
        row = np.full(len(thread), OUTSIDE, np.int64)
        row[known] = self.nesting.innermost(
            thread.filter(pl.Series(known)).to_numpy(), time.filter(pl.Series(known)).to_numpy()
        )
        if not len(self.text):
            return row, row
        return (
            np.where(row == OUTSIDE, OUTSIDE, self.thunk[row]),
            np.where(row == OUTSIDE, OUTSIDE, self.module[row]),
        )


def find_xla_ranges(ranges: pl.DataFrame, annotations: pl.DataFrame) -> XlaRanges:
    """Select XLA's ranges; `annotations` has a row for each text of `ranges`."""
    kinds = annotations["kind"].gather(ranges["text"])
    xla = ranges.with_columns(kind=kinds).filter(
        pl.col("nests") & pl.col("kind").is_not_null() & pl.col("thread").is_not_null()
    )
    is_open = xla["end"].is_null().to_numpy()
    last = np.iinfo(np.int64).max
    nesting = nest(
        xla["thread"].to_numpy(), xla["start"].to_numpy(), xla["end"].fill_null(last).to_numpy()
    )
    kind = xla["kind"]
    return XlaRanges(
        nesting,
        xla["text"].cast(pl.Int64).to_numpy(),
        _within_module(nesting, (kind == THUNK).to_numpy(), (kind == MODULE).to_numpy()),
        nearest(nesting.parent, (kind == MODULE).to_numpy()),
        is_open,
    )


def _within_module(
    nesting: Nesting, is_thunk: NDArray[np.bool_], is_module: NDArray[np.bool_]
) -> Longs:
    """Return the thunk around each range, without looking beyond the module it belongs to."""
    ancestor = nearest(nesting.parent, is_thunk | is_module)
    within = (ancestor != OUTSIDE) & is_thunk[ancestor] if len(ancestor) else is_thunk
    return np.where(within, ancestor, OUTSIDE)


def link(
    work: pl.DataFrame, calls: pl.DataFrame, xla: XlaRanges, nodes: pl.DataFrame
) -> pl.DataFrame:
    """Return columns thunk, module (annotations), run (row of the module's range) per work."""
    launch = _launches(work, calls)
    thunk_row, run = xla.around(launch["thread"], launch["time"])
    thunk, module = xla.text_of(thunk_row), xla.text_of(run)
    in_graph = work["node"].is_not_null().to_numpy()
    if in_graph.any():
        thunk = np.where(in_graph, _node_thunks(work, nodes, xla, thunk, module), thunk)
    return pl.DataFrame({"thunk": thunk, "module": module, "run": run}).select(
        pl.when(pl.all() != OUTSIDE).then(pl.all())
    )


def _launches(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return thread and time of the call behind each piece of work, null where there is none."""
    known = calls.filter(pl.col("correlation").is_not_null())
    keys = ["pid", "correlation"]
    if work["pid"].null_count() == len(work) and known["pid"].n_unique() == 1:
        keys = ["correlation"]  # exports before 2020 lack the process
    first = known.select(*keys, "thread", time="start").unique(keys, keep="first")
    wanted = work.select(pid=process_of(pl.col("pid")), correlation="correlation")
    return wanted.join(first, on=keys, how="left", maintain_order="left")


def process_of(global_id: pl.Expr) -> pl.Expr:
    """Return the process part of a serialized id, whose low 24 bits are the thread."""
    return global_id // (1 << 24) * (1 << 24)


def read_nodes(database: Database) -> pl.DataFrame:
    """Read the nodes of CUDA graphs: pid, node, origin (of which it is a clone), thread, time."""
    complete = database.has(NODES, "start", "globalTid", "graphNodeId")
    nodes = database.read(
        NODES if complete else "", ("start", "globalTid", "graphNodeId", "originalGraphNodeId")
    )
    return nodes.select(
        pid=process_of(pl.col("globalTid")),
        node="graphNodeId",
        origin="originalGraphNodeId",
        thread="globalTid",
        time="start",
    )


def _node_thunks(
    work: pl.DataFrame, nodes: pl.DataFrame, xla: XlaRanges, launch: Longs, module: Longs
) -> Longs:
    """Return the annotation under which each node was created, if it differs from the launch's."""
    keys = ["pid", "node"]
    thunk_row, module_row = xla.around(nodes["thread"], nodes["time"])
    annotated = nodes.with_columns(
        thunk=pl.Series(xla.text_of(thunk_row)), module=pl.Series(xla.text_of(module_row))
    )
    first = annotated.filter(pl.col("origin").is_null()).unique(
        keys, keep="first", maintain_order=True
    )
    clones = annotated.filter(pl.col("origin").is_not_null()).select(*keys, "origin")
    clones = clones.unique(keys, keep="first", maintain_order=True)
    wanted = work.select(pid=process_of(pl.col("pid")), node="node")
    for _ in range(_CLONES):
        step = wanted.join(clones, on=keys, how="left", maintain_order="left")
        if step["origin"].null_count() == len(step):
            break
        wanted = step.select("pid", node=pl.coalesce("origin", "node"))
    node_rows = wanted.join(
        first.select(*keys, "thunk", "module"), on=keys, how="left", maintain_order="left"
    ).fill_null(OUTSIDE)
    thunk, node_module = node_rows["thunk"].to_numpy(), node_rows["module"].to_numpy()
    return np.where((thunk != launch) & (node_module == module), thunk, OUTSIDE)
