"""The batch is not sharded in a part of the program: devices repeat each other's work.

## What it does

Finds work of the forward and the backward pass that several devices do alike although the batch
could be divided among them, and sums of activations over devices that hold different examples.
It names the lines where a sharding constraint on the activations helps.

## Why it costs time

`in_shardings` shards arguments; the shardings of all that lies between are XLA's choice. Where
weights are sharded along a dimension that a product contracts, it may keep the weights where they
are, gather the *batch* instead, and sum activations over all devices: each device then holds the
whole batch, and what has no sharded weight (attention, normalization, losses) runs on every device
alike. FSDP needs the opposite: each device keeps its examples, and gathers the weights, which are
smaller.

## How it is detected

From the program's parameters and their shardings, the rule follows which devices compute the same
value (through fusions, loops and collectives). Reported are matrix products, convolutions and
attention on data of the batch that devices compute alike, if the examples that each is given can be
divided among these devices, with everything beside them that they compute alike; and all-reduces
and reduce-scatters of a product of activations and weights over devices with different examples, if
they move more than gathering those weights would. Activations that are whole on purpose, as between
the layers of tensor parallelism, are fine, since the products differ.

The saving is a rule of thumb: half to three times what is repeated and summed, and at most all of
the step but one device's part of it. Only a compile of the constrained program tells: insert the
constraint, and `counterpoint predict` again.

## Example

```python
step = jax.jit(step, in_shardings=(fsdp, P("data")))  # and no constraint on activations

def layer(x, w):
    h = x @ w["up"]                                   # w["up"] is sharded as P("data", None)
```

## Fix

Constrain the activations to the sharding of the batch at the begin of each layer and after the
embedding: `x = jax.lax.with_sharding_constraint(x, P("data", None, None))`. If the input itself is
whole on several devices, shard it over all axes that divide the batch:
`P(("data", "fsdp"), None)`.

## Fix safety

A constraint changes no result except for the last bits. Sums over the batch are added up in another
order.

## False alarms

A second mesh axis may be meant for tensor parallelism of a part only, such as a projection of keys
that all heads share: that part is then repeated on purpose.

## References

- https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html
- https://docs.jax.dev/en/latest/_autosummary/jax.lax.with_sharding_constraint.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.frozen import frozen
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import ExecutedOp, executed_ops
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import replica_groups
from counterpoint.hlo.phase import Phase
from counterpoint.hlo.replication import Batch, Replication, replication
from counterpoint.hlo.schedule import is_done

CODE: Final = "STEP507"
NAME: Final = "unsharded-batch"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.03
"""Minimum share of the step: a projection that all heads share is repeated on purpose."""
_PARTS: Final = (0.5, 3.0)
"""The saving over what is seen of it: in five programs, predicted with constraints and without,
1.06 to 2.6. Partial sums of the whole batch are written, too, and tight memory costs recomputation.
"""
_NAMED: Final = 3
_PRODUCTS: Final = ("matmul", "attention", "convolution")
_WORK: Final = (Phase.FORWARD, Phase.BACKWARD, Phase.REMAT)
_NOT_WORK: Final = ("collective", "control", "host")
_SUMS: Final = ("all-reduce", "reduce-scatter", "all-reduce-start", "reduce-scatter-start")
_SAME_VALUES: Final = ("bitcast", "convert", "copy", "reshape", "transpose", "get-tuple-element")
_DEEPEST: Final = 32


@frozen(eq=False)
class _Repeated:
    """An op that several devices run alike."""

    ran: ExecutedOp
    copies: tuple[int, ...]

    @property
    def saved_ms(self) -> float:
        return self.ran.ms * (1 - 1 / len(self.copies))

    @property
    def is_product(self) -> bool:
        return self.ran.row["category"] in _PRODUCTS


@frozen(eq=False)
class _Summed:
    """A collective that adds up products of activations and weights, by its row."""

    row: dict[str, object]
    product: Instruction
    moved: int
    weights: int
    devices: int
    ms: float

    @property
    def saved_ms(self) -> float:
        """Its time without that of gathering the weights instead."""
        return self.ms * (1 - self.weights / self.moved)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    program = data.program
    spread = replication(program) if program is not None else None
    if program is None or spread is None or not data.step_ms:
        return
    repeated = list(_repeated(data, spread))
    products = [it for it in repeated if it.is_product]
    if sum(it.saved_ms for it in products) <= _LEAST_SHARE * data.step_ms:
        repeated, products = [], []
    summed = list(_summed(data, program, spread))
    if not products and sum(it.ms for it in summed) <= _LEAST_SHARE * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=_title(repeated, products, summed),
        detail=_detail(spread.batch, products, summed),
        saves_ms=_saves(data, repeated, summed),
        basis=Basis.RULE_OF_THUMB,
        evidence=_evidence(data, repeated, summed),
        remedy=_remedy(data, spread.batch, products, summed),
        doubt="only a compile with the constraints tells how much: insert them, and predict again",
    )


def _saves(data: StepData, repeated: Sequence[_Repeated], summed: Sequence[_Summed]) -> Range:
    """Return a rule of thumb, at most all of the step but one device's part of it."""
    seen = sum(it.saved_ms for it in repeated) + sum(it.saved_ms for it in summed)
    devices = max([len(it.copies) for it in repeated] + [it.devices for it in summed])
    low, high = _PARTS
    return Range(low * seen, min(high * seen, data.step_ms * (1 - 1 / devices)))


def _on_the_batch(data: StepData, spread: Replication) -> Iterator[ExecutedOp]:
    """Yield what the forward and the backward pass compute from data of the batch."""
    own = pl.col("program") == data.timeline.step_program
    for ran in executed_ops(data, own & ~pl.col("category").is_in(_NOT_WORK)):
        if ran.row["phase"] in _WORK and spread.depends_on_batch(ran.instruction):
            yield ran


def _repeated(data: StepData, spread: Replication) -> Iterator[_Repeated]:
    for ran in _on_the_batch(data, spread):
        copies = spread.copies(ran.instruction)
        if len(copies) > 1 and _can_be_divided(spread.batch, copies):
            yield _Repeated(ran, copies)


def _can_be_divided(batch: Batch, devices: Sequence[int]) -> bool:
    """Return whether each of the devices can have examples of its own."""
    given = len({batch.part_of[device] for device in devices})
    return len(devices) % given == 0 and batch.examples % (len(devices) // given) == 0


def _summed(data: StepData, program: Program, spread: Replication) -> Iterator[_Summed]:
    own = pl.col("program") == data.timeline.step_program
    for row in data.cached(collective_profile).filter(own).iter_rows(named=True):
        collective = program.instruction(row["op"])
        if collective is None or collective.opcode not in _SUMS:
            continue
        group = next(iter(replica_groups(program, collective)), ())
        if len({spread.batch.part_of[device] for device in group}) < 2:
            continue
        operands = program.operands(collective)
        for operand in operands:
            product = _product(program, operand)
            weights = product and _weights(program, spread, product)
            if product is None or not weights:
                continue
            size = operand.shape.bytes
            if size > weights.shape.bytes * len(group):
                share = size / sum(one.shape.bytes for one in operands)
                ms = float(row["exposed_ms"] or 0.0) * share
                whole = weights.shape.bytes * len(group)
                yield _Summed(row, product, size, whole, len(group), ms)


def _product(program: Program, value: Instruction) -> Instruction | None:
    """Return the matrix product whose value this is, perhaps in another type or order."""
    seen: Instruction | None = value
    for _ in range(_DEEPEST):
        if seen is None or seen.opcode == "dot":
            return seen
        if seen.opcode == "custom-call":
            return seen if category(program, seen) is Category.MATMUL else None
        if seen.opcode == "fusion" and seen.calls:
            seen = program.root(seen.calls[0])
        elif seen.opcode == "parameter":
            callers = program.callers(seen.computation)
            if len(callers) != 1 or callers[0].opcode != "fusion":
                return None
            seen = program.operands(callers[0])[seen.parameter_number or 0]
        elif seen.opcode in _SAME_VALUES or is_done(seen):
            seen = program.operands(seen)[0]
        else:
            return None
    return None


def _weights(program: Program, spread: Replication, product: Instruction) -> Instruction | None:
    """Return the factor that does not depend on the batch, if the other one does."""
    factors = program.operands(product)[:2]
    weights = [factor for factor in factors if not spread.depends_on_batch(factor)]
    return weights[0] if len(factors) == 2 and len(weights) == 1 else None


def _title(
    repeated: Sequence[_Repeated], products: Sequence[_Repeated], summed: Sequence[_Summed]
) -> str:
    if not products:
        ms = ms_text(sum(it.ms for it in summed))
        return f"the batch is gathered instead of the weights: {ms} of all-reduces of activations"
    ms = ms_text(sum(it.ran.ms for it in repeated))
    return f"the batch is not sharded: {len(products[0].copies)} devices repeat the same {ms}"


def _detail(batch: Batch, products: Sequence[_Repeated], summed: Sequence[_Summed]) -> str:
    parts: list[str] = []
    if products:
        first = products[0]
        text = (
            f"{place_of(first.ran.row)} and {counted_noun(len(products) - 1, 'other product')}"
            if len(products) > 1
            else place_of(first.ran.row)
        )
        copies = len(first.copies)
        given = len({batch.part_of[device] for device in first.copies})
        how = (
            f"although each of them is given {batch.examples:,} of {batch.examples * given:,}"
            " examples"
            if given > 1
            else f"and all are given the same {batch.examples:,} examples"
        )
        parts.append(f"{text} compute the same on {copies} devices, {how}")
    if summed:
        most = max(summed, key=lambda it: it.moved)
        mib, weights = most.moved / 2**20, most.weights / 2**20
        parts.append(
            f"{counted_noun(len(summed), 'collective')} ({ms_text(sum(it.ms for it in summed))} per"
            f" step, not hidden) add up activations over devices with different examples;"
            f" {place_of(most.row)} moves {mib:,.0f} MiB each time, where gathering its weights"
            f" moves {weights:,.3g} MiB"
        )
    return ". ".join(parts)


def _evidence(
    data: StepData, repeated: Sequence[_Repeated], summed: Sequence[_Summed]
) -> tuple[Evidence, ...]:
    costly = sorted(repeated, key=lambda it: -it.ran.ms)[:_NAMED]
    moving = sorted(summed, key=lambda it: -it.ms)[:_NAMED]
    return (
        *(
            replace(data.evidence(it.ran.row, "self_ms"), what=place_of(it.ran.row))
            for it in costly
        ),
        *(replace(data.evidence(it.row, "exposed_ms"), what=place_of(it.row)) for it in moving),
    )


def _remedy(
    data: StepData, batch: Batch, products: Sequence[_Repeated], summed: Sequence[_Summed]
) -> Remedy:
    lines = _lines(
        [
            *((it.row, it.ms) for it in summed),
            *((it.ran.row, it.ran.ms) for it in products),
        ]
    )
    where = f" before {', '.join(lines)}" if lines else ""
    constrain = (
        f"constrain the activations to the sharding of the batch{where}:"
        " x = jax.lax.with_sharding_constraint(x, P(AXIS, None, None)), where AXIS is the axis of"
        " the mesh that shards the examples of the input"
    )
    whole = products and len({batch.part_of[device] for device in products[0].copies}) == 1
    if whole:
        constrain = (
            f"shard the input over these {len(products[0].copies)} devices, too"
            f" (P(('data', 'fsdp')) for its first dimension), then {constrain}"
        )
    return advise(data, constrain)


def _lines(rows: Iterable[tuple[dict[str, object], float]]) -> list[str]:
    """Return the source lines of the forward pass with most time; of other passes if none is."""
    by_line: dict[tuple[bool, str], float] = {}
    for row, ms in rows:
        key = (row["phase"] == Phase.FORWARD, str(row["source"] or row["scope"] or row["op"]))
        by_line[key] = by_line.get(key, 0.0) + ms
    first = any(forward for forward, _ in by_line)
    chosen = [key for key in by_line if key[0] is first]
    return [line for _, line in sorted(chosen, key=lambda key: -by_line[key])][:_NAMED]
