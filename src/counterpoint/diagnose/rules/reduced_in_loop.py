"""Gradients are summed over devices in every microbatch instead of once.

## What it does

Finds all-reduces and reduce-scatters in a loop whose results the loop only adds up, as in gradient
accumulation, and says what they cost and what one sum after the loop would save.

## Why it costs time

A sum over devices and a sum over microbatches can be exchanged. In every iteration of a `lax.scan`
over N microbatches, XLA's partitioner sums the gradients over the devices, because the sum that the
loop carries has the sharding of the parameters: N times the bytes that are needed.

## How it is detected

In the program: everything that the loop makes of the collective's result is linear (a type, an
order, a scale, a part, a sum) and ends in a value that it adds to. A loop that clips gradients or
updates weights uses them, so it is not reported; neither is a loop over layers, which keeps the
gradients apart. The saving is that of 1 - 1/N of the exposed time, by the simulator where possible;
at least it is what remains if the accumulator has wider elements and is reduced as it is.

## Example

```python
def add(total, microbatch):
    gradients = jax.grad(loss)(params, microbatch)          # summed over devices here
    return jax.tree.map(jnp.add, total, gradients), None
total, _ = jax.lax.scan(add, zeros, microbatches)
```

## Fix

Accumulate each device's own gradients, and sum them once:

```python
def accumulate(params, microbatches):                       # local microbatches
    total, _ = jax.lax.scan(add, zeros, microbatches)
    return jax.lax.psum(total, "data")
jax.shard_map(accumulate, mesh=mesh, in_specs=(P(), P(None, "data")), out_specs=P())
```

## Fix safety

Sums are added up in another order. Parameters that are replicated need no more memory. With FSDP
(a reduce-scatter) the loop would hold whole gradients on each device instead of a part: the finding
says how much that is, and is left out if the Run's unused memory does not suffice.

## False alarms

None known for all-reduces. For reduce-scatters memory may forbid it.

## References

- https://docs.jax.dev/en/latest/notebooks/shard_map.html
- https://arxiv.org/abs/1910.02054
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.memory import GIB, memory_of
from counterpoint.diagnose.savings import savings_of
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.accumulation import AccumulatedSum, accumulated_sums
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance

CODE: Final = "STEP108"
NAME: Final = "reduced-in-loop"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.01
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Repeated:
    """A collective in the loop, its row of the table of collectives, and its time per step."""

    row: dict[str, object]
    sum: AccumulatedSum
    ms: float
    exposed_ms: float
    extra_bytes: float  # of accumulators that are whole instead of sharded


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    program = data.program
    if program is None or not data.step_ms:
        return
    repeated = list(_repeated_sums(data, program))
    memory = memory_of(data)
    if memory is not None and memory.spare is not None:
        extra = sum(it.extra_bytes for it in repeated)
        if extra > memory.spare:
            repeated = [it for it in repeated if not it.extra_bytes]
    exposed = sum(it.exposed_ms for it in repeated)
    if exposed <= _LEAST_SHARE * data.step_ms:
        return
    first = repeated[0]
    saves, basis = _saves(data, repeated, exposed)
    yield Finding(
        code=CODE,
        title=f"gradients are summed over devices {first.sum.trips} times instead of once",
        detail=_detail(program, repeated, exposed),
        saves_ms=saves,
        basis=basis,
        evidence=tuple(
            replace(data.evidence(it.row, "exposed_ms"), what=place_of(it.row))
            for it in repeated[:_NAMED]
        ),
        remedy=advise(
            data,
            "accumulate each device's own gradients in the loop (jax.shard_map over the axis of the"
            " batch), and sum them once after it (jax.lax.psum)",
        ),
        doubt=_doubt(repeated),
    )


def _repeated_sums(data: StepData, program: Program) -> Iterator[_Repeated]:
    """Yield the collectives that could run once, the most exposed first."""
    sums = {it.collective.name: it for it in accumulated_sums(program)}
    own = pl.col("op").is_in(list(sums)) & (pl.col("program") == data.timeline.step_program)
    rows = data.cached(collective_profile).filter(own)
    for row in rows.sort("exposed_ms", "op", descending=[True, False]).iter_rows(named=True):
        one = sums[row["op"]]
        extra = 0.0
        if "reduce-scatter" in one.collective.opcode:
            known = collective(program, one.collective)
            group = (known.group_size if known else None) or 1
            size = sum(it.shape.bytes for it in program.operands(one.collective))
            extra = size * one.widening * (1 - 1 / group) * float(row["count"]) / one.trips
        yield _Repeated(row, one, float(row["total_ms"]), float(row["exposed_ms"]), extra)


def _saves(data: StepData, repeated: Sequence[_Repeated], exposed: float) -> tuple[Range, Basis]:
    gain = data.cached(savings_of).without(it.sum.collective.name for it in repeated)
    all_of_it = gain or Range(0.0, exposed)
    least = min(it.sum.saved_share for it in repeated)
    most = max(1 - 1 / it.sum.trips for it in repeated)
    high = min(all_of_it.high, exposed) * most
    basis = data.basis if gain is None else Basis.PREDICTED
    return Range(min(all_of_it.low * least, high), high), basis


def _detail(program: Program, repeated: Sequence[_Repeated], exposed: float) -> str:
    first = repeated[0]
    loop = provenance(program, first.sum.loop).source
    where = f" of {loop}" if loop else ""
    text = (
        f"the loop{where} only adds up the results of {counted_noun(len(repeated), 'collective')}:"
        f" {ms_text(sum(it.ms for it in repeated))} per step, {ms_text(exposed)} of it exposed; the"
        f" first is {place_of(first.row)}"
    )
    extra = sum(it.extra_bytes for it in repeated)
    if extra:
        text += f". Whole gradients in the loop take {extra / GIB:,.2f} GiB more on each device"
    return text


def _doubt(repeated: Sequence[_Repeated]) -> str | None:
    if any(it.extra_bytes for it in repeated):
        return "with sharded parameters (FSDP), memory may forbid to hold whole gradients"
    return None
