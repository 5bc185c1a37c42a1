"""A step of one device from its HLO and the time of each instruction, as a Case for rules.

Three steps alike, spans one after another from a step's start, on one line; times in microseconds.
What is named on other lines, or starts elsewhere, is given as (op, start, length, line).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from counterpoint.core.basis import Range
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.hardware.target import Target
from counterpoint.runs.run import Run
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram
from counterpoint.timeline.recording import HOST_EVENTS, PYTHON_SAMPLED
from recordings import Span, recording

US = 1_000
H100 = "NVIDIA H100 80GB HBM3"
MODULE = "jit_train_step"
STEPS = 3

Line = tuple[str, int, int, int]


def made(
    hlo: str | None,
    times: Mapping[str, int] | Sequence[Line],
    *,
    chip: str | None = H100,
    kind: str = "gpu",
    step: int | None = None,
    run: Run | None = None,
    flags: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    host: Sequence[tuple[str, int, int]] = (),
    nameless: Sequence[str] = (),
    header: str = "",
    target: Target | None = None,
    has_run_ids: bool = False,
    sampled: bool = False,
) -> StepData:
    """`host` has events as (name, start, length) from the first step's start; or `sampled` frames.

    `nameless` kernels name no instruction; `header` is more of the module's first line.
    """
    lines = _in_order(times) if isinstance(times, Mapping) else list(times)
    length = step or max(start + long for _, start, long, _ in lines)
    spans = [
        Span(
            op,
            (n * length + start) * US,
            long * US,
            0,
            line,
            run=n if has_run_ids else None,
            module=MODULE,
        )
        for n in range(STEPS)
        for op, start, long, line in lines
    ]
    markers = [(0, n, n * length * US, length * US) for n in range(STEPS)]
    text = f"HloModule {MODULE}, is_scheduled=true{header}\n\n{hlo}" if hlo is not None else ""
    embedded = {MODULE: EmbeddedProgram(MODULE, text.encode)} if text else {}
    recorded = recording(spans, markers=markers, programs=embedded)
    names = tuple(dict.fromkeys(name for name, _, _ in host))
    events = [
        (len(recorded.lines), names.index(name), start * US * 1000, long * US * 1000)
        for name, start, long in host
    ]
    recorded = replace(
        recorded,
        ops=recorded.ops.with_columns(op=pl.when(~pl.col("op").is_in(nameless)).then("op")),
        devices=(Device(ordinal=0, kind=kind, chip=chip),),
        lines=(*recorded.lines, "python"),
        notes=tuple(notes),
        host_events=pl.DataFrame(events, schema=HOST_EVENTS, orient="row"),
        host_names=names,
        environment={PYTHON_SAMPLED: "every 2.0 ms"} if sampled else {},
    )
    context = Context(run=run, target=target, flags=flags, environment={} if run else None)
    return StepData(selection=select(assemble([recorded], ["made.xplane.pb"])), context=context)


def _in_order(times: Mapping[str, int]) -> list[Line]:
    lines: list[Line] = []
    start = 0
    for op, length in times.items():
        lines.append((op, start, length, 0))
        start += length
    return lines


def priced(finding: Finding) -> Range:
    """What it saves, which has to be known."""
    assert isinstance(finding.saves_ms, Range)
    return finding.saves_ms


def where(scope: str, line: int) -> str:
    """Metadata of an instruction."""
    return (
        f'metadata={{op_name="jit(train_step)/{scope}" source_file="/home/me/model/mlp.py"'
        f" source_line={line}}}"
    )
