"""Tells the events of a batch apart: work of devices, markers of steps, and what the host did.

The compiled decoder does this while it decodes. Batches that it leaves to Python (with texts that
events spell out, bytes in another order, or what allocators of memory did) are arranged by numpy,
with the same result, as are steps that are cut out.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.columns import distinct
from counterpoint.timeline.late_ends import over_at, paired_at_once
from counterpoint.timeline.xplane import native
from counterpoint.timeline.xplane.events import Events, EventSelection, Stat
from counterpoint.timeline.xplane.lines import Compiled
from counterpoint.timeline.xplane.planes import (
    CONSUMER,
    LATEST_PS,
    MEMORY_STATS,
    PRODUCER,
    ROOT_STAT,
    STEP_STAT,
    USED_STAT,
    PlaneLine,
    base_ps,
    starts,
)
from counterpoint.timeline.xplane.transfers import GRAPH_STAT

Longs = NDArray[np.int64]
Codes = NDArray[np.int64] | NDArray[np.uint32]

_NONE: Final = -1
_OF_KEYS: Final = ("hlo_op", "hlo_module", "program_id")
_NO_ROWS: Final = np.empty(0, np.int64)
_NO_EVENTS: Final = Events(_NO_ROWS, _NO_ROWS, _NO_ROWS, {})


@dataclass(frozen=True, slots=True, eq=False)
class ArrangedSpans:
    """Work of a batch. Its ops are of few kinds, each with a key, in order of appearance.

    `stats` are those of the first event of each kind, and `in_graph` says which kinds ran in a
    CUDA graph. `kind` is the kind of each span; `run` is 0 where it is not known.
    """

    start_ps: Longs
    duration_ps: Longs
    run: Longs
    has_run: NDArray[np.bool_]
    kind: Codes
    keys: Sequence[tuple[int, ...]]
    stats: Mapping[str, Stat]
    in_graph: NDArray[np.bool_]
    summaries: int

    def __len__(self) -> int:
        return len(self.start_ps)


@dataclass(frozen=True, slots=True, eq=False)
class StepMarkers:
    """Markers of steps on a host thread."""

    metadata: Longs
    start_ps: Longs
    duration_ps: Longs
    step: Longs
    numbered: bool = True  # else `step` says nothing


@dataclass(frozen=True, slots=True, eq=False)
class LateEnds:
    """Ends of ops that were marked later than their events tell, or by another thread.

    `row` are rows of ops that go on after their events, with the `producer` that also the mark of
    its end has, as `consumer`, wherever that is.
    """

    row: Longs
    producer: Longs
    end_ps: Longs
    consumer: Longs


@dataclass(frozen=True, slots=True, eq=False)
class ArrangedHost:
    """Events of a host thread: ops with their devices, as rows of `ordinals`, and the others.

    `names` are the metadata ids of the others, and `name` is the name of each as a row of those.
    """

    ops: ArrangedSpans
    ordinals: Sequence[int]
    device: Codes
    ends: LateEnds
    markers: StepMarkers
    memory: Events
    memory_start_ps: Longs
    others_start_ps: Longs
    others_duration_ps: Longs
    names: Sequence[int]
    name: Codes


def arrange_spans(events: Events, line: PlaneLine, zero_ns: int) -> ArrangedSpans:
    """Number the kinds of ops in a batch by all that the events say of theirs."""
    in_graph = events.known(GRAPH_STAT)
    columns = [events.metadata]
    for name in _OF_KEYS:
        stat = events.stats.get(name)
        if stat is not None:
            known = stat.known.all()
            columns.append(stat.value if known else np.where(stat.known, stat.value, _NONE))
    columns.append(in_graph.astype(np.int64))
    first, kind = distinct(columns)
    order = np.argsort(first)
    first, place = first[order], np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    run = events.stats.get("run_id")
    count = len(events)
    return ArrangedSpans(
        start_ps=starts(line, events, zero_ns),
        duration_ps=events.duration_ps,
        run=np.zeros(count, np.int64) if run is None else run.value,
        has_run=np.zeros(count, bool) if run is None else run.known,
        kind=place[kind],
        keys=[*zip(*(column[first].tolist() for column in columns), strict=True)],
        stats={name: stat.only(first) for name, stat in events.stats.items()},
        in_graph=in_graph[first],
        summaries=events.summaries,
    )


def arrange_host(
    events: Events, line: PlaneLine, zero_ns: int, ends: Mapping[int, int]
) -> ArrangedHost:
    """Separate the events of a host thread; `ends` has the op of each mark of an end."""
    ended = _ended(events, ends)
    on_device = events.known("hlo_op") & events.known("device_ordinal") & (ended == _NONE)
    ops = events.select(on_device, events.stats)
    ordinals = ops.stats["device_ordinal"].value if len(ops) else _NO_ROWS
    first, device = distinct([ordinals])
    others = events.select((events.duration_ps > 0) & ~on_device & (ended == _NONE))
    named, name = distinct([others.metadata])
    memory = events.select(events.known(USED_STAT), MEMORY_STATS & events.stats.keys())
    return ArrangedHost(
        ops=arrange_spans(ops, line, zero_ns),
        ordinals=ordinals[first].tolist(),
        device=device,
        ends=_late_ends(events, ended, on_device, starts(line, events, zero_ns)),
        markers=_markers(events, on_device | (ended != _NONE), line, zero_ns),
        memory=memory,
        memory_start_ps=starts(line, memory, zero_ns),
        others_start_ps=starts(line, others, zero_ns),
        others_duration_ps=others.duration_ps,
        names=others.metadata[named].tolist(),
        name=name,
    )


def _ended(events: Events, ends: Mapping[int, int]) -> Longs:
    """Return the op of which each event marks the end; -1: it does not."""
    ids, kind = np.unique(events.metadata, return_inverse=True)
    return np.array([ends.get(key, _NONE) for key in ids.tolist()], np.int64)[kind]


def _late_ends(
    events: Events, ended: Longs, on_device: NDArray[np.bool_], start: Longs
) -> LateEnds:
    """Pair ops with the marks that follow at once, and return the others."""
    producer, consumer = events.stats.get(PRODUCER), events.stats.get(CONSUMER)
    if producer is None or consumer is None:
        return LateEnds(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS)
    work, marks = np.flatnonzero(on_device), np.flatnonzero(ended != _NONE)
    at_once, before = paired_at_once(start, events.duration_ps, events.metadata, ended, work, marks)
    if len(work):
        at_once &= producer.known[work[np.maximum(before, 0)]]
    of_mark = np.flatnonzero(at_once)
    _, first = np.unique(before[of_mark], return_index=True)
    paired = of_mark[first]
    row = np.setdiff1d(np.arange(len(work)), before[paired])
    row = row[producer.known[work[row]]]
    late = np.delete(marks, paired)
    late = late[consumer.known[late]]
    over_ps = over_at(start, events.duration_ps, ended, late)
    return LateEnds(row, producer.value[work[row]], over_ps, consumer.value[late])


def _markers(
    events: Events, others: NDArray[np.bool_], line: PlaneLine, zero_ns: int
) -> StepMarkers:
    stat = _marker_stat(events.stats)
    marked = events.known(stat) & ~others
    if not marked.any():
        return StepMarkers(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS)
    selected = events.select(marked, (stat,))
    start, step = starts(line, selected, zero_ns), selected.stats[stat].value
    return StepMarkers(selected.metadata, start, selected.duration_ps, step, stat == STEP_STAT)


def _marker_stat(names: Container[str]) -> str:
    """Return which of the stats that were read tells markers."""
    return STEP_STAT if STEP_STAT in names else ROOT_STAT


def compiled_spans(
    wanted: EventSelection, line: PlaneLine, zero_ns: int
) -> Compiled[ArrangedSpans]:
    """Return what arranges work of a device while it decodes."""
    roles, names = _roles(wanted, all_work=True), wanted.columns

    def arranged(batch: native.EventBatch) -> tuple[ArrangedSpans, int] | None:
        columns = native.arrange(batch, roles, base_ps(line, zero_ns), LATEST_PS)
        return None if columns is None else (_spans(columns, names), columns.left_out)

    return arranged


def compiled_host(wanted: EventSelection, line: PlaneLine, zero_ns: int) -> Compiled[ArrangedHost]:
    """Return what separates events of a host thread while it decodes."""
    roles, names = _roles(wanted, all_work=False), wanted.columns

    def arranged(batch: native.EventBatch) -> tuple[ArrangedHost, int] | None:
        columns = native.arrange(batch, roles, base_ps(line, zero_ns), LATEST_PS)
        return None if columns is None else (_host(columns, names), columns.left_out)

    return arranged


def _roles(wanted: EventSelection, *, all_work: bool) -> native.Roles:
    names = [*wanted.columns]

    def column(name: str) -> int:
        return names.index(name) if name in names else -1

    return native.Roles(
        all_work=all_work,
        op=column("hlo_op"),
        module=column("hlo_module"),
        program=column("program_id"),
        run=column("run_id"),
        graph=column(GRAPH_STAT),
        device=column("device_ordinal"),
        step=column(_marker_stat(names)),
        producer=column(PRODUCER),
        consumer=column(CONSUMER),
        memory=column(USED_STAT),
    )


def _spans(columns: native.ArrangedColumns, names: Sequence[str]) -> ArrangedSpans:
    stats = {
        name: Stat(
            columns.kind_value[:, slot], columns.kind_known[:, slot], columns.kind_is_text[:, slot]
        )
        for slot, name in enumerate(names)
    }
    of_keys = [
        np.where(stats[name].known, stats[name].value, _NONE) for name in _OF_KEYS if name in stats
    ]
    metadata, graph = columns.longs["kind_metadata"], stats.get(GRAPH_STAT)
    in_graph = np.zeros(len(metadata), bool) if graph is None else graph.known
    parts = (metadata, *of_keys, in_graph.astype(np.int64))
    return ArrangedSpans(
        start_ps=columns.longs["work_start"],
        duration_ps=columns.longs["work_duration"],
        run=columns.longs["work_run"],
        has_run=columns.has_run,
        kind=columns.codes["work_kind"],
        keys=[*zip(*(part.tolist() for part in parts), strict=True)],
        stats=stats,
        in_graph=in_graph,
        summaries=columns.summaries,
    )


def _host(columns: native.ArrangedColumns, names: Sequence[str]) -> ArrangedHost:
    longs, ops = columns.longs, _spans(columns, names)
    return ArrangedHost(
        ops=ops,
        ordinals=longs["device"].tolist(),
        device=columns.codes["work_device"],
        ends=LateEnds(longs["open_row"], longs["open_id"], longs["end_time"], longs["end_id"]),
        markers=StepMarkers(
            longs["marker_metadata"],
            longs["marker_start"],
            longs["marker_duration"],
            longs["marker_step"],
            _marker_stat(names) == STEP_STAT,
        ),
        memory=_NO_EVENTS,
        memory_start_ps=_NO_ROWS,
        others_start_ps=longs["other_start"],
        others_duration_ps=longs["other_duration"],
        names=longs["name_metadata"].tolist(),
        name=columns.codes["other_name"],
    )
