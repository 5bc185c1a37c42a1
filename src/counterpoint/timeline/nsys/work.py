"""GPU work with the op and module execution of each piece, and notes on what is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.core import InputError
from counterpoint.timeline.nsys.annotations import MODULE
from counterpoint.timeline.nsys.database import Database
from counterpoint.timeline.nsys.launches import find_xla_ranges, link, read_nodes
from counterpoint.timeline.nsys.tables import ReportClock, build_executions
from counterpoint.timeline.nsys.target import HostRanges
from counterpoint.timeline.recording import IN_GRAPHS

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

_NUMBERS: Final = (
    *("start", "end", "deviceId", "streamId", "globalPid", "correlationId", "graphNodeId"),
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

_H2D, _D2H = 1, 2
_HOST_MEMORY: Final = {0: " (pageable)", 1: " (pinned)"}
"""Kinds of memory as Nsight Systems numbers them (ENUM_CUDA_MEM_KIND)."""

_NOTHING: Final = pl.DataFrame(
    schema={
        **dict.fromkeys(
            ("start", "end", "device", "stream", "pid", "correlation", "node"), pl.Int64
        ),
        **dict.fromkeys(("name", "hint"), pl.String),
        "bytes": pl.Float64,
    }
)
"""Empty activities: a report of a process that never used a GPU has none of the tables."""

_NCCL: Final = r"(?i)^(?:void )?(?:nccl|rccl)"


def read_activities(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """Return columns start, end, device, stream, pid, correlation, node, name and hint.

    Times are in nanoseconds; `strings` has the columns id and value.

        CUPTI_ACTIVITY_KIND_{KERNEL, MEMCPY, MEMSET}  one row each; `graphNodeId` in CUDA graphs
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE               one row per graph launch, no kernels

    Which of the two a profile has for CUDA graphs depends on nsys' --cuda-graph-trace=node|graph.
    """
    parts = [
        _kernels(database, strings),
        _copies(database),
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
    named = kernels.with_columns(name=name.fill_null("unnamed kernel"))
    is_nccl = pl.col("name").str.contains(_NCCL)
    return _finish(named.with_columns(hint=pl.when(is_nccl).then(pl.lit("nccl"))))


def _named(
    database: Database, table: str, extra: str, name: pl.Expr, hint: str
) -> pl.DataFrame | None:
    if not _is_there(database, table):
        return None
    rows = database.read(table, (*_NUMBERS, extra)).rename({extra: "extra"})
    return _finish(rows.with_columns(name=name.cast(pl.String), hint=pl.lit(hint)))


def _copies(database: Database) -> pl.DataFrame | None:
    """Read copies; each has the mean bytes of those of its name."""
    if not _is_there(database, COPIES):
        return None
    rows = database.read(COPIES, (*_NUMBERS, "copyKind", "bytes", "srcKind", "dstKind"))
    named = rows.with_columns(name=_copy_name() + _host_memory(), hint=pl.lit("memcpy"))
    return _finish(named.with_columns(bytes=pl.col("bytes").cast(pl.Float64).mean().over("name")))


def _host_memory() -> pl.Expr:
    """Return which memory of the host a copy reads or writes, if the report tells."""
    kind = pl.col("copyKind")
    memory = pl.when(kind == _H2D).then("srcKind").when(kind == _D2H).then("dstKind")
    return memory.replace_strict(_HOST_MEMORY, default="", return_dtype=pl.String).fill_null("")


def _copy_name() -> pl.Expr:
    kind = pl.col("copyKind")
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
        why="every schema of Nsight Systems from 3.0 to 3.25 has it",
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
        bytes=pl.col("bytes") if "bytes" in rows.columns else pl.lit(None, pl.Float64),
    )


WORK_KEYS: Final = ("name", "thunk", "module", "hint", "bytes")
"""Two pieces of work with equal values in these columns are the same op."""

_NO_RANGES: Final = (
    "no NVTX ranges of XLA: HLO ops and module executions are unknown (of a JAX"
    " program, nsys profile --trace=cuda,nvtx records them)"
)
_SEE_OPS: Final = "XLA_FLAGS=--xla_gpu_enable_command_buffer= shows each op"


@dataclass(frozen=True, slots=True, eq=False)
class AttributedWork:
    """`rows` of work with the columns thunk, module and run of `launches.link`."""

    rows: pl.DataFrame
    notes: tuple[str, ...]


def attribute_work(
    database: Database,
    activities: pl.DataFrame,
    host: HostRanges,
    annotations: pl.DataFrame,
    calls: pl.DataFrame,
    clock: ReportClock,
) -> AttributedWork:
    """Find op and execution of each activity from the XLA range it was launched in."""
    on_device = activities.filter(pl.col("device").is_not_null())
    sane = clock.sane(on_device)
    notes = _left_out(len(activities) - len(sane))
    xla = find_xla_ranges(host.ranges, annotations)
    linked = link(sane, calls, xla, read_nodes(database))
    rows = pl.concat([sane, linked], how="horizontal")
    is_cut = pl.Series(xla.is_open, dtype=pl.Boolean).gather(rows["run"]).fill_null(value=False)
    notes += _on_links(rows, annotations) + _on_graphs(rows, database)
    notes += _on_cuts(rows["run"].filter(is_cut).n_unique())
    return AttributedWork(rows.with_columns(run=pl.when(~is_cut).then(pl.col("run"))), tuple(notes))


def describe(names: pl.DataFrame, annotations: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of OPS for the distinct WORK_KEYS."""
    texts = annotations.with_row_index("text_row").with_columns(pl.col("text_row").cast(pl.Int64))
    thunks = texts.select(thunk="text_row", op="op", scope="scope")
    modules = texts.select(module="text_row", called="module", program_key="program_key")
    return (
        names.join(thunks, on="thunk", how="left", maintain_order="left")
        .join(modules, on="module", how="left", maintain_order="left")
        .select("name", "op", "program_key", "hint", "scope", "bytes", module="called")
    )


def executions(rows: pl.DataFrame, annotations: pl.DataFrame, clock: ReportClock) -> pl.DataFrame:
    """Return executions of modules on each device, from the start of their work to its end."""
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
    return [f"{count:,} GPU activities have impossible times or no device; they are left out"]


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
            f" the profile did not record XLA adding them to the graph; {_SEE_OPS}"
        )
    whole = rows.filter(pl.col("hint") == "graph")
    if GRAPHS in database.tables and len(whole):
        notes.append(
            f"{len(whole):,} launches of CUDA graphs were recorded whole, so what ran {IN_GRAPHS}"
            f" is unknown: profile with nsys profile --cuda-graph-trace=node; {_SEE_OPS}"
        )
    return notes
