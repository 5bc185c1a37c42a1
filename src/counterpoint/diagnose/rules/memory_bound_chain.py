"""Memory-bound kernels pass large buffers to each other through memory.

## What it does

Finds chains of memory-bound kernels (elementwise work, reductions, the small products of attention)
in which one writes a buffer of more than 64 MiB, which most chips' caches don't hold, and the next
reads it. Reports their time,
the rate at which they move data, and the saving of a single kernel for the chain.

## Why it costs time

Such a kernel takes as long as its bytes. XLA fuses elementwise work, but not across a reduction
whose result all elements need (softmax, norms), nor a product with its surroundings: attention
written in jnp writes and reads its scores, quadratic in the sequence length, many times.

## How it is detected

The rule uses the HLO, with the bytes and operations of each kernel, and the chip's rates: a kernel
is memory-bound if its bytes take longer than its operations. Two kernels of one part of the step
(forward; backward with its recomputation) form a chain if one reads more than 64 MiB from the
other. The saving is at most each kernel's time in proportion to the bytes that it passes on. A
chain with batched products is attention; its saving is at most its time minus that of a flash
attention kernel.

## Example

```python
scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
probabilities = jax.nn.softmax(scores.astype(jnp.float32)).astype(jnp.bfloat16)
mixed = jnp.einsum("bhqk,bkhd->bqhd", probabilities, v)
```

## Fix

Attention: `jax.nn.dot_product_attention(q, k, v, implementation="cudnn")`, Transformer Engine's or
a Pallas kernel. Norms: a Pallas or Transformer Engine kernel, cuDNN's layer norm. A loss over a
large vocabulary: compute it in parts over the tokens.

## Fix safety

Sums are computed in another order, so results differ in the last bits. Flash kernels support
certain head sizes only.

## False alarms

There may be no fused kernel for the computation. A chain that already moves data at the memory's
rate is still a chain: it moves too many bytes.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html
- https://arxiv.org/abs/2205.14135 (FlashAttention)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise, chip_of, gpu_machine, is_nvidia
from counterpoint.diagnose.executed_ops import (
    ExecutedOp,
    evidence_of,
)
from counterpoint.diagnose.finding import Finding, Remedy, bytes_text, ms_text
from counterpoint.diagnose.kernel_chains import KernelChain, chains
from counterpoint.diagnose.step_data import StepData, place_of

if TYPE_CHECKING:
    from counterpoint.hardware.chip import Chip


CODE: Final = "STEP503"
NAME: Final = "memory-bound-chain"
SINCE: Final = "0.1"

_ATTENTION: Final = "attention"
_LEAST_SHARE: Final = 0.02
"""Minimum saving as a share of the step: writing a kernel is work."""
_MOST: Final = 3
_FLASH_RATE: Final = 0.5
"""Share of a chip's bf16 rate that flash attention reaches where no kernel was measured."""


@dataclass(frozen=True, slots=True, eq=False)
class _ChainKind:
    """Chains of one kind, over all layers."""

    name: str
    chains: tuple[KernelChain, ...]

    @property
    def members(self) -> list[ExecutedOp]:
        by_id = {id(kernel): kernel for chain in self.chains for kernel in chain.members}
        return sorted(by_id.values(), key=lambda kernel: -kernel.ms)


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding for each of the three most costly kinds of chain."""
    chip = chip_of(data)
    if chip is None or not data.step_ms:
        return
    candidates = [(kind, _saves(data, kind, chip)) for kind in _sorts(chains(data, chip))]
    relevant = [
        candidate for candidate in candidates if candidate[1].high > _LEAST_SHARE * data.step_ms
    ]
    relevant.sort(key=lambda candidate: -candidate[1].high)
    for kind, saves in relevant[:_MOST]:
        yield _finding(data, kind, saves, chip)


def _finding(data: StepData, kind: _ChainKind, saves: Range, chip: Chip) -> Finding:
    members = kind.members
    ms = sum(kernel.ms for kernel in members)
    moved = sum(kernel.row["bytes_accessed"] * kernel.row["count"] for kernel in members)
    handed = sum(chain.handed_ms for chain in kind.chains)
    rate = moved / ms * 1e3
    what = "attention" if kind.name == _ATTENTION else kind.name
    moving = f"at {rate / 1e12:,.2f} TB/s ({rate / chip.hbm_bytes:.0%} of {chip.name}'s)"
    if data.basis is Basis.PREDICTED:
        moving = f"priced at {rate / 1e12:,.2f} TB/s"
    return Finding(
        code=CODE,
        title=f"kernels that move {what} through memory take {ms_text(ms)} per step",
        detail=(
            f"{counted_noun(len(members), 'kernel')} in {counted_noun(len(kind.chains), 'chain')}"
            f" move {bytes_text(moved)} per step {moving}; for {ms_text(handed)} of it one kernel"
            f" writes what the next reads, such as {_pair(kind.chains[0])}"
        ),
        saves_ms=saves,
        takes_ms=ms,
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence_of(data, members),
        remedy=_remedy(data, kind),
    )


def _sorts(chains: Sequence[KernelChain]) -> list[_ChainKind]:
    sorts: dict[str, list[KernelChain]] = {}
    for chain in chains:
        sorts.setdefault(_sort(chain), []).append(chain)
    return [_ChainKind(name, tuple(group)) for name, group in sorts.items()]


def _sort(chain: KernelChain) -> str:
    """Return the kind of a chain: attention, or the source line that takes most of it."""
    if _is_attention(chain):
        return _ATTENTION
    row = chain.members[0].row
    source = row["source"]
    if source:
        path, _, line = source.rpartition(":")
        return f"the results of {PurePath(path).name}:{line}"
    return f"the results of {row['scope']}" if row["scope"] else "intermediate results"


def _is_attention(chain: KernelChain) -> bool:
    """Return whether the chain has batched products next to a softmax.

    Low-rank products and experts have no such reduction.
    """
    from counterpoint.cost.compute.gemm import gemms

    products = [kernel for kernel in chain.members if kernel.row["category"] == "matmul"]
    batched = any(
        gemm.batch > 1 for kernel in products for gemm in gemms(kernel.program, kernel.instruction)
    )
    return batched and any(kernel.row["category"] == "reduction" for kernel in chain.members)


def _saves(data: StepData, kind: _ChainKind, chip: Chip) -> Range:
    if kind.name != _ATTENTION:
        return Range(0.0, sum(chain.handed_ms for chain in kind.chains))
    machine = gpu_machine(data)
    shared = machine.kernels.attention.backward if machine else _FLASH_RATE
    flops = sum(
        (kernel.row["flops"] or 0.0) * kernel.row["count"]
        for kernel in kind.members
        if kernel.row["category"] == "matmul"
    )
    fused_ms = flops / (chip.bf16_flops * shared) * 1e3
    return Range(0.0, max(0.0, sum(kernel.ms for kernel in kind.members) - fused_ms))


def _pair(chain: KernelChain) -> str:
    first = max(chain.handovers, key=lambda handover: handover.ms)
    return (
        f"{place_of(first.writer.row)} for {first.reader.row['op']} ({first.bytes / 1e6:,.0f} MB)"
    )


def _remedy(data: StepData, kind: _ChainKind) -> Remedy:
    if kind.name == _ATTENTION:
        return advise(data, f"use a flash attention kernel: {_flash(data)}")
    words = " ".join(str(kernel.row["scope"]).lower() for kernel in kind.members)
    if "norm" in words and is_nvidia(data):
        return advise(
            data,
            "use one kernel for the norm: Transformer Engine's, one in Pallas, or cuDNN's",
            {"xla_gpu_enable_cudnn_layer_norm": "true"},
        )
    return advise(
        data,
        "use one kernel for the chain (Pallas, Triton), or move less: bfloat16 instead of float32,"
        " a loss in parts over the tokens",
    )


def _flash(data: StepData) -> str:
    if is_nvidia(data):
        cudnn = 'jax.nn.dot_product_attention(..., implementation="cudnn")'
        return f"{cudnn}, Transformer Engine's, or one in Pallas"
    if {device.kind for device in data.timeline.devices} == {"tpu"}:
        return "splash attention (jax.experimental.pallas.ops.tpu.splash_attention)"
    return "Transformer Engine's, or one in Pallas"
