"""Hand-made Recordings: a few spans in nanoseconds, everything else filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from counterpoint.timeline.model import Device, EmbeddedProgram
from counterpoint.timeline.recording import EXECUTIONS, MARKERS, OPS, SPANS, Recording

NS = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """One span: what runs, when (ns), where. `run` is the profiler's run id, if it has one.

    `window`: it lasts from the start of an asynchronous op to its done.
    """

    op: str
    start: int
    dur: int
    device: int = 0
    line: int = 0
    run: int | None = None
    module: str | None = "jit_step"
    window: bool = False


def recording(
    spans: Sequence[Span],
    *,
    host: str = "host0",
    devices: int | None = None,
    executions: Sequence[tuple[int, str, int, int]] = (),
    markers: Sequence[tuple[int | None, int, int, int]] = (),
    programs: Mapping[str, EmbeddedProgram] | None = None,
) -> Recording:
    """Executions: (device, module, start, dur); markers: (device, step, start, dur)."""
    kinds = list(dict.fromkeys((span.op, span.module, span.window) for span in spans))
    ops = [
        {**dict.fromkeys(OPS), "name": op, "op": op, "module": module, "async_window": window}
        for op, module, window in kinds
    ]
    count = devices or max((span.device for span in spans), default=-1) + 1
    return Recording(
        source=f"{host}.made",
        host=host,
        devices=tuple(Device(ordinal=index, kind="gpu") for index in range(count)),
        lines=tuple(f"line {n}" for n in range(max((s.line for s in spans), default=0) + 1)),
        ops=pl.DataFrame(ops, schema=OPS),
        spans=pl.DataFrame(
            [
                (
                    span.device,
                    span.line,
                    kinds.index((span.op, span.module, span.window)),
                    span.run,
                    span.start * NS,
                    span.dur * NS,
                )
                for span in spans
            ],
            schema=SPANS,
            orient="row",
        ),
        executions=pl.DataFrame(
            [(d, module, None, None, start * NS, dur * NS) for d, module, start, dur in executions],
            schema=EXECUTIONS,
            orient="row",
        ),
        markers=pl.DataFrame(
            [(d, step, "train", start * NS, dur * NS) for d, step, start, dur in markers],
            schema=MARKERS,
            orient="row",
        ),
        programs=programs or {},
    )
