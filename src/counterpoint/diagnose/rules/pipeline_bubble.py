"""A pipeline's stages have nothing to do while it fills and drains.

## What it does

Recognizes pipelines, and reports the time in which their stages wait for the first values or have
sent the last ones: the bubble.

## Why it costs time

With S stages and M microbatches a pipeline takes M + S - 1 turns, and each stage works in M of
them. In the others it waits, or computes values that nobody reads.

## How it is detected

In the HLO: a loop that is carried on by a collective-permute from each device to the next, with
more turns than devices, or that many permutes of one chain after another. The share of turns that
fill and drain, (S - 1) of all, of the loop's time is the bubble; where stages skip their work in
these turns, the waits of the permutes are measured. The finding takes the larger of both. Waits in
these permutes are not STEP105's: no device is late.

## Example

```python
y = jax.lax.fori_loop(0, microbatches + stages - 1, turn, x)   # turn ends in jax.lax.ppermute
```

## Fix

More and smaller microbatches; stages of several groups of layers in turn (circular or interleaved
schedules); fewer stages, and more devices for data or tensors.

## Fix safety

Results stay the same. Smaller microbatches make products smaller, and each needs its activations.

## False alarms

Stages of unequal length wait, too, and more microbatches do not help against that.

## References

- https://arxiv.org/abs/1811.06965
- https://arxiv.org/abs/2104.04473
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import ExecutedOp, executed_ops
from counterpoint.diagnose.exposure.causes import shares_of
from counterpoint.diagnose.finding import Evidence, Finding, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.pipeline import Pipeline, pipelines
from counterpoint.hlo.provenance import provenance
from counterpoint.hlo.schedule import enclosing

CODE: Final = "STEP109"
NAME: Final = "pipeline-bubble"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class _Bubble:
    """A pipeline, what its loop takes per step, and what of that its stages lose."""

    pipeline: Pipeline
    ms: float
    waited_ms: float

    @property
    def lost_ms(self) -> float:
        return max(self.waited_ms, self.pipeline.empty_share * self.ms)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all pipelines of the step's program."""
    program = data.program
    if program is None or not data.step_ms:
        return
    all_pipelines = pipelines(program)
    ran = (
        list(executed_ops(data, pl.col("program") == data.timeline.step_program))
        if all_pipelines
        else []
    )
    bubbles = [_bubble(data, program, pipeline, ran) for pipeline in all_pipelines]
    lost = min(sum(bubble.lost_ms for bubble in bubbles), data.step_ms)
    if lost <= _LEAST_SHARE * data.step_ms:
        return
    first = max(bubbles, key=lambda bubble: bubble.lost_ms)
    pipeline = first.pipeline
    yield Finding(
        code=CODE,
        title=f"the bubble of {pipeline.stages} pipeline stages takes {ms_text(lost)} per step",
        detail=_detail(program, first),
        saves_ms=Range(0.0, lost),
        takes_ms=sum(bubble.ms for bubble in bubbles),
        basis=Basis.RULE_OF_THUMB,
        evidence=_evidence(data, bubbles),
        remedy=advise(
            data,
            "use more and smaller microbatches, or a circular (interleaved) schedule, in which each"
            " device has several stages; or fewer stages",
        ),
    )


def bubble_waits(data: StepData) -> frozenset[str]:
    """Return the permutes of pipelines: their waits are bubbles, not late devices."""
    all_pipelines = pipelines(data.program) if data.program is not None else ()
    return frozenset(permute.name for pipeline in all_pipelines for permute in pipeline.permutes)


def _bubble(
    data: StepData, program: Program, pipeline: Pipeline, ran: Sequence[ExecutedOp]
) -> _Bubble:
    loop = pipeline.loop
    own = ran
    if loop is not None:
        own = [
            op
            for op in ran
            if any(it.name == loop.name for it in enclosing(program, op.instruction.computation))
        ]
    names = {permute.name for permute in pipeline.permutes}
    step = data.timeline.step_program
    waited = sum(
        float(row["late_ms"])
        for row in data.cached(shares_of).rows
        if row["program"] == step and row["op"] in names
    )
    return _Bubble(pipeline, min(sum(op.ms for op in own), data.step_ms), waited)


def _detail(program: Program, bubble: _Bubble) -> str:
    pipeline = bubble.pipeline
    place = provenance(program, pipeline.loop or pipeline.permutes[0]).source
    where = f" at {place}" if place else ""
    waits = (
        f". Its stages wait {ms_text(bubble.waited_ms)} for each other"
        if bubble.waited_ms > 0
        else ""
    )
    twice = 2 * (pipeline.turns - pipeline.stages + 1) + pipeline.stages - 1
    return (
        f"{pipeline.stages - 1} of {pipeline.turns} turns{where} fill and drain it,"
        f" {pipeline.empty_share:.0%} of the {ms_text(bubble.ms)} that it takes{waits}. With twice"
        f" as many microbatches it would be {(pipeline.stages - 1) / twice:.0%}"
    )


def _evidence(data: StepData, bubbles: Sequence[_Bubble]) -> tuple[Evidence, ...]:
    names = {permute.name for bubble in bubbles for permute in bubble.pipeline.permutes}
    step = data.timeline.step_program
    rows = [
        row for row in data.cached(shares_of).rows if row["program"] == step and row["op"] in names
    ]
    return tuple(replace(data.evidence(row, "exposed_ms"), what=place_of(row)) for row in rows[:3])
