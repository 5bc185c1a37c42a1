"""Chains: kernels that hand large buffers to each other through memory, where memory decides.

A kernel is bound by memory if its bytes take longer than its operations at the chip's rates. Two of
them belong together if one reads what the other wrote, in the same part of the step, and the buffer
is larger than the chip's cache: written and read again only because nothing joins the two. What
crosses from forward to backward is kept for it, and no fusion would save that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.instructions import Ran, ran, readers
from counterpoint.diagnose.layouts import moves_only
from counterpoint.hardware import Chip
from counterpoint.hlo import Instruction

_OTHER_WORK: Final = ("collective", "host", "control")
_CACHE_BYTES: Final = 64 << 20
"""Above the caches of most chips (A100 40 MB, H100 50 MB); less may never leave them."""
_SAME_PART: Final = {"remat": "backward"}


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """A buffer that one kernel writes and another reads."""

    writer: Ran
    reader: Ran
    bytes: int  # of one execution
    kept: bool  # others need it, too: it has to be written in any case

    @property
    def ms(self) -> float:
        """What the kernels spend on it, of their own time by its share of their bytes."""
        written = 0.0 if self.kept else _share(self.writer, self.bytes)
        return written + _share(self.reader, self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Kernels, the longest first, and what they hand over."""

    members: tuple[Ran, ...]
    handovers: tuple[Handover, ...]

    @property
    def handed_ms(self) -> float:
        return sum(it.ms for it in self.handovers)


def chains(case: Case, chip: Chip) -> list[Chain]:
    """The dearest first."""
    bound = {
        (it.row["program"], it.instruction.computation, it.instruction.name): it
        for it in ran(case, ~pl.col("category").is_in(_OTHER_WORK))
        if is_memory_bound(it.row, chip) and not moves_only(it.program, it.instruction)
    }
    found = [it for one in bound.values() for it in _handovers(one, bound)]
    return sorted(_joined(found), key=lambda it: -it.handed_ms)


def is_memory_bound(row: dict[str, Any], chip: Chip) -> bool:
    """Whether its bytes take longer than its operations; False where either is not known."""
    moved, flops = row["bytes_accessed"], row["flops"]
    if not moved or flops is None:
        return False
    return moved / chip.hbm_bytes > flops / chip.bf16_flops


_Key = tuple[int, str, str]


def _handovers(writer: Ran, bound: dict[_Key, Ran]) -> Iterator[Handover]:
    program, own = writer.row["program"], writer.instruction
    found = list(readers(writer.program, own))
    for reader, moved in found:
        known = bound.get((program, reader.computation, reader.name))
        if known is None or moved < _CACHE_BYTES or _part(known) != _part(writer):
            continue
        yield Handover(writer, known, moved, kept=_is_kept(writer, found, bound))


def _is_kept(
    writer: Ran, readers: Sequence[tuple[Instruction, int]], bound: dict[_Key, Ran]
) -> bool:
    """Whether somebody outside of the chain reads it; the first of several readers pays for it."""
    program = writer.row["program"]
    inside = [bound.get((program, it.computation, it.name)) for it, _ in readers]
    return len(readers) > 1 or any(it is None or _part(it) != _part(writer) for it in inside)


def _part(one: Ran) -> str | None:
    phase = one.row["phase"]
    return _SAME_PART.get(phase, phase)


def _share(one: Ran, moved: int) -> float:
    return one.ms * min(1.0, moved / one.row["bytes_accessed"])


def _joined(found: Sequence[Handover]) -> Iterator[Chain]:
    """Handovers that share kernels, together."""
    leader: dict[int, int] = {}

    def lead(of: int) -> int:
        while leader.setdefault(of, of) != of:
            leader[of] = leader[leader[of]]
            of = leader[of]
        return of

    for it in found:
        leader[lead(id(it.writer))] = lead(id(it.reader))
    groups: dict[int, list[Handover]] = {}
    for it in found:
        groups.setdefault(lead(id(it.writer)), []).append(it)
    for group in groups.values():
        members = {id(one): one for it in group for one in (it.writer, it.reader)}
        longest = sorted(members.values(), key=lambda one: -one.ms)
        yield Chain(tuple(longest), tuple(group))
