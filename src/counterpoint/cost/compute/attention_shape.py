"""What attention an instruction computes: sizes, direction and mask.

cuDNN's calls by XLA and Transformer Engine's say them in their settings; kernels of users (Pallas,
Triton, Mosaic) only by their operands and name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, cast

from counterpoint.cost.compute.settings_of import settings_of
from counterpoint.hlo import Instruction, Program, Shape

_BACKWARD: Final = re.compile(r"backward|bwd|grad|dkv|_dq|transpose\(", re.IGNORECASE)
_CAUSAL: Final = re.compile(r"causal", re.IGNORECASE)
_TE_MASKS: Final = {0: "none", 1: "none", 2: "causal", 3: "causal", 4: "causal", 5: "causal"}
"""NVTE_Mask_Type: none, padding, causal, padding and causal, both from the bottom right."""
_BACKWARD_PRODUCTS: Final = 2.5
"""Five products of matrices where forward has two."""


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
    window: int = 0  # keys that a query sees at most; 0 where all
    products: float = _BACKWARD_PRODUCTS  # of a backward pass, in forward passes
    fused: bool = True

    @property
    def flops(self) -> float:
        """Operations that the mask leaves."""
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
        mask = {"none": "", "causal": " causal", "unknown": " taken for causal"}[self.mask]
        sizes = f"{self.batch}x{self.heads} heads of {self.head}, {self.queries}x{self.keys}"
        return f"attention {direction}{mask} {sizes} {self.dtype}"


def attention_of(program: Program, instruction: Instruction) -> Attention | None:
    """None where neither settings nor operands tell."""
    config = settings_of(instruction)
    inner = config.get("cudnn_fmha_backend_config")
    if isinstance(inner, dict):
        return _cudnn(program, instruction, cast(dict[str, Any], inner))
    if "attn_heads" in config and "head_dim" in config:
        return _transformer_engine(program, instruction, config)
    return _by_operands(program, instruction)


def _cudnn(program: Program, it: Instruction, config: dict[str, Any]) -> Attention | None:
    read = _arrays(program, it)
    try:
        dims: Any = config["intermediate_tensor_shape"]["dimensions"]
        batch, heads, queries, keys = (int(dim) for dim in dims)
        window = int(config.get("sliding_window_length") or 0)
    except (KeyError, TypeError, ValueError):
        return _by_operands(program, it)
    if len(read) < 3:
        return None
    mask = str(config.get("mask_type", "NO_MASK"))
    return Attention(
        batch, heads, queries, keys, read[0].dims[-1], read[2].dims[-1],
        "Backward" in it.custom_call_target,
        "causal" if "CAUSAL" in mask else "none",
        _type(read[0]),
        window,
        fused=bool(config.get("is_flash_attention", True)),
    )  # fmt: skip


def _transformer_engine(
    program: Program, it: Instruction, config: dict[str, Any]
) -> Attention | None:
    read = _arrays(program, it)
    try:
        heads, head = int(config["attn_heads"]), int(config["head_dim"])
        queries = int(config["q_max_seqlen"])
        keys = int(config.get("kv_max_seqlen", queries))
        batch = int(config["input_batch"])
    except (KeyError, TypeError, ValueError):
        return _by_operands(program, it)
    said: Any = config.get("mask_type", 2)
    mask = _TE_MASKS.get(said, "unknown") if isinstance(said, int) else "unknown"
    left: Any = config.get("window_size_left", -1)
    return Attention(
        batch, heads, queries, keys, head, int(config.get("v_head_dim", head)),
        bool(_BACKWARD.search(it.custom_call_target)), mask,
        _type(read[0]) if read else "bf16",
        left + 1 if isinstance(left, int) and left >= 0 else 0,
    )  # fmt: skip


def _by_operands(program: Program, it: Instruction) -> Attention | None:
    """The first operands with heads are taken for Q, K and V."""
    read = [one for one in _arrays(program, it) if len(one.dims) >= 3]
    if len(read) < 2 or len(read[0].dims) != len(read[1].dims):
        return None
    query, key = read[0], read[1]
    head = query.dims[-1]
    # [batch, heads, sequence, head] or [batch, sequence, heads, head]: sequences are longer.
    queries, keys = max(query.dims[-3:-1]), max(key.dims[-3:-1])
    rows = query.elements // (head * queries) if head and queries else 0
    if rows < 1 or queries < 16 or head > 1024:
        return None
    said = f"{it.name} {it.custom_call_target} {it.op_name}"
    mask = "causal" if _CAUSAL.search(said + it.backend_config[:4096]) else "unknown"
    return Attention(
        1, rows, queries, keys, head, head, bool(_BACKWARD.search(said)), mask, _type(query),
        products=_kernel_products(said),
    )  # fmt: skip


def _kernel_products(said: str) -> float:
    """Kernels of users make dQ and dK with dV apart, and multiply Q by K for each."""
    if re.search(r"dkv", said):
        return 2.0
    return 1.5 if re.search(r"_dq", said) else _BACKWARD_PRODUCTS


def _arrays(program: Program, it: Instruction) -> list[Shape]:
    found = [one.shape for one in program.operands(it)]
    return [shape for shape in found if shape.dtype.startswith(("f", "bf")) and shape.dims]


def _type(shape: Shape) -> str:
    if shape.dtype in ("bf16", "f16", "f32"):
        return "bf16" if shape.dtype == "bf16" else "f16" if shape.dtype == "f16" else "tf32"
    return "f8"
