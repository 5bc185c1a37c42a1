"""Chains: kernels that hand large buffers to each other through memory, where memory decides.

A kernel is bound by memory if its bytes take longer than its operations at the chip's rates. Two of
them belong together if one reads what the other wrote, in the same part of the step, and the buffer
is larger than the chip's cache: written and read again only because nothing joins the two. What
crosses from forward to backward is kept for it, and no fusion would save that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.recomputed import Ran, moves_only, ran, readers
from counterpoint.diagnose.selection import PS_PER_MS
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


_NAME: Final = re.compile(r"^Transpose(Plan)?::Execute|^(Parallel|DelinearizeUsing)Transpose")


@dataclass(frozen=True, slots=True)
class HostTransposes:
    """Milliseconds; `busy_ms` sums threads up, the others don't."""

    name: str
    events: int
    busy_ms: float
    before_ms: float  # before the first step
    in_steps_ms: float  # in a median step, mean over hosts


def host_transposes(case: Case) -> HostTransposes:
    """Of all hosts; nothing where no step was found."""
    timeline = case.timeline
    codes = [code for code, name in enumerate(timeline.host_names) if _NAME.match(name)]
    events = timeline.host_events.filter(pl.col("name").is_in(codes) & (pl.col("dur_ps") > 0))
    windows = case.selection.windows
    if not len(events) or not len(windows):
        return HostTransposes("", 0, 0.0, 0.0, 0.0)
    first = int(timeline.steps["start_ps"].to_numpy().min())
    hosts = [union_of(of) for _, of in events.group_by("host", maintain_order=True)]
    steps = union(windows["start_ps"].to_numpy(), windows["end_ps"].to_numpy())
    share = case.step_ms * PS_PER_MS / max(_mean_length(windows), 1.0) / _per_device(windows)
    busiest = events.group_by("name").agg(pl.col("dur_ps").sum()).sort("dur_ps", "name")
    last: int = busiest["name"].to_list()[-1]
    return HostTransposes(
        name=timeline.host_names[last],
        events=len(events),
        busy_ms=float(events["dur_ps"].sum()) / PS_PER_MS,
        before_ms=max(_before(it, first) for it in hosts) / PS_PER_MS,
        in_steps_ms=sum((it & steps).total for it in hosts) / len(hosts) / PS_PER_MS * share,
    )


def union_of(events: pl.DataFrame) -> Intervals:
    """The time in which at least one of them goes on."""
    start = events["start_ps"].to_numpy()
    return union(start, start + events["dur_ps"].to_numpy())


def _before(of: Intervals, moment: int) -> int:
    return of.clip(int(np.iinfo(np.int64).min), moment).total


def _mean_length(windows: pl.DataFrame) -> float:
    return float((windows["end_ps"] - windows["start_ps"]).to_numpy().mean())


def _per_device(windows: pl.DataFrame) -> float:
    return len(windows) / windows["device"].n_unique()
