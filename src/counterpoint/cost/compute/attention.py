"""The price of fused attention: operations by shape and mask, at what such kernels reach."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from counterpoint.cost.compute.attention_shape import Attention, attention_of
from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.hlo import Instruction, Program

_START_S: Final = 4e-6
_REACH: Final = 0.15
_GUESSED_MASK: Final = 1.9
"""Where nobody says whether it is causal: as if it were, and up to twice as much."""
_HOPPER_LONG: Final = 604.0
"""Forward, no mask, heads of 128, long sequences: what the shares of kernels.toml refer to."""
_BACKWARD_LONG: Final = 517.0


def price_attention(program: Program, instruction: Instruction, machine: Machine) -> Price | None:
    """None where the shapes can't be told."""
    found = attention_of(program, instruction)
    if found is None or found.flops <= 0:
        return None
    rate = attention_rate(found, machine)
    if not found.fused:
        rate *= 0.35
    moved = _bytes(program, instruction) / machine.memory_rate
    seconds = _START_S + max(found.flops / rate, moved)
    reach = machine.scalars.attention.reach + _REACH
    price = around(seconds, reach, Source.ANALYTIC, Family.ATTENTION, _how(found, rate, machine))
    if found.mask != "unknown":
        return price
    return Price(seconds, price.low, seconds * _GUESSED_MASK, price.source, price.family, price.how)


def _how(found: Attention, rate: float, machine: Machine) -> str:
    share = rate / machine.peak(found.dtype)
    return f"{found}, {rate / 1e12:.0f} TFLOP/s, {share:.0%} of peak"


def attention_rate(found: Attention, machine: Machine) -> float:
    """FLOP/s that its kernel reaches."""
    direction = "backward" if found.backward else "forward"
    long = _BACKWARD_LONG if found.backward else _HOPPER_LONG
    shape = _curve(direction, found) / long
    rate = machine.peak("bf16") * machine.attention(direction) * shape
    if found.dtype == "f8":
        rate *= machine.attention("f8")
    # Fewer heads than cores leave cores idle: a block is 128 queries of one head.
    blocks = found.batch * found.heads * -(-found.queries // 128)
    filled = min(1.0, blocks / machine.cores)
    return rate * filled * machine.scalars.attention.value * machine.scalars.matmul.value


def _curve(direction: str, found: Attention) -> float:
    """TFLOP/s on H100 by sequence, head size and mask."""
    causal = found.mask in {"causal", "unknown"}
    full = _by_head(direction, "full", found)
    if not causal:
        return full
    # Only forward was published with the mask: it costs backward the same share.
    return full * _by_head("forward", "causal", found) / _by_head("forward", "full", found, "128")


def _by_head(direction: str, mask: str, found: Attention, instead: str = "") -> float:
    table: dict[str, list[float]] = _published()[direction][mask]
    sizes = sorted(int(size) for size in table)
    if mask == "causal" or instead:
        size = 256 if found.head > 192 else 128
    else:
        size = min(sizes, key=lambda it: abs(math.log(it / max(1, found.head))))
    value = _along(table.get(str(size), table["128"]), found.keys)
    # Heads below 64 fill the matrix units less.
    return value * min(1.0, found.head / 64)


def _along(values: Sequence[float], length: float) -> float:
    axis: list[int] = _published()["sequence"]
    place = math.log2(max(1.0, length) / axis[0])
    if place <= 0:
        return values[0] * max(0.15, 2**place)
    low = min(int(place), len(values) - 2)
    share = min(place - low, 1.0)
    return values[low] * (1 - share) + values[low + 1] * share


@cache
def _published() -> dict[str, Any]:
    file = resources.files("counterpoint.cost.compute").joinpath("attention.toml")
    return tomllib.loads(file.read_text("utf-8"))


def _bytes(program: Program, instruction: Instruction) -> int:
    read = sum(it.shape.bytes for it in program.operands(instruction))
    return read + sum(it.bytes for it in instruction.shape.leaves if it.dtype not in ("u8", "s8"))
