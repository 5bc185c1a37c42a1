"""Hosts that compiled one program to other fingerprints: which of their times may be pooled.

Ranks of one run differ in a fingerprint for as little as a constant. The same name may then stand
for another instruction, so times count together only where the instructions are alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from counterpoint.hlo import Program
from counterpoint.pgle.modules import Module
from counterpoint.timeline.model import Timeline


def one_per_module(modules: Sequence[Module], *, bare: bool) -> list[list[Module]]:
    """Modules under one key: those of one fingerprint, and with bare names those of one program."""
    groups: dict[object, list[Module]] = {}
    for module in modules:
        key = module.number if bare or module.fingerprint is None else module.fingerprint
        groups.setdefault(key, []).append(module)
    return list(groups.values())


def pooled(timeline: Timeline, group: Sequence[Module], frame: pl.DataFrame) -> pl.DataFrame:
    """Samples of a group's instructions: from its own hosts, and of the same ones on others."""
    parts: list[pl.DataFrame] = []
    for number in dict.fromkeys(module.number for module in group):
        own = next(module for module in group if module.number == number)
        program = frame.filter(pl.col("program") == number)
        parts.append(program.filter(pl.col("host").is_in(own.hosts)))
        others = program.filter(~pl.col("host").is_in(own.hosts))
        for (host,), rows in others.group_by("host"):
            theirs = timeline.programs[number].hlo(_index(host))
            names = _alike(own.program, theirs, rows["member"].unique().to_list())
            parts.append(rows.filter(pl.col("member").is_in(names)))
    return pl.concat(parts)


def _index(host: object) -> int:
    return host if isinstance(host, int) else -1


def _alike(own: Program | None, theirs: Program | None, names: Sequence[str]) -> list[str]:
    if own is None or theirs is None:
        return []
    return [name for name in names if _made_of(own, name) == _made_of(theirs, name) is not None]


def _made_of(program: Program, name: str) -> tuple[str, ...] | None:
    """What an instruction computes and where it comes from, as far as builds share it."""
    it = program.instruction(name)
    if it is None:
        return None
    reads = (str(operand.shape) for operand in program.operands(it))
    return (it.opcode, it.custom_call_target, it.op_name, str(it.shape), *reads)
