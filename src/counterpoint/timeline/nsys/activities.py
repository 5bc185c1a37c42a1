"""What ran on GPUs: kernels, copies, memsets and whole CUDA graphs, as one table.

CUPTI_ACTIVITY_KIND_{KERNEL, MEMCPY, MEMSET}   one row each; `graphNodeId` is set inside CUDA graphs
CUPTI_ACTIVITY_KIND_GRAPH_TRACE                one row per launch of a graph, instead of its kernels

Which of the two a profile has for CUDA graphs is nsys' option --cuda-graph-trace=node|graph.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.core.errors import InputError
from counterpoint.timeline.nsys.database import Database

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

_NUMBERS: Final = (
    "start",
    "end",
    "deviceId",
    "streamId",
    "globalPid",
    "correlationId",
    "graphNodeId",
)

# enum CUpti_ActivityMemcpyKind, with the names XLA's own profiler gives them
_COPY_NAMES: Final = {
    1: "MemcpyH2D",
    2: "MemcpyD2H",
    3: "MemcpyH2A",
    4: "MemcpyA2H",
    5: "MemcpyA2A",
    6: "MemcpyA2D",
    7: "MemcpyD2A",
    8: "MemcpyD2D",
    9: "MemcpyH2H",
    10: "MemcpyP2P",
}

_NOTHING: Final = pl.DataFrame(
    schema={
        **dict.fromkeys(
            ("start", "end", "device", "stream", "pid", "correlation", "node"), pl.Int64
        ),
        **dict.fromkeys(("name", "hint"), pl.String),
    }
)
"""A report of a process that never came to a GPU has none of the tables."""

_NCCL: Final = r"(?i)^(?:void )?(?:nccl|rccl)"


def read_activities(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """Columns start, end, device, stream, pid, correlation, node, name and hint.

    Times are in nanoseconds; `strings` has the columns id and value.
    """
    parts = [
        _kernels(database, strings),
        _named(database, COPIES, "copyKind", _copy_name(), "memcpy"),
        _named(database, MEMSETS, "value", pl.lit("Memset"), "memset"),
        _named(database, GRAPHS, "graphId", _graph_name(), "graph"),
    ]
    return pl.concat([part for part in parts if part is not None] or [_NOTHING])


def _kernels(database: Database, strings: pl.DataFrame) -> pl.DataFrame | None:
    if not _is_there(database, KERNELS):
        return None
    names = ("demangledName", "shortName")
    if not any(database.has(KERNELS, name) for name in names):
        raise _lacks(database, KERNELS, "demangledName")
    kernels = database.read(KERNELS, (*_NUMBERS, *names))
    name_id = kernels.select(id=pl.coalesce(names))
    name = name_id.join(strings, on="id", how="left", maintain_order="left")["value"]
    named = kernels.with_columns(name=name.fill_null("kernel without a name"))
    is_nccl = pl.col("name").str.contains(_NCCL)
    return _finish(named.with_columns(hint=pl.when(is_nccl).then(pl.lit("nccl"))))


def _named(
    database: Database, table: str, extra: str, name: pl.Expr, hint: str
) -> pl.DataFrame | None:
    if not _is_there(database, table):
        return None
    rows = database.read(table, (*_NUMBERS, extra)).rename({extra: "extra"})
    return _finish(rows.with_columns(name=name.cast(pl.String), hint=pl.lit(hint)))


def _copy_name() -> pl.Expr:
    kind = pl.col("extra")
    return kind.replace_strict(
        _COPY_NAMES, default=pl.format("Memcpy (kind {})", kind), return_dtype=pl.String
    ).fill_null("Memcpy")


def _graph_name() -> pl.Expr:
    return pl.format("CUDA graph {}", pl.col("extra")).fill_null("CUDA graph")


def _is_there(database: Database, table: str) -> bool:
    if table not in database.tables:
        return False
    for column in ("start", "end", "deviceId"):
        if not database.has(table, column):
            raise _lacks(database, table, column)
    return True


def _lacks(database: Database, table: str, column: str) -> InputError:
    return InputError(
        f"{database.path}: table {table} has no column {column}",
        why="no schema of Nsight Systems from 3.0 to 3.25 is like that",
        next="nsys export --type sqlite --force-overwrite true FILE.nsys-rep",
    )


def _finish(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        "start",
        "end",
        device="deviceId",
        stream="streamId",
        pid="globalPid",
        correlation="correlationId",
        node="graphNodeId",
        name="name",
        hint=pl.col("hint").cast(pl.String),
    )
