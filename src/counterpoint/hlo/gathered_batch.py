"""Parts of a program where devices hold more of the batch than they are given, as FSDP needs not.

Where a weight is cut along the axis of the batch, there are two ways to multiply by it. Each device
keeps its examples, and gathers the weight; in the backward pass the weight's gradient is summed and
cut. Or each keeps its part of the weight, and activations of all examples are gathered, or cut
along another dimension. The result and the arithmetic are the same, so what moves fewer bytes is
better. Found here are parts of the second kind, with their collectives, and the bytes that the
first would move.

Weights that are cut along another axis than the batch (tensor parallelism) are none of this, nor
are those of which a device has some whole (experts), nor activations that meet activations only
(ring attention, contrastive losses), nor is what the program itself sends (`shard_map`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.examples import Examples, Held, examples
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import is_done
from counterpoint.hlo.work import dot_dimensions

__all__ = ["GatheredBatch", "WeightProduct", "gathered_batches"]

_HOLDERS = ("parameter", "tuple", "while", "conditional", "call")
"""What passes many values on, which have nothing else in common."""
_WRITTEN = ("all_gather", "all_to_all", "psum", "reduce_scatter")
"""Collectives of JAX: XLA's own have the name of the operation that needs them."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightProduct:
    """A product of the whole batch by a part of a weight, or one that gives a part of its gradient.

    `bytes_instead` is the size of the whole weight or gradient, which devices with a part of the
    batch gather, or sum and cut.
    """

    instruction: Instruction
    bytes_instead: int
    is_gradient: bool


@dataclass(frozen=True, slots=True, eq=False)
class GatheredBatch:
    """Instructions that are connected by values of `times` the examples that a device is given."""

    collectives: tuple[Instruction, ...]
    products: tuple[WeightProduct, ...]
    times: int


def gathered_batches(program: Program) -> list[GatheredBatch]:
    """Return such parts of all computations that are launched."""
    spread = examples(program)
    if spread is None:
        return []
    return [
        part for computation in launched(program) for part in _parts(program, computation, spread)
    ]


def _parts(program: Program, computation: Computation, spread: Examples) -> Iterator[GatheredBatch]:
    for members in _connected(program, computation, spread):
        products = tuple(product for it in members for product in _products(program, spread, it))
        moving = tuple(it for it in members if collective(program, it) and not is_done(it))
        if any(it.op_name.rpartition("/")[2].startswith(_WRITTEN) for it in moving):
            continue
        if moving and any(not product.is_gradient for product in products):
            yield GatheredBatch(moving, products, max(map(spread.times, members)))


def _connected(
    program: Program, computation: Computation, spread: Examples
) -> list[list[Instruction]]:
    """Return groups of instructions that are connected by values of more than the own examples."""
    group: dict[str, list[Instruction]] = {}
    for it in computation.instructions:
        own = group.setdefault(it.name, [it])
        if it.opcode in _HOLDERS:
            continue
        for operand in program.operands(it):
            other = group[operand.name]
            if operand.opcode in _HOLDERS or spread.times(operand) <= 1 or other is own:
                continue
            own, other = (own, other) if len(own) >= len(other) else (other, own)
            own += other
            group.update(dict.fromkeys((member.name for member in other), own))
    groups = {id(members): members for members in group.values()}
    return [members for members in groups.values() if len(members) > 1]


def _products(program: Program, spread: Examples, it: Instruction) -> Iterator[WeightProduct]:
    inside = program.body(it) if it.opcode == "fusion" else (it,)
    for one in inside:
        dims = dot_dimensions(one)
        factors = program.operands(one)[:2]
        if dims is None or len(factors) < 2 or dims.lhs_batch:
            continue
        known = [(factor, held) for factor in factors if (held := spread.of(factor))]
        batch = [held for _, held in known if held.is_batch]
        if len(known) < 2 or not batch or batch[0].times <= 1:
            continue
        if len(batch) == 2 and spread.is_sum(one) and batch[0].parts == batch[1].parts:
            result = next(one.shape.leaves)
            yield WeightProduct(it, result.bytes * batch[0].times, is_gradient=True)
        elif len(batch) == 1:
            ((factor, weight),) = ((one, held) for one, held in known if not held.is_batch)
            count = _parts_among(spread, batch[0], weight)
            if weight.pieces and count > 1:
                yield WeightProduct(it, factor.shape.bytes * count, is_gradient=False)


def _parts_among(spread: Examples, batch: Held, weight: Held) -> int:
    """Return how many parts of a weight devices with the same examples hold."""
    alike, parts = spread.partitions[batch.parts], spread.partitions[weight.parts]
    return len({part for label, part in zip(alike, parts, strict=True) if label == alike[0]})
