"""The batch is not sharded in a part of the program: devices work on the examples of others.

## What it does

Finds work of the forward and the backward pass that several devices do alike although the batch
could be divided among them, and collectives that move activations of all examples where data
parallelism moves weights and gradients only. It names the lines where a sharding constraint on the
activations helps.

## Why it costs time

`in_shardings` shards arguments; the shardings of all that lies between are XLA's choice. Where
weights are sharded, it may keep them where they are, and gather the *batch* instead, or cut
activations along their features: each device then holds all examples, activations are sent for
every product, and what has no sharded weight (attention, normalization, losses) may run on every
device alike. FSDP needs the opposite: each device keeps its examples, and gathers the weights,
which are smaller.

## How it is detected

From the program's parameters and their shardings, the rule follows which devices compute the same
value, and along which dimensions of it the examples lie (through fusions, loops and collectives).
Reported are:

- matrix products, convolutions and attention on data of the batch that devices compute alike, if
  the examples that each is given can be divided among these devices, with everything beside them
  that they compute alike;
- collectives on activations of more examples than a device is given, if a product of these by a
  part of a weight connects them, and if they move more bytes than the other way: to gather these
  weights, and to reduce and scatter their gradients. The weight has to be cut along an axis of the
  mesh that cuts the examples of the input, and along a dimension of the product. In programs for
  TPUs, where XLA writes products as convolutions, these collectives are not found.

Weights that are cut along an axis of their own (tensor parallelism), experts that are each whole
on a device, sequences that are cut, activations of all examples for a contrastive loss, what the
program itself sends (`shard_map`), and activations that are smaller than the weights are all fine.

The saving is a rule of thumb: half to three times what is repeated and the time that devices wait
for these collectives, and at most all of the step but one device's part of it. With the constraint,
their layout changes, and all-reduces of partial sums of them, vanish, too. Only a compile of the
constrained program tells: insert the constraint, and `counterpoint predict` again.

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
`P(("data", "fsdp"), None)`. Where the step splits its batch into microbatches, constrain these:
`P(None, "data")`.

## Fix safety

A constraint changes no result except for the last bits. Sums over the batch are added up in another
order.

## False alarms

A second mesh axis may be meant for tensor parallelism of a part only, such as a projection of keys
that all heads share: that part is then repeated on purpose. Weights may be kept in parts along the
axis of the batch to save memory, although it moves more bytes: it takes room for one layer's
weights to gather them.

## References

- https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html
- https://docs.jax.dev/en/latest/_autosummary/jax.lax.with_sharding_constraint.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import ExecutedOp, executed_ops
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.gathered_batch import GatheredBatch, gathered_batches
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.phase import Phase
from counterpoint.hlo.replication import Batch, Replication, replication

CODE: Final = "STEP507"
NAME: Final = "unsharded-batch"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.03
"""Minimum share of the step: a projection that all heads share is repeated on purpose."""
_PARTS: Final = (0.5, 3.0)
"""The saving over what is seen of it: in twenty programs, predicted with constraints and without,
1.06 to 2.6. Partial sums of the whole batch are written, too, and tight memory costs recomputation.
"""
_NAMED: Final = 3
_PRODUCTS: Final = ("matmul", "attention", "convolution")
_NOT_WORK: Final = ("collective", "control", "host")


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """Collectives on activations of others' examples, by their rows, and products of a weight."""

    collectives: Sequence[dict[str, Any]]
    products: Sequence[ExecutedOp]
    bytes: float
    bytes_instead: float
    devices: int

    @property
    def ms(self) -> float:
        return sum(map(_exposed_ms, self.collectives))

    @property
    def saved_ms(self) -> float:
        """Their time without that of moving weights and gradients instead."""
        return self.ms * (1 - self.bytes_instead / self.bytes)


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
    moved = list(_moved(data, program))
    if not products and sum(it.saved_ms for it in moved) <= _LEAST_SHARE * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=_title(repeated, products, moved),
        detail=_detail(spread.batch, products, moved),
        saves_ms=_saves(data, repeated, moved),
        basis=Basis.RULE_OF_THUMB,
        evidence=_evidence(data, repeated, moved),
        remedy=_remedy(data, spread.batch, products, moved),
        doubt="only a compile with the constraints tells how much: insert them, and predict again",
    )


def _saves(data: StepData, repeated: Sequence[_Repeated], moved: Sequence[_Moved]) -> Range:
    """Return a rule of thumb, at most all of the step but one device's part of it."""
    seen = sum(it.saved_ms for it in repeated) + sum(it.saved_ms for it in moved)
    devices = max([len(it.copies) for it in repeated] + [it.devices for it in moved])
    low, high = _PARTS
    return Range(low * seen, min(high * seen, data.step_ms * (1 - 1 / devices)))


def _on_the_batch(data: StepData, spread: Replication) -> Iterator[ExecutedOp]:
    """Yield what the forward and the backward pass compute from data of the batch."""
    own = pl.col("program") == data.timeline.step_program
    for ran in executed_ops(data, own & ~pl.col("category").is_in(_NOT_WORK)):
        if ran.row["phase"] != Phase.OPTIMIZER and spread.depends_on_batch(ran.instruction):
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


def _moved(data: StepData, program: Program) -> Iterator[_Moved]:
    """Yield what moves more than weights and gradients would."""
    parts = gathered_batches(program)
    if not parts:
        return
    own = pl.col("program") == data.timeline.step_program
    collectives = {
        str(row["op"]): row
        for row in data.cached(collective_profile).filter(own).iter_rows(named=True)
    }
    ops = {ran.instruction.name: ran for ran in executed_ops(data, own)}
    for part in parts:
        moved = _moved_in(part, collectives, ops)
        if moved.bytes > moved.bytes_instead:
            yield moved


def _moved_in(
    part: GatheredBatch,
    collectives: Mapping[str, dict[str, Any]],
    ops: Mapping[str, ExecutedOp],
) -> _Moved:
    rows = [row for it in part.collectives if (row := collectives.get(it.name))]
    times = max((_count(row) for row in rows), default=0.0)
    return _Moved(
        collectives=rows,
        products=[ran for it in part.products if (ran := ops.get(it.instruction.name))],
        bytes=sum(_count(row) * _sent(row) for row in rows),
        bytes_instead=times * sum(it.bytes_instead for it in part.products),
        devices=part.times,
    )


def _count(row: Mapping[str, Any]) -> float:
    return float(row["count"] or 0.0)


def _sent(row: Mapping[str, Any]) -> float:
    """Return its bytes; an all-reduce sends them twice, as a reduce-scatter and an all-gather."""
    return float(row["bytes"] or 0) * (2 if row["kind"] == "all-reduce" else 1)


def _exposed_ms(row: Mapping[str, Any]) -> float:
    return float(row["exposed_ms"] or 0.0)


def _title(
    repeated: Sequence[_Repeated], products: Sequence[_Repeated], moved: Sequence[_Moved]
) -> str:
    if not products:
        ms = ms_text(sum(it.ms for it in moved))
        return f"activations are moved instead of weights: devices wait {ms} per step for them"
    ms = ms_text(sum(it.ran.ms for it in repeated))
    return f"the batch is not sharded: {len(products[0].copies)} devices repeat the same {ms}"


def _detail(batch: Batch, products: Sequence[_Repeated], moved: Sequence[_Moved]) -> str:
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
        if given > 1:
            how = (
                f"although each is given {batch.examples:,} of {batch.examples * given:,} examples"
            )
        elif _are_given_the_same(batch, first):
            how = f"and all are given the same {batch.examples:,} examples"
        else:
            how = f"although each is given another part of the same {batch.examples:,} examples"
        parts.append(f"{text} compute the same on {copies} devices, {how}")
    if moved:
        parts += _what_moves(moved)
    return ". ".join(parts)


def _what_moves(moved: Sequence[_Moved]) -> list[str]:
    rows = [row for it in moved for row in it.collectives]
    most = max(rows, key=lambda row: (_exposed_ms(row), _sent(row)))
    gib = sum(it.bytes for it in moved) / 2**30
    instead = sum(it.bytes_instead for it in moved) / 2**30
    is_reduced = any(row["kind"] == "all-reduce" for row in rows)
    twice = " (an all-reduce counts twice, for both ways)" if is_reduced else ""
    sent = (
        f"{counted_noun(len(rows), 'collective')} ({ms_text(sum(it.ms for it in moved))} per step,"
        f" not hidden) move activations of up to {max(it.devices for it in moved)} times the"
        f" examples that a device is given: {gib:,.3g} GiB per step{twice}, where gathering the"
        f" weights of their products and reducing the gradients moves {instead:,.3g} GiB"
    )
    longest = f"The longest is the {most['kind']} {place_of(most)}"
    return [sent, longest, "With the constraint, weights and gradients move instead of all these"]


def _are_given_the_same(batch: Batch, repeated: _Repeated) -> bool:
    return len({batch.tile_of[device] for device in repeated.copies}) == 1


def _evidence(
    data: StepData, repeated: Sequence[_Repeated], moved: Sequence[_Moved]
) -> tuple[Evidence, ...]:
    costly = sorted(repeated, key=lambda it: -it.ran.ms)[:_NAMED]
    rows = [row for it in moved for row in it.collectives]
    moving = sorted(rows, key=lambda row: (-_exposed_ms(row), -_sent(row)))[:_NAMED]
    return (
        *(
            replace(data.evidence(it.ran.row, "self_ms"), what=place_of(it.ran.row))
            for it in costly
        ),
        *(replace(data.evidence(row, "exposed_ms"), what=place_of(row)) for row in moving),
    )


def _remedy(
    data: StepData, batch: Batch, products: Sequence[_Repeated], moved: Sequence[_Moved]
) -> Remedy:
    lines = _lines([*(ran for it in moved for ran in it.products), *(it.ran for it in products)])
    where = f" before {', '.join(lines)}" if lines else ""
    constrain = (
        f"constrain the activations to the sharding of the batch{where}:"
        " x = jax.lax.with_sharding_constraint(x, P(AXIS, None, None)), where AXIS is the axis of"
        " the mesh that shards the examples of the input"
    )
    if products and _are_given_the_same(batch, products[0]):
        constrain = (
            f"shard the input over these {len(products[0].copies)} devices, too"
            f" (P(('data', 'fsdp')) for its first dimension), then {constrain}"
        )
    return advise(data, constrain)


def _lines(products: Iterable[ExecutedOp]) -> list[str]:
    """Return the source lines of the forward pass with most time; of other passes if none is."""
    by_line: dict[tuple[bool, str], float] = {}
    for ran in products:
        row = ran.row
        key = (row["phase"] == Phase.FORWARD, str(row["source"] or row["scope"] or row["op"]))
        by_line[key] = by_line.get(key, 0.0) + ran.ms
    first = any(forward for forward, _ in by_line)
    chosen = [key for key in by_line if key[0] is first]
    return [line for _, line in sorted(chosen, key=lambda key: -by_line[key])][:_NAMED]
