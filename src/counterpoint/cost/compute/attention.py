"""Prices fused attention: operations by shape and mask, at the rates such kernels reach."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, cast

from counterpoint.cost.compute.backend_settings import settings_of
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice

_BACKWARD: Final = re.compile(r"backward|bwd|grad|dkv|_dq|transpose\(", re.IGNORECASE)
_FORWARD: Final = re.compile(r"forward|fwd", re.IGNORECASE)
_CAUSAL: Final = re.compile(r"causal", re.IGNORECASE)
_TE_MASKS: Final = {0: "none", 1: "none", 2: "causal", 3: "causal", 4: "causal", 5: "causal"}
"""NVTE_Mask_Type: none, padding, causal, padding and causal, both from the bottom right."""
_BACKWARD_PRODUCTS: Final = 2.5
"""Backward has five matrix products to forward's two."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: softmax(Q K^T) V for each of `heads`, or its gradient."""

    batch: int
    heads: int
    queries: int
    keys: int
    head: int  # elements of one head
    value_head: int
    backward: bool
    mask: str  # "none", "causal", "unknown"
    dtype: str
    window: int = 0  # maximum keys that a query sees; 0 for all
    products: float = _BACKWARD_PRODUCTS  # of a backward pass, relative to forward
    fused: bool = True

    @property
    def flops(self) -> float:
        """Number of operations that the mask leaves."""
        whole = 2.0 * self.batch * self.heads * self.queries * self.keys
        whole *= self.head + self.value_head
        return whole * self._seen() * (self.products if self.backward else 1.0)

    def _seen(self) -> float:
        causal = 1.0
        if self.mask in ("causal", "unknown"):
            causal = 0.5 if self.keys <= self.queries else 1 - self.queries / self.keys / 2
        if 0 < self.window < self.keys:
            return min(causal, self.window / self.keys)
        return causal

    def __str__(self) -> str:
        direction = "backward" if self.backward else "forward"
        mask = {"none": "", "causal": " causal", "unknown": " assumed causal"}[self.mask]
        sizes = f"{self.batch}x{self.heads} heads of {self.head}, {self.queries}x{self.keys}"
        return f"attention {direction}{mask} {sizes} {self.dtype}"


def attention_of(program: Program, instruction: Instruction) -> Attention | None:
    """Return the Attention; None if neither settings nor operands describe it.

    cuDNN calls of XLA and Transformer Engine state sizes, direction and mask in their settings;
    user kernels (Pallas, Triton, Mosaic) reveal them only by their operands and name.
    """
    config = settings_of(instruction)
    inner = config.get("cudnn_fmha_backend_config")
    if isinstance(inner, dict):
        return _cudnn(program, instruction, cast(dict[str, Any], inner))
    if "attn_heads" in config and "head_dim" in config:
        return _transformer_engine(program, instruction, config)
    return _by_operands(program, instruction)


def _cudnn(program: Program, instruction: Instruction, config: dict[str, Any]) -> Attention | None:
    read = _arrays(program, instruction)
    try:
        dims: Any = config["intermediate_tensor_shape"]["dimensions"]
        batch, heads, queries, keys = (int(dim) for dim in dims)
        window = int(config.get("sliding_window_length") or 0)
    except (KeyError, TypeError, ValueError):
        return _by_operands(program, instruction)
    if len(read) < 3:
        return None
    mask = str(config.get("mask_type", "NO_MASK"))
    return Attention(
        batch, heads, queries, keys, read[0].dims[-1], read[2].dims[-1],
        "Backward" in instruction.custom_call_target,
        "causal" if "CAUSAL" in mask else "none",
        _type(read[0]),
        window,
        fused=bool(config.get("is_flash_attention", True)),
    )  # fmt: skip


def _transformer_engine(
    program: Program, instruction: Instruction, config: dict[str, Any]
) -> Attention | None:
    read = _arrays(program, instruction)
    try:
        heads, head = int(config["attn_heads"]), int(config["head_dim"])
        queries = int(config["q_max_seqlen"])
        keys = int(config.get("kv_max_seqlen", queries))
        batch = int(config["input_batch"])
    except (KeyError, TypeError, ValueError):
        return _by_operands(program, instruction)
    mask_type: Any = config.get("mask_type", 2)
    mask = _TE_MASKS.get(mask_type, "unknown") if isinstance(mask_type, int) else "unknown"
    left: Any = config.get("window_size_left", -1)
    return Attention(
        batch, heads, queries, keys, head, int(config.get("v_head_dim", head)),
        bool(_BACKWARD.search(instruction.custom_call_target)), mask,
        _type(read[0]) if read else "bf16",
        left + 1 if isinstance(left, int) and left >= 0 else 0,
    )  # fmt: skip


def _by_operands(program: Program, instruction: Instruction) -> Attention | None:
    """Take the first operands with heads as Q, K and V."""
    read = [array for array in _arrays(program, instruction) if len(array.dims) >= 3]
    if len(read) < 2 or len(read[0].dims) != len(read[1].dims):
        return None
    query, key = read[0], read[1]
    head = query.dims[-1]
    # [batch, heads, sequence, head] or [batch, sequence, heads, head]: sequences are longer.
    queries, keys = max(query.dims[-3:-1]), max(key.dims[-3:-1])
    rows = query.elements // (head * queries) if head and queries else 0
    if rows < 1 or queries < 16 or head > 1024:
        return None
    description = f"{instruction.name} {instruction.custom_call_target} {instruction.op_name}"
    mask = (
        "causal" if _CAUSAL.search(description + instruction.backend_config[:4096]) else "unknown"
    )
    return Attention(
        1, rows, queries, keys, head, head, _is_backward(instruction), mask, _type(query),
        products=_kernel_products(description),
    )  # fmt: skip


def _is_backward(instruction: Instruction) -> bool:
    """Return whether the kernel computes a gradient, by its own name before the place it is in.

    Recomputation runs forward kernels in the backward pass.
    """
    own = f"{instruction.name} {instruction.custom_call_target}"
    if _FORWARD.search(own) and not _BACKWARD.search(own):
        return False
    return bool(_BACKWARD.search(f"{own} {instruction.op_name}"))


def _kernel_products(description: str) -> float:
    """Return the products of user kernels, which compute dQ separately from dK and dV.

    Each multiplies Q by K again.
    """
    if re.search(r"dkv", description):
        return 2.0
    return 1.5 if re.search(r"_dq", description) else _BACKWARD_PRODUCTS


def _arrays(program: Program, instruction: Instruction) -> list[Shape]:
    shapes = [operand.shape for operand in program.operands(instruction)]
    return [shape for shape in shapes if shape.dtype.startswith(("f", "bf")) and shape.dims]


def _type(shape: Shape) -> str:
    if shape.dtype in ("bf16", "f16", "f32"):
        return "bf16" if shape.dtype == "bf16" else "f16" if shape.dtype == "f16" else "tf32"
    return "f8"


_START_S: Final = 4e-6
_REACH: Final = 0.15
_GUESSED_MASK: Final = 1.9
"""If causality is unknown: price as causal, up to twice as much."""
_HOPPER_LONG: Final = 604.0
"""Forward, no mask, heads of 128, long sequences: reference of the shares in kernels.py."""
_BACKWARD_LONG: Final = 517.0


def price_attention(
    program: Program, instruction: Instruction, machine: ComputeDevice
) -> Price | None:
    """Price attention; None if its shapes are unknown."""
    attention = attention_of(program, instruction)
    if attention is None or attention.flops <= 0:
        return None
    rate = attention_rate(attention, machine)
    if not attention.fused:
        rate *= 0.35
    moved = _bytes(program, instruction) / machine.memory_rate
    seconds = _START_S + max(attention.flops / rate, moved)
    reach = machine.scalars.attention.reach + _REACH
    price = price_around(
        seconds, reach, PriceSource.ANALYTIC, PriceFamily.ATTENTION, _how(attention, rate, machine)
    )
    if attention.mask != "unknown":
        return price
    return Price(seconds, price.low, seconds * _GUESSED_MASK, price.source, price.family, price.how)


def _how(attention: Attention, rate: float, machine: ComputeDevice) -> str:
    share = rate / machine.peak(attention.dtype)
    return f"{attention}, {rate / 1e12:.0f} TFLOP/s, {share:.0%} of peak"


def attention_rate(attention: Attention, machine: ComputeDevice) -> float:
    """Return the FLOP/s that its kernel reaches."""
    direction = "backward" if attention.backward else "forward"
    long = _BACKWARD_LONG if attention.backward else _HOPPER_LONG
    shape = _curve(direction, attention) / long
    kernels = machine.kernels.attention
    share = kernels.backward if attention.backward else kernels.forward
    rate = machine.peak("bf16") * share * shape
    if attention.dtype == "f8":
        rate *= kernels.f8
    # Fewer heads than cores leave cores idle: a block is 128 queries of one head.
    blocks = attention.batch * attention.heads * -(-attention.queries // 128)
    filled = min(1.0, blocks / machine.cores)
    return rate * filled * machine.scalars.attention.value * machine.scalars.matmul.value


def _curve(direction: str, attention: Attention) -> float:
    """Return TFLOP/s on H100 by sequence, head size and mask."""
    causal = attention.mask in {"causal", "unknown"}
    full = _by_head(direction, "full", attention)
    if not causal:
        return full
    # Masked rates are published only for forward: backward is assumed to have the same ratio.
    return (
        full
        * _by_head("forward", "causal", attention)
        / _by_head("forward", "full", attention, "128")
    )


def _by_head(direction: str, mask: str, attention: Attention, instead: str = "") -> float:
    table: dict[str, list[float]] = _published()[direction][mask]
    sizes = sorted(int(size) for size in table)
    if mask == "causal" or instead:
        size = 256 if attention.head > 192 else 128
    else:
        size = min(sizes, key=lambda known_size: abs(math.log(known_size / max(1, attention.head))))
    value = _along(table.get(str(size), table["128"]), attention.keys)
    # Heads below 64 do not fill the matrix units.
    return value * min(1.0, attention.head / 64)


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
    read = sum(operand.shape.bytes for operand in program.operands(instruction))
    return read + sum(
        value.bytes for value in instruction.shape.leaves if value.dtype not in ("u8", "s8")
    )
