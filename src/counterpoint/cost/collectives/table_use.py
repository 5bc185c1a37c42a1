"""Notes on the use of a user's nccl-tests logs for a program: which are unused, and why.

A log silently ignored would look like one that was used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.cost.collectives.measured_table import is_alike, is_same
from counterpoint.cost.collectives.placement import Placement, place, placements
from counterpoint.cost.collectives.pricing import pairs_of, pattern
from counterpoint.cost.tables.nccl_tests import CollectiveTable
from counterpoint.hardware import Target
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.collectives import KINDS, collective
from counterpoint.hlo.schedule import is_done

_SHOWN: Final = 3  # maximum layouts of a program listed in a note


def table_notes(
    program: Program, target: Target, tables: Sequence[CollectiveTable]
) -> Iterator[str]:
    """Yield one sentence for each fact about a log that its user must know."""
    if not tables:
        return
    sizes_by_kind = _asked(program, target)
    for at, table in enumerate(tables):
        yield from _of_table(table, tables[:at], sizes_by_kind, target)


_Asked = dict[str, dict[Placement, int]]
"""The largest size, by kind and placement."""


def _asked(program: Program, target: Target) -> _Asked:
    found: _Asked = {}
    for instruction in program.instructions:
        communication = None if is_done(instruction) else collective(program, instruction)
        kind = instruction.opcode.removesuffix("-start").removeprefix("ragged-")
        if communication is None or kind not in KINDS:
            continue
        sizes = found.setdefault(kind, {})
        for where in _where(program, instruction, kind, target):
            sizes[where] = max(sizes.get(where, 0), communication.bytes or 0)
    return found


def _where(program: Program, it: Instruction, kind: str, target: Target) -> tuple[Placement, ...]:
    if kind != "collective-permute":
        return placements(program, it, target)
    pairs = pairs_of(program, it)
    ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
    return place((ranks,), target) if ranks and pattern(pairs) == "ring" else ()


def _of_table(
    table: CollectiveTable, earlier: Sequence[CollectiveTable], asked: _Asked, target: Target
) -> Iterator[str]:
    name = f"{table.origin} ({table.kind} of {_layout(table.ranks, table.nodes)})"
    sizes = asked.get(table.kind, {})
    if not sizes:
        yield f"{name} is not used: this program has no {table.kind}"
        return
    used = {where: size for where, size in sizes.items() if _uses(table, where, target)}
    if not used:
        layouts = ", ".join(
            _layout(placement.ranks, placement.hosts) for placement in [*sizes][:_SHOWN]
        )
        yield (
            f"{name} is not used: this program's run on {layouts}; a log is the price where ranks"
            " and hosts are the same, and a correction where each host has as many ranks"
        )
        return
    before = [log for log in earlier if log.kind == table.kind]
    if all(any(is_same(log, table.kind, where, target) for log in before) for where in used):
        yield f"{name} is not used: {before[0].origin}, given before it, prices the same"
        return
    yield from _limits(name, table, max(used.values()))


def _limits(name: str, table: CollectiveTable, size: int) -> Iterator[str]:
    largest = max(table.seconds)
    if size > largest:
        yield (
            f"{name} ends at {largest / 2**20:.3g} MiB, and this program's go up to"
            f" {size / 2**20:.3g} MiB: beyond its end its last rate stands in"
        )


def _uses(table: CollectiveTable, where: Placement, target: Target) -> bool:
    kind = table.kind
    return is_same(table, kind, where, target) or (where.crosses and is_alike(table, kind, where))


def _layout(ranks: int, hosts: int) -> str:
    if not hosts:
        return f"{ranks} ranks"
    return f"{ranks} ranks on {hosts} host{'s' if hosts > 1 else ''}"
