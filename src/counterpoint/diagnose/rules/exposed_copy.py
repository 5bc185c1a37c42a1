"""Copies delay the device, and nothing overlaps them.

## What it does

Measures the time in which a device only copies, to and from the host or between its own buffers,
and reports which copies, why they exist, and their rate.

## Why it costs time

The rate between host and device is 25 to 60 GB/s, 1/60 (A100, H100) to 1/150 of that of the
device's memory. Copies are
asynchronous, but something waits for their end: an offloaded activation that is fetched when it is
needed instead of earlier. A copy on the device moves its bytes twice; most exist because a buffer
must not be overwritten: a value that a loop carries and reads again after it was changed.

## How it is detected

The rule adds up the time of copies that no kernel and no collective overlaps. Host copies are
recognized by the profiler's names or by their memory space in the HLO. Layout changes are STEP504,
arguments that are not donated STEP509. If the profile holds the HLO, the simulator computes the
gain; otherwise it is at most the exposed time.

## Example

```python
def body(x, i):
    other = jnp.roll(x, 1, 0)           # reads x, and the next line writes it: x is copied
    return other.at[i].set(x[i]), None
```

## Fix

Loops: change what they carry in place, and read it before. Offloading: move
fewer bytes, or fetch them a layer ahead. Input: `jax.device_put` of the next batch while this step
runs. Calls into Python, which a TPU makes as a send and a recv: every few steps, or after the step.

## Fix safety

Results stay the same.

## False alarms

A profiler may add copies, and offloading may be needed for the step to fit into memory.

## References

- https://docs.jax.dev/en/latest/notebooks/host-offloading.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.core import Range
from counterpoint.core.columns import union
from counterpoint.diagnose.attribution import attribute
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import (
    ExecutedOp,
    executed_ops,
    gain_without,
    rows_as_evidence,
)
from counterpoint.diagnose.finding import Finding, Remedy, bytes_text, ms_text
from counterpoint.diagnose.other_frameworks import is_foreign
from counterpoint.diagnose.rules.layout_copies import relaid, relaid_by_name
from counterpoint.diagnose.rules.missing_donation import undonated
from counterpoint.diagnose.rules.slow_op import slow_ops
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.schedule import is_done, start_of
from counterpoint.timeline.model import Lane

CODE: Final = "STEP505"
NAME: Final = "exposed-copy"
SINCE: Final = "0.1"

_HOST_MEMORY: Final = 5  # XLA's number for host memory in a layout
_STEM: Final = re.compile(r"\.\d+$")
_LEAST_SHARE: Final = 0.001
"""Minimum share of the step worth explaining."""
_LEAST_SHOWN_MS: Final = 0.005  # less is printed as 0.00 ms
_WORTH_NAMING: Final = 0.01
_LEAST_WORTH: Final = 0.05


class _CopyKind(StrEnum):
    TO_DEVICE = "from the host to the device"
    TO_HOST = "from the device to the host"
    ON_DEVICE = "within the device"
    CALLBACK = "waiting for Python on the host"


@dataclass(frozen=True, slots=True)
class _CopyTotal:
    """Copies of one kind in a step; 0 bytes if not known."""

    way: _CopyKind
    ms: float
    bytes: float
    awaited_bytes: float  # bytes of copies that take this time; the others are done when needed
    direct: bool = False  # it consists of the copies themselves, not of waits for their ends

    def __str__(self) -> str:
        much = bytes_text(self.bytes)
        if self.direct and self.ms:
            much += f" at {self.bytes / self.ms / 1e6:,.1f} GB/s"
        elif self.awaited_bytes < self.bytes:
            much = f"for {bytes_text(self.awaited_bytes)} of {much}"
        return f"{ms_text(self.ms)}{f' ({much})' if self.bytes else ''} {self.way}"


_CALLS: Final = ("send", "recv")  # those between slices are collectives
_TITLES: Final = {_CopyKind.CALLBACK: "calls into Python on the host"}
_NAMES: Final = (
    (re.compile(r"H2D|HtoD|HostToDevice|(?<![a-z])h(2|to)d(?![a-z])"), _CopyKind.TO_DEVICE),
    (re.compile(r"D2H|DtoH|DeviceToHost|(?<![a-z])d(2|to)h(?![a-z])"), _CopyKind.TO_HOST),
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all copies."""
    exposed, rows = _exposed(data)
    if exposed <= max(_LEAST_SHARE * data.step_ms, _LEAST_SHOWN_MS) or not rows:
        return
    known = {
        (copy.row["program"], copy.row["op"]): copy
        for copy in executed_ops(data, pl.col("lane") == Lane.COPY)
    }
    ways = _ways(data, rows, known)
    copied = [copy for row in rows if (copy := known.get((row["program"], row["op"])))]
    saves, basis = (
        gain_without(data, copied, exposed)
        if len(copied) == len(rows)
        else (Range(0.0, exposed), data.basis)
    )
    yield Finding(
        code=CODE,
        title=f"{_TITLES.get(ways[0].way, 'exposed copies')} take {ms_text(exposed)} per step",
        detail=_detail(data, exposed, rows, ways),
        saves_ms=saves,
        takes_ms=exposed,
        basis=basis,
        evidence=rows_as_evidence(data, rows),
        remedy=_remedy(data, ways[0].way, exposed, pinned="pinned" in str(rows[0]["op"]).lower()),
    )


def _exposed(data: StepData) -> tuple[float, list[dict[str, Any]]]:
    """Return the exposed milliseconds of copies, and the copies, without those of other rules."""
    others = [copy.row for copy in relaid(data)]
    others += [copy.ran.row for copy in data.cached(undonated)]
    others += [op.row for ops in data.cached(slow_ops) for op in ops]
    others += data.cached(relaid_by_name)
    other = {(row["program"], row["op"]) for row in others}
    copies = data.ops.filter(pl.col("lane") == Lane.COPY).rows(named=True)
    rows = [row for row in copies if (row["program"], row["op"]) not in other]
    if len(rows) == len(copies):
        return data.breakdown.copy_exposed_ms, rows
    excluded = [
        code for row in copies if (row["program"], row["op"]) in other for code in data.rows_of(row)
    ]
    attributed = attribute(data.selection, data.spans.filter(~pl.col("op").is_in(excluded)))
    ps = attributed.filter(pl.col("state") == Lane.COPY)["ps"].sum()
    return float(ps) * data.selection.scale, rows


def _ways(
    data: StepData, rows: Sequence[dict[str, Any]], known: Mapping[tuple[int, str], ExecutedOp]
) -> list[_CopyTotal]:
    """Return time and bytes by kind, longest first."""
    by_way: dict[_CopyKind, list[tuple[float, float]]] = {}
    direct: dict[_CopyKind, list[dict[str, Any]]] = {}
    for row in rows:
        copy = known.get((row["program"], row["op"]))
        way = _way(data, row, copy)
        # How much a callback is given says nothing about what Python does with it.
        counted = None if way is _CopyKind.CALLBACK else copy
        opcode = _STEM.sub("", str(row["op"]))
        recorded = 0.0 if copy or opcode.endswith("-start") else float(row["bytes_accessed"] or 0.0)
        size = (_bytes(counted) if counted is not None else recorded) * float(row["count"])
        by_way.setdefault(way, []).append((float(row["self_ms"]), size))
        # How long one waits for the end of an asynchronous copy is not how long it takes.
        if size and copy is None and not opcode.endswith("-done"):
            direct.setdefault(way, []).append(row)
    totals = (
        _moved(way, copies, direct=len(direct.get(way, ())) == len(copies))
        for way, copies in by_way.items()
    )
    return sorted(totals, key=lambda moved: -moved.ms)


def _moved(way: _CopyKind, copies: Sequence[tuple[float, float]], *, direct: bool) -> _CopyTotal:
    ms = sum(own for own, _ in copies)
    awaited = sum(size for own, size in copies if own > _WORTH_NAMING * ms / len(copies))
    return _CopyTotal(way, ms, sum(size for _, size in copies), awaited, direct)


def _bytes(kernel: ExecutedOp) -> int:
    """Return the bytes of a copy; an asynchronous one counts with its end."""
    if kernel.instruction.opcode.endswith("-start"):
        return 0
    return next(kernel.instruction.shape.leaves, kernel.instruction.shape).bytes


def _way(data: StepData, row: dict[str, Any], known: ExecutedOp | None) -> _CopyKind:
    """Return the kind by the profiler's names, which give a copy's ends; else by the HLO."""
    names = data.timeline.ops["name"].gather(data.rows_of(row)).to_list()
    for name in (str(row["op"]), *names):
        if named := next((way for mark, way in _NAMES if mark.search(name)), None):
            return named
    start = None if known is None else _start(known)
    if known is None or start is None:
        return _CopyKind.ON_DEVICE
    program = known.program
    if start.opcode in _CALLS:
        return _CopyKind.CALLBACK
    result = next(start.shape.leaves, start.shape)
    source = next(iter(program.operands(start)), None)
    if result.memory_space == _HOST_MEMORY:
        return _CopyKind.TO_HOST
    if source is not None and source.shape.memory_space == _HOST_MEMORY:
        return _CopyKind.TO_DEVICE
    return _CopyKind.ON_DEVICE


def _start(known: ExecutedOp) -> Instruction | None:
    """Return the instruction that begins a copy."""
    if is_done(known.instruction):
        return start_of(known.program, known.instruction)
    return known.instruction


def _detail(
    data: StepData, exposed: float, rows: Sequence[dict[str, Any]], ways: Sequence[_CopyTotal]
) -> str:
    least = _WORTH_NAMING * exposed
    text = ", ".join(str(moved) for moved in ways if moved.ms > least) or str(ways[0])
    text += f"; {_longest(rows)}{_memory(rows[0])}"
    computing = data.breakdown.compute_ms
    if exposed > computing:
        text += f". Kernels run for {ms_text(computing)}, the most that could hide copies"
        beside = both_ways_ms(data)
        if beside > _LEAST_WORTH * exposed:
            text += (
                f"; for {ms_text(beside)} copies to the host and copies to the device could overlap"
                " each other, since the link carries both at once"
            )
        text += "; the rest has to be removed"
    return text


def both_ways_ms(data: StepData) -> float:
    """Return the time for which copies in the two directions could run at once and do not."""
    ops = data.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COPY)
    by_way: dict[_CopyKind, list[int]] = {_CopyKind.TO_DEVICE: [], _CopyKind.TO_HOST: []}
    known = {
        (copy.row["program"], copy.row["op"]): copy
        for copy in executed_ops(data, pl.col("lane") == Lane.COPY)
    }
    of_pair: dict[tuple[int | None, str | None], _CopyKind] = {}
    rows = data.ops.filter(pl.col("lane") == Lane.COPY).rows(named=True)
    for row in rows:
        copy = known.get((row["program"], row["op"]))
        way = _way(data, row, copy)
        if way in by_way:
            by_way[way] += data.rows_of(row)
            start = None if copy is None else _start(copy)
            of_pair[row["program"], start.name if start is not None else None] = way
    # An asynchronous copy lasts from its start to its end, also while nothing waits for it.
    for number, program, pair in ops.filter("async_window").select("row", "program", "pair").rows():
        if pair is not None and (way := of_pair.get((program, pair))):
            by_way[way].append(number)
    alone, looked = 0, 0
    spans = data.spans.filter(pl.col("step") >= 0)
    windows = ops.filter("async_window")["row"]
    recorded = spans.filter(pl.col("op").is_in(windows.implode()))["device"].unique()
    # Some profilers record these windows of one device alone; the others' waits show less.
    if len(recorded):
        spans = spans.filter(pl.col("device").is_in(recorded.implode()))
    for _, own in spans.group_by("device"):
        looked += 1
        op, start = own["op"].to_numpy(), own["start_ps"].to_numpy()
        end = start + own["dur_ps"].to_numpy()
        into, out = (
            union(start[chosen], end[chosen])
            for chosen in (np.isin(op, by_way[way]) for way in by_way)
        )
        alone += min((into - out).total, (out - into).total)
    return alone * data.selection.scale * len(data.selection.devices) / max(looked, 1)


def _memory(row: dict[str, Any]) -> str:
    """Say what limits a copy from or to the host's memory, by its name."""
    name = str(row["op"]).lower()
    if "pinned" in name:
        return ": the memory is pinned, so the link limits its rate"
    return ": pageable memory, which copies slower than pinned memory" if "pageable" in name else ""


def _longest(rows: Sequence[dict[str, Any]]) -> str:
    """Describe the longest copy, or the line that many small ones come from."""
    total = sum(float(row["self_ms"]) for row in rows)
    lines: dict[str, list[float]] = {}
    for row in rows:
        lines.setdefault(str(row["source"] or row["scope"] or row["op"]), []).append(row["self_ms"])
    line, times = max(lines.items(), key=lambda entry: sum(entry[1]))
    first = rows[0]
    if first["self_ms"] > _WORTH_NAMING * total * 10 or len(times) < 2:
        return f"the longest is {place_of(first)}, {ms_text(first['self_ms'])} per step"
    return f"{len(times)} of {len(rows)} are from {line}, {ms_text(sum(times))} per step"


def _remedy(data: StepData, way: _CopyKind, exposed: float, *, pinned: bool) -> Remedy:
    if way is _CopyKind.ON_DEVICE and is_foreign(data):
        text = "find out which calls copy: .contiguous(), torch.cat, clones, changes of layout"
    elif way is _CopyKind.ON_DEVICE:
        text = (
            "look at its source line: a sharding change between two uses, the state of a loop that"
            " is still read when it is written, a slice from a stack of layers"
        )
    elif way is _CopyKind.CALLBACK:
        text = (
            "call Python less often (jax.pure_callback, io_callback, jax.debug.print): every few"
            " steps, or return the values and handle them when the step has ended"
        )
    elif is_foreign(data):
        # What is pinned already, or has nothing to hide it, can only become less.
        less = "move less: narrower types, and nothing that could stay on the device"
        ahead = f"copy {'' if pinned else 'from pinned memory, '}without blocking, some steps ahead"
        text = f"{ahead}, and {less}"
        if exposed > data.breakdown.compute_ms:
            text = f"{less}; there is too little compute to hide the copies"
            text += "" if pinned else "; pinned memory is copied faster"
    elif exposed > data.breakdown.compute_ms:
        text = (
            "move less: keep what fits on the device, move it as bfloat16, offload only what is"
            " not needed soon; there is too little compute to hide the copies"
        )
    elif way is _CopyKind.TO_DEVICE:
        text = (
            "start earlier: fetch offloaded values a layer ahead, jax.device_put the next batch"
            " while this step runs"
        )
    else:
        text = "offload earlier and less, and read metrics from the device only every few steps"
    return advise(data, text)
