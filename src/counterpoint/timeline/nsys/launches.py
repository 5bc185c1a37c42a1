"""Links each piece of GPU work to the XLA op and module execution that launched it.

    work ──(process, correlation)──► CUDA API call ──(thread, start)──► innermost XLA range
    node of a CUDA graph ──► the call that made the node ──► innermost XLA range

The text of a range names the op or the module:

    TSL:Thunk:#name=<op_name>,hlo_op=<instruction>#           `name` is a prefix of the op_name path
    TSL:XlaModule:#prefix=<path>,hlo_module=<module>,program_id=<id>#
    XlaLauncher:#global=3,local=3,process=3,slice=0#          the name of a launching thread
    Xla:#global=3,local=3,process=3,slice=0#                  the name of a device

`TSL:` is the NVTX domain; some exports leave it out. `name`, `prefix` and `program_id` may be
missing: modules that XLA measures while it autotunes have no id.

A launched CUDA graph has one correlation for all its nodes: it identifies the module execution, but
its op is the whole command buffer. XLA names each command while it builds the graph, so a node's op
is known if the profile recorded the node's creation, and null otherwise.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.frozen import frozen
from counterpoint.timeline.nsys.database import Database

THUNK: Final = "thunk"
MODULE: Final = "module"

_THUNK: Final = r"^(?:TSL:)?Thunk:#"
_MODULE: Final = r"^(?:TSL:)?XlaModule:#"
_STEP: Final = r"#(?:.*,)?step_num=(\d{1,18})[,#]"
_PLACE: Final = re.compile(
    r"^(?:XlaLauncher|Xla):#global=(\d{1,9}),local=(\d{1,9}),process=(\d{1,9})(?:,|#)"
)


def parse_annotations(text: pl.Series) -> pl.DataFrame:
    """Return columns kind, op, module, program_key, scope and step, one row per text.

    `step` comes from JAX's step markers (`train#step_num=3#`).
    """
    name = pl.col("text")
    frame = pl.DataFrame({"text": text.cast(pl.String)})
    is_thunk, is_module = name.str.contains(_THUNK), name.str.contains(_MODULE)
    return frame.select(
        "text",
        kind=pl.when(is_thunk).then(pl.lit(THUNK)).when(is_module).then(pl.lit(MODULE)),
        op=pl.when(is_thunk).then(name.str.extract(r"[#,]hlo_op=([^,#]+)")),
        module=pl.when(is_module).then(name.str.extract(r"[#,]hlo_module=([^,#]+)")),
        program_key=pl.when(is_module).then(name.str.extract(r"[#,]program_id=(\d+)")),
        scope=pl.when(is_thunk).then(name.str.extract(_THUNK + r"name=(.+),hlo_op=")),
        step=pl.when(~is_thunk & ~is_module).then(name.str.extract(_STEP).cast(pl.Int64)),
    )


@frozen
class DeviceIds:
    """The ids of a device in its job, as XLA names threads and devices by them."""

    global_id: int
    local_id: int
    process: int


def parse_device_ids(name: str) -> DeviceIds | None:
    """Parse the name of an XLA thread or device; None for other names."""
    match = _PLACE.match(name)
    return DeviceIds(int(match[1]), int(match[2]), int(match[3])) if match else None


Longs = NDArray[np.int64]

OUTSIDE: Final = -1


@frozen(eq=False)
class Nesting:
    """Nested ranges on threads. `parent` is the range around each, OUTSIDE for the outermost.

    At `edge_time` on `edge_thread` (sorted by both) the innermost range becomes `edge_range`.
    """

    thread: Longs
    start: Longs
    end: Longs
    parent: Longs
    edge_thread: Longs
    edge_time: Longs
    edge_range: Longs

    def innermost(self, thread: Longs, time: Longs) -> Longs:
        """Return the innermost range around each moment, OUTSIDE if there is none.

        A range includes its start but not its end.
        """
        edges = len(self.edge_time)
        if not edges or not len(time):
            return np.full(len(time), OUTSIDE, np.int64)
        threads = np.concatenate([self.edge_thread, thread])
        times = np.concatenate([self.edge_time, time])
        is_query = np.arange(len(times)) >= edges
        order = np.lexsort((is_query, times, threads))
        is_edge = order < edges
        last = np.maximum.accumulate(np.where(is_edge, np.arange(len(order)), 0))
        edge = order[last]
        found = np.empty(len(times), np.int64)
        found[order] = np.where(edge < edges, self.edge_range[np.minimum(edge, edges - 1)], OUTSIDE)
        return self._checked(found[edges:], thread, time)

    def _checked(self, found: Longs, thread: Longs, time: Longs) -> Longs:
        """Discard ranges that cross instead of nesting, and ranges of other threads."""
        holds = (
            (found != OUTSIDE)
            & (self.thread[found] == thread)
            & (self.start[found] <= time)
            & (time < self.end[found])
        )
        return np.where(holds, found, OUTSIDE)


def nest(thread: Longs, start: Longs, end: Longs) -> Nesting:
    """Nest the ranges of nonzero length; rows keep their numbers.

    Vectorized for millions of ranges: over the starts and ends of all threads in order, the depth
    is a running sum, and a range's parent is the last earlier one that is one level higher.
    """
    rows = np.flatnonzero(end > start)
    rows = rows[np.lexsort((-end[rows], start[rows], thread[rows]))]
    count = len(rows)
    rank = np.arange(count)
    # At equal times ranges end before others start, and the longest starts first.
    edge_time = np.concatenate([start[rows], end[rows]])
    edge_thread = np.concatenate([thread[rows], thread[rows]])
    step = np.repeat(np.array([1, -1]), count)
    turn = np.concatenate([rank, -rank])
    order = np.lexsort((turn, step, edge_time, edge_thread))
    depth_at = np.empty(2 * count, np.int64)
    depth_at[order] = np.cumsum(step[order])
    above = _above(depth_at[:count])
    parent = np.full(len(start), OUTSIDE, np.int64)
    around = np.where(above != OUTSIDE, rows[above], OUTSIDE) if count else above
    inside = (
        ((around != OUTSIDE) & (thread[around] == thread[rows]) & (end[around] >= end[rows]))
        if count
        else np.zeros(0, bool)
    )
    parent[rows] = np.where(inside, around, OUTSIDE)
    edge_range = np.concatenate([rows, parent[rows]])
    return Nesting(
        thread, start, end, parent, edge_thread[order], edge_time[order], edge_range[order]
    )


def _above(depth: Longs) -> Longs:
    """Return, for ranges ordered by start, the last earlier one that is one level higher."""
    count = len(depth)
    if not count:
        return np.zeros(0, np.int64)
    key = depth * count + np.arange(count)
    keys = np.sort(key)
    at = np.searchsorted(keys, key - count) - 1
    found = keys[at]
    return np.where((at >= 0) & (found // count == depth - 1), found % count, OUTSIDE)


def nearest(parent: Longs, wanted: NDArray[np.bool_]) -> Longs:
    """Return each range itself if `wanted`, else its nearest wanted ancestor, else OUTSIDE."""
    count = len(parent)
    nowhere = count
    hop = np.append(
        np.where(wanted, np.arange(count), np.where(parent < 0, nowhere, parent)), nowhere
    )
    while True:
        further = hop[hop]
        if (further == hop).all():
            break
        hop = further
    found = hop[:count]
    return np.where(found == nowhere, OUTSIDE, found)


NODES: Final = "CUDA_GRAPH_NODE_EVENTS"

_CLONES: Final = 8
"""A graph is cloned when it is instantiated, and again inside another graph; never this deep."""


@frozen(eq=False)
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
    found = nearest(nesting.parent, is_thunk | is_module)
    within = (found != OUTSIDE) & is_thunk[found] if len(found) else is_thunk
    return np.where(within, found, OUTSIDE)


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
    found = wanted.join(
        first.select(*keys, "thunk", "module"), on=keys, how="left", maintain_order="left"
    ).fill_null(OUTSIDE)
    thunk, node_module = found["thunk"].to_numpy(), found["module"].to_numpy()
    return np.where((thunk != launch) & (node_module == module), thunk, OUTSIDE)
