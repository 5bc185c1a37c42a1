"""Steps of a program that is written by hand, on two H100s, as a Case that rules can be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from counterpoint.diagnose.collectives.requirement import SCHEMA, classify
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram
from recordings import Span, recording

MS = 1_000_000  # nanoseconds
MODULE = "jit_step"
H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-80GB"

Work = tuple[str, float, float]
"""An instruction, and from when on it runs how long: milliseconds from the step's start."""

_HEAD = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

"""
GROUPS = "replica_groups={{0,1}}, use_global_device_ids=true"


def hlo(*lines: str, root: str, size: int = 1024, before: str = "") -> str:
    """A module whose entry has these lines; every value is f32[size], and `p` the parameter."""
    body = "\n".join(f"  {line}" for line in lines)
    value = f"f32[{size}]"
    return (
        f"{_HEAD}{before}ENTRY %main (p: {value}) -> {value} {{\n  %p = {value}{{0}} parameter(0)\n"
        f"{body}\n  ROOT {root}\n}}\n"
    )


def negate(name: str, of: str, size: int = 1024) -> str:
    """Work."""
    return f"%{name} = f32[{size}]{{0}} negate(%{of})"


def reduce(name: str, of: str, size: int = 1024, channel: int = 1) -> str:
    """A synchronous all-reduce."""
    return (
        f"%{name} = f32[{size}]{{0}} all-reduce(%{of}), channel_id={channel}, {GROUPS},"
        " to_apply=%add"
    )


def reduce_start(name: str, of: str, size: int = 1024, channel: int = 1) -> str:
    """The start of an asynchronous one."""
    return (
        f"%{name} = f32[{size}]{{0}} all-reduce-start(%{of}), channel_id={channel}, {GROUPS},"
        " to_apply=%add"
    )


def reduce_done(name: str, of: str, size: int = 1024) -> str:
    return f"%{name} = f32[{size}]{{0}} all-reduce-done(%{of})"


def made(
    text: str | None,
    step: Sequence[Work] | Callable[[int, int], Sequence[Work]],
    period: float,
    *,
    beside: Sequence[str] = (),
    chip: str = H100,
    kind: str = "gpu",
    flags: Mapping[str, str] | None = None,
    jaxlib: str | None = None,
    steps: int = 5,
    devices: int = 2,
    said: Mapping[str, str] | None = None,
) -> StepData:
    """The Case of some steps, alike unless `step` tells them by device and number.

    `beside` has what runs on a stream of its own; `said` the HLO that the profiler tells of single
    instructions.
    """
    spans = [
        Span(
            op,
            round((number * period + at) * MS),
            round(length * MS),
            device,
            line=2 * device + (op in beside),
            module=MODULE,
        )
        for number in range(steps)
        for device in range(devices)
        for op, at, length in (step(device, number) if callable(step) else step)
    ]
    markers = [
        (device, number, round(number * period * MS), round(period * MS))
        for device in range(devices)
        for number in range(steps)
    ]
    embedded = {} if text is None else {MODULE: EmbeddedProgram(MODULE, text.encode)}
    recorded = recording(spans, markers=markers, programs=embedded)
    chips = tuple(Device(ordinal=index, kind=kind, chip=chip) for index in range(devices))
    ops = recorded.ops.with_columns(
        text=pl.col("op").replace_strict(said or {}, default=None, return_dtype=pl.String)
    )
    timeline = assemble([replace(recorded, devices=chips, ops=ops)], ["made"])
    return StepData(selection=select(timeline), context=Context(flags=flags, jaxlib=jaxlib))


def told(case: StepData, **rows: Mapping[str, object]) -> StepData:
    """The same where the network analysis says this of collectives, by name."""
    found = [{**dict.fromkeys(SCHEMA), "program": 0, "op": op, **row} for op, row in rows.items()]
    network = pl.DataFrame(found, schema=SCHEMA)
    case.tables[classify] = network
    return case
