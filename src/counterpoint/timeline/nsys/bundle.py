"""Reads nsys-jax bundles (`.zip`) into Recordings, one for each rank.

A bundle holds NVTX ranges projected onto GPUs, not kernels: a span is one execution of one thunk,
from its first GPU operation to its last. So neither idle time within a thunk nor streams are
visible: a device has one line for collectives and one for the rest. The host's clock is that of the
profiling session, which starts at a different moment on each rank. Layout: NVIDIA/JAX-Toolbox,
.github/container/nsys_jax.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import InputError
from counterpoint.core.unpacking import open_archive
from counterpoint.timeline.nsys.annotations import MODULE, THUNK, parse_annotations
from counterpoint.timeline.nsys.archive import TRACE, Archive, is_nsys_jax
from counterpoint.timeline.nsys.bundle_host import read_bundle_host
from counterpoint.timeline.nsys.bundle_machine import BundleMachine, read_machine
from counterpoint.timeline.nsys.nesting import OUTSIDE, Longs, nearest
from counterpoint.timeline.nsys.projected_ranges import normalize_ranges, parents
from counterpoint.timeline.nsys.tables import (
    ReportClock,
    add_layers,
    build_executions,
    build_ops,
    build_spans,
    find_clock,
    number_lines,
    place_events,
)
from counterpoint.timeline.nsys.target import intern
from counterpoint.timeline.recording import Recording

__all__ = ["is_nsys_jax", "read_nsys_jax", "read_nsys_jax_ranks"]


_OP_KEYS: Final = ("text", "module", "program_key", "hint")
_LINE: Final = ("device", "collective", "layer")

_COLLECTIVE: Final = (
    r"^(?:ragged-)?(?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    r"|collective-broadcast|send|recv)(?:-start|-done)?(?:\.|$)"
)

_PROJECTED: Final = (
    "an nsys-jax bundle holds whole thunks, not kernels: streams are unknown, so each device has"
    " one line for collectives and one for the rest, and idle time inside a thunk is not seen"
)
"""Note on the data that every bundle lacks."""


def read_nsys_jax(source: str | Path | zipfile.ZipFile) -> Recording:
    """Read a bundle of one rank."""
    first, *others = read_nsys_jax_ranks(source)
    if others:
        raise InputError(
            f"{first.source}: the first of {1 + len(others)} ranks in one bundle",
            why="nsys-jax-combine merged several ranks",
            next="read all of them with read_nsys_jax_ranks",
        )
    return first


def read_nsys_jax_ranks(source: str | Path | zipfile.ZipFile) -> tuple[Recording, ...]:
    """Read a bundle of `nsys-jax` or `nsys-jax-combine`: a Recording for each rank."""
    if isinstance(source, zipfile.ZipFile):
        return _read_all(source, source.filename or "nsys-jax bundle")
    with open_archive(source, str(source)) as archive:
        return _read_all(archive, str(source))


def _read_all(archive: zipfile.ZipFile, source: str) -> tuple[Recording, ...]:
    if not is_nsys_jax(archive):
        names = archive.namelist()
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise InputError(
            f"{source}: not an nsys-jax bundle: it has no {TRACE}",
            why=f"files found: {shown or 'none'}",
            next="nsys-jax writes that file when its nsys recipe succeeds: look at its output",
        )
    members = Archive(archive, source)
    ranks = members.ranks()
    return tuple(
        _read(members, rank, source if rank is None else f"{source}/{rank}") for rank in ranks
    )


def _read(archive: Archive, rank: str | None, source: str) -> Recording:
    trace = archive.table(TRACE, rank)
    ranges = normalize_ranges(trace if trace is not None else pl.DataFrame(), source)
    machine = read_machine(archive, rank, ranges)
    thunks, modules, notes = _work(ranges, machine)
    host = read_bundle_host(archive, rank)
    clock = find_clock(thunks, modules, host.events)
    thunks, lines, lost = _on_lines(thunks, machine, clock)
    names = thunks.select(*_OP_KEYS, "op", "scope").unique(maintain_order=True)
    threads, events = place_events(host.events, clock, len(lines))
    programs = archive.programs(rank)
    ran = set(modules["program_key"].drop_nulls().to_list())
    return Recording(
        source=source,
        host=machine.host or source,
        devices=machine.devices,
        lines=(*lines, *machine.thread_names(threads)),
        ops=build_ops(names.with_columns(name=pl.coalesce("op", "text")).drop("text")),
        spans=build_spans(clock.picoseconds(thunks), _OP_KEYS, names),
        executions=build_executions(clock.sane(modules), clock),
        host_events=events,
        host_names=host.names,
        programs={key: program for key, program in programs.items() if key in ran},
        environment=machine.facts,
        notes=(_PROJECTED, *notes, *lost, *machine.notes, *host.notes),
    )


def _work(
    ranges: pl.DataFrame, machine: BundleMachine
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Return thunks and module executions, each with its device, module and run_key."""
    texts, codes = intern(ranges["text"])
    annotated = pl.concat(
        [ranges.drop("text"), parse_annotations(texts)[codes], machine.device_of(ranges)],
        how="horizontal",
    )
    parent, shared = parents(ranges)
    is_thunk = _rows(annotated, pl.col("kind") == THUNK)
    is_nccl = _rows(annotated, pl.col("text").str.contains(r"^(?i:nccl)"))
    thunk = nearest(parent, is_thunk)
    module = nearest(parent, _rows(annotated, pl.col("kind") == MODULE))
    outer = thunk[parent[is_thunk & (parent != OUTSIDE)]]
    collective = pl.Series(_marked(thunk[is_nccl], len(annotated))) | annotated["op"].str.contains(
        _COLLECTIVE
    )
    annotated = annotated.with_columns(
        run_key=pl.Series(module),
        collective=collective.fill_null(value=False),
        holds_thunks=pl.Series(_marked(outer, len(annotated))),
    ).with_columns(_of_module(annotated, module))
    thunks = annotated.filter((pl.col("kind") == THUNK) & ~pl.col("holds_thunks"))
    thunks = thunks.with_columns(hint=pl.when("collective").then(pl.lit("nccl")))
    modules = annotated.filter(
        (pl.col("kind") == MODULE) & pl.col("run_key").is_in(thunks["run_key"].implode())
    )
    on_device = pl.col("device").is_not_null()
    notes = _doubts(shared, thunks)
    return thunks.filter(on_device), modules.filter(on_device), notes


def _rows(frame: pl.DataFrame, condition: pl.Expr) -> NDArray[np.bool_]:
    return frame.select(condition.fill_null(value=False)).to_series().to_numpy()


def _marked(rows: Longs, count: int) -> NDArray[np.bool_]:
    marks = np.zeros(count, bool)
    marks[rows[rows != OUTSIDE]] = True
    return marks


def _of_module(modules: pl.DataFrame, module: Longs) -> list[pl.Series]:
    """Return run_key, module and program of the module range around each range, or null."""
    rows = pl.Series("run_key", module).replace(OUTSIDE, None)
    return [rows, modules["module"].gather(rows), modules["program_key"].gather(rows)]


def _doubts(shared: int, thunks: pl.DataFrame) -> list[str]:
    notes: list[str] = []
    if shared:
        notes.append(
            f"{shared:,} range ids are not unique (Nsight Systems 2024.5 and 2024.6 repeat them for"
            " CUDA graphs): the module of ops inside such ranges is unknown; profile with"
            " XLA_FLAGS=--xla_gpu_enable_command_buffer="
        )
    if not len(thunks):
        notes.append("no XLA thunk was projected onto a GPU: nothing ran during the profile")
    homeless = thunks["device"].null_count()
    if homeless:
        notes.append(
            f"{homeless:,} of {len(thunks):,} thunks were launched by threads whose names contain"
            " no device; they are left out"
        )
    return notes


def _on_lines(
    thunks: pl.DataFrame, machine: BundleMachine, clock: ReportClock
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Return the thunks with their line, the lines' names, and a note on impossible times."""
    sane = clock.sane(thunks)
    lost = len(thunks) - len(sane)
    keys, thunks_on_lines = number_lines(add_layers(sane, _LINE[:2]), _LINE)
    names = [
        f"GPU {machine.devices[int(device)].ordinal}/{'collectives' if collective else 'compute'}"
        + (f" ({layer + 1})" if layer else "")
        for device, collective, layer in keys.select(_LINE).rows()
    ]
    notes = [f"{lost:,} thunks have impossible times; they are left out"] if lost else []
    return thunks_on_lines, names, notes
