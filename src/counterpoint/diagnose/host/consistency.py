"""Hosts that run different builds of a program, or whose clocks disagree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.core import parse_json
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.hlo import Instruction, Program
from counterpoint.timeline import Timeline
from counterpoint.timeline.hosts import shared_ends

_IDS: Final = ("operation_queue_id", "wait_on_operation_queues", "reification_cost", "stats")
"""Fields of backend configurations that do not change how an instruction runs."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Builds of one program that differ; the hosts of each, most common build first.

    `opcodes`: how many more of each the second build has (fewer: negative). `order`: both have the
    same instructions in a different order. `tuned`: instructions whose configuration differs.
    """

    program: int
    name: str
    hosts: tuple[tuple[int, ...], ...]
    instructions: tuple[int, ...]
    opcodes: tuple[tuple[str, int], ...]
    order: bool
    tuned: tuple[str, ...]

    @property
    def structural(self) -> bool:
        """True if more than tuning differs."""
        return self.order or bool(self.opcodes)


def divergences(timeline: Timeline) -> tuple[Divergence, ...]:
    """Compare all programs that ran on several hosts and whose HLO the profile contains.

    Names, ids, fingerprints and metadata are not compared: two compiles of one program number their
    instructions differently, and a line of Python that moved changes a fingerprint. Builds are the
    same if every computation has the same instructions in the same order with the same operands.
    They are only tuned differently if nothing but backend configurations differ (the algorithm of a
    GEMM, the tiles of a fusion), which happens when each rank autotunes by itself.
    """
    found = (_compare(timeline, index) for index in range(len(timeline.programs)))
    return tuple(divergence for divergence in found if divergence is not None)


def _compare(timeline: Timeline, index: int) -> Divergence | None:
    entry = timeline.programs[index]
    builds = {id(variant): variant for variant in entry.variants.values()}
    if len(builds) < 2:
        return None
    read = {host: entry.hlo(host) for host in entry.variants}
    programs = {host: program for host, program in read.items() if program is not None}
    groups: dict[tuple[int, int], list[int]] = {}
    for host, program in programs.items():
        key = (_structure(program, program.entry, {}), _tuning(program))
        groups.setdefault(key, []).append(host)
    if len(groups) < 2:
        return None
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    (first, _), (other, _) = ordered[0], ordered[1]
    one, two = (programs[hosts[0]] for _, hosts in ordered[:2])
    tuned = tuple(_tuned(one, two)) if first[0] == other[0] else ()
    opcodes = _opcodes(one, two)
    return Divergence(
        program=index,
        name=entry.name,
        hosts=tuple(tuple(hosts) for _, hosts in ordered),
        instructions=tuple(len(list(programs[hosts[0]].instructions)) for _, hosts in ordered),
        opcodes=opcodes,
        order=first[0] != other[0] and not opcodes,
        tuned=tuned,
    )


def _structure(program: Program, computation: str, known: dict[str, int]) -> int:
    """Return a hash that is equal for computations that do the same in the same order."""
    if computation not in known:
        body = program.computations[computation]
        place = {instruction.name: index for index, instruction in enumerate(body.instructions)}
        known[computation] = hash(
            (
                place.get(body.root),
                *(_does(program, instruction, place, known) for instruction in body.instructions),
            )
        )
    return known[computation]


def _does(program: Program, it: Instruction, place: dict[str, int], known: dict[str, int]) -> int:
    return hash(
        (
            it.opcode,
            str(it.shape),
            tuple(place.get(name) for name in it.operands),
            tuple(_structure(program, called, known) for called in it.calls),
            str(it.groups),
            it.source_target_pairs,
            it.custom_call_target,
            it.fusion_kind,
            it.parameter_number,
            it.tuple_index,
            it.literal,
            it.comparison,
            it.dimensions,
            it.dot,
            it.convolution,
        )
    )


def _tuning(program: Program) -> int:
    return hash(tuple(_configuration(instruction) for instruction in _configured(program)))


def _configured(program: Program) -> Iterator[Instruction]:
    return (instruction for instruction in program.instructions if instruction.backend_config)


def _tuned(one: Program, two: Program) -> Iterator[str]:
    """Yield instructions of the first that are configured differently in the second."""
    pairs = zip(_configured(one), _configured(two), strict=False)
    return (a.name for a, b in pairs if _configuration(a) != _configuration(b))


def _configuration(it: Instruction) -> str:
    """Return the configuration as text, independent of the order of its keys."""
    try:
        read: Any = parse_json(it.backend_config)
    except ValueError:
        return it.backend_config
    if isinstance(read, dict):
        read = {name: value for name, value in read.items() if name not in _IDS}  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(read, sort_keys=True)


def _opcodes(one: Program, two: Program) -> tuple[tuple[str, int], ...]:
    """Return the changes in opcode counts from first to second, largest first."""
    difference = Counter(instruction.opcode for instruction in two.instructions)
    difference.subtract(Counter(instruction.opcode for instruction in one.instructions))
    changed = [(opcode, count) for opcode, count in difference.items() if count]
    return tuple(sorted(changed, key=lambda change: (-abs(change[1]), change[0])))


SCHEMA: Final = {
    "host": pl.UInt16,
    "aligned": pl.Boolean,
    "offset_ms": pl.Float64,  # the value subtracted; null: not known
    "spread_ms": pl.Float64,  # median deviation of single collectives
    "collectives": pl.UInt32,  # shared with the first host
    "drift_ppm": pl.Float64,  # against the first host's clock; null: too few to estimate
    "drift_ms": pl.Float64,  # from the first shared collective to the last
    "apart_ms": pl.Float64,  # of an unaligned host: from its time on devices to the first host's
}

_ENOUGH: Final = 16
"""Minimum number of collectives for a slope."""


def clocks(timeline: Timeline) -> pl.DataFrame:
    """Return the clock offset, spread and drift, one row per host.

    `timeline.hosts.alignment` subtracted one offset per host. The differences that remain between
    the ends of shared collectives show how finely times of two hosts can be compared; their slope
    over the profile shows whether a clock runs faster than the first host's.
    """
    if not timeline.hosts or not timeline.devices:
        return pl.DataFrame(schema=SCHEMA)
    given = pl.DataFrame(
        [
            (index, host.clock_offset_ps is not None, host.clock_offset_ps, host.clock_spread_ps)
            for index, host in enumerate(timeline.hosts)
        ],
        schema={"host": pl.UInt16, "aligned": pl.Boolean, "offset": pl.Int64, "spread": pl.Int64},
        orient="row",
    )
    return (
        given.join(_drift(timeline), on="host", how="left")
        .join(_apart(timeline), on="host", how="left")
        .with_columns(
            offset_ms=pl.col("offset") / PS_PER_MS,
            spread_ms=pl.col("spread") / PS_PER_MS,
            apart_ms=pl.when(~pl.col("aligned")).then("apart_ms"),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("host")
    )


def _drift(timeline: Timeline) -> pl.DataFrame:
    """Return the slope of the remaining differences, by least squares on those near the median."""
    hosts = [device.host for device in timeline.devices]
    left = shared_ends(timeline.spans, timeline.ops, timeline.runs, hosts)
    rest = pl.col("difference") - pl.col("difference").median().over("host")
    near = rest.abs() <= 5 * rest.abs().median().over("host")
    x, y = pl.col("end_ps_first").cast(pl.Float64), pl.col("difference").cast(pl.Float64)
    slope = pl.cov(x, y) / x.var()
    enough = (pl.len() >= _ENOUGH) & (pl.col("host").first() != hosts[0])
    return (
        left.filter(near)
        .group_by("host")
        .agg(
            pl.len().alias("collectives"),
            pl.when(enough).then(slope * 1e6).alias("drift_ppm"),
            pl.when(enough).then(slope * (x.max() - x.min()) / PS_PER_MS).alias("drift_ms"),
        )
        .with_columns(pl.col("host").cast(pl.UInt16))
    )


def _apart(timeline: Timeline) -> pl.DataFrame:
    """Return the time between a host's device work and the first host's; 0 if they overlap."""
    host_of = {index: device.host for index, device in enumerate(timeline.devices)}
    end = (pl.col("start_ps") + pl.col("dur_ps")).max()
    extent = timeline.spans.group_by("device").agg(pl.col("start_ps").min(), end.alias("end_ps"))
    by_host = (
        extent.with_columns(
            host=pl.col("device").replace_strict(host_of, return_dtype=pl.UInt16),
        )
        .group_by("host")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
        .sort("host")
    )
    if not len(by_host):
        return pl.DataFrame(schema={"host": pl.UInt16, "apart_ms": pl.Float64})
    _, start, last = by_host.row(0)
    gap = pl.max_horizontal(pl.col("start_ps") - last, start - pl.col("end_ps"), 0)
    return by_host.select("host", apart_ms=gap / PS_PER_MS)
