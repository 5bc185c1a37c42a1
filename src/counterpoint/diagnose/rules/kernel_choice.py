"""Libraries run kernels for which better ones are known.

## What it does

Recognizes kernels by their names that a library or framework chose because of how it was called,
although faster ones exist for the chip: products of unaligned arrays, flash attention of an older
generation, a softmax or elementwise ops in kernels of their own.

## Why it costs time

Matrix units need rows that begin at multiples of 16 bytes; for others, libraries have kernels that
load single elements, at a fraction of the rate. A softmax between two products moves the whole
matrix of scores through memory, as does each elementwise kernel that is not fused.

## How it is detected

The name of a kernel's own function tells it, such as `cutlass_75_tensorop_..._align1`,
`cunn_SoftMaxForward` or `flash_fwd_kernel`. Generations are compared only where the chip is known,
or where other kernels of the profile show what it is. The rule looks at no program that XLA
compiled elementwise: STEP502 and STEP503 know its shapes.

## Example

```python
logits = hidden @ embedding.T  # with a vocabulary of 50,257
```

## Fix

Pad dimensions to multiples of 64 (a vocabulary, a number of classes, patches); use fused attention;
compile the program, so that elementwise ops are fused.

## Fix safety

Padded entries need a mask. Fused kernels round in other places.

## False alarms

What a better kernel would take is not in the profile: the upper bound is a rule of thumb. A softmax
over a vocabulary is no attention; it can be fused with the loss.

## References

- https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
- https://arxiv.org/abs/2407.08608
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise, chip_of, on_gpu
from counterpoint.diagnose.executed_ops import rows_as_evidence
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.kernel_names import function_of, kernel_label
from counterpoint.timeline.model import Lane

CODE: Final = "STEP511"
NAME: Final = "kernel-choice"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.03

_HOPPER: Final = "hopper"
_OF_HOPPER: Final = re.compile(r"\bsm90_|_sm90_")
"""Kernels that run on Hopper alone."""


@dataclass(frozen=True, slots=True)
class KernelKind:
    """Kernels with a better alternative, and the share of their time that it could save."""

    title: str
    pattern: re.Pattern[str]
    why: str
    remedy: str
    most: float  # of their time
    only_on: str | None = None  # an architecture


_KINDS: Final = (
    KernelKind(
        "products of unaligned arrays",
        re.compile(r"gemm\w*_align[12](?!\d)"),
        "libraries use such kernels where rows do not begin at multiples of 16 bytes",
        "pad the dimensions of these products to multiples of 64 elements, at least of 8 (a"
        " vocabulary, a number of classes or tokens), and keep slices aligned",
        0.75,
    ),
    KernelKind(
        "older flash attention kernels",
        re.compile(r"\bflash_(?:fwd|bwd)\w*kernel\b|native_sdpa_sm80_"),
        "these kernels are written for compute capability 8.0, and the chip has 9.0, whose matrix"
        " units they do not use",
        "use FlashAttention-3, or cuDNN's attention for compute capability 9.0"
        ' (jax.nn.dot_product_attention(..., implementation="cudnn"))',
        0.5,
        only_on=_HOPPER,
    ),
    KernelKind(
        "separate softmax kernels",
        re.compile(r"(?i)\bcunn_softmax(?:forward|backward)|\bsoftmax_warp_(?:forward|backward)"),
        "the scores go through memory before and after each",
        "in attention, use a fused kernel (scaled_dot_product_attention, FlashAttention), which"
        " never writes the scores; over a vocabulary, fuse it with the loss",
        1.0,
    ),
    KernelKind(
        "separate elementwise kernels",
        re.compile(r"\bat::native::.*elementwise_kernel"),
        "each reads and writes whole arrays",
        "compile the model (torch.compile), or use fused kernels, so that chains of them become one"
        " kernel",
        0.5,
    ),
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding for each kind."""
    if not on_gpu(data) or data.basis is Basis.PREDICTED:
        return
    rows = data.ops.filter(pl.col("lane") == Lane.COMPUTE).rows(named=True)
    named = [(row, function_of(str(row["op"]))) for row in rows]
    for kind in _KINDS:
        own = [row for row, function in named if kind.pattern.search(function)]
        total = sum(float(row["self_ms"]) for row in own)
        if total <= _LEAST_SHARE * data.step_ms:
            continue
        if kind.only_on is None or kind.only_on == _architecture(data):
            yield _finding(data, kind, own, total)


def _finding(data: StepData, kind: KernelKind, rows: list[dict[str, Any]], total: float) -> Finding:
    first = max(rows, key=lambda row: float(row["self_ms"]))
    count = sum(float(row["count"]) for row in rows)
    return Finding(
        code=CODE,
        title=f"{kind.title} take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(round(count), 'call')} of {counted_noun(len(rows), 'kernel')}, first"
            f" {kernel_label(str(first['op']))}, {ms_text(float(first['self_ms']))}: {kind.why}"
        ),
        saves_ms=Range(0.0, kind.most * total),
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=rows_as_evidence(data, rows),
        remedy=advise(data, kind.remedy),
        doubt="what a better kernel would take is not in the profile",
    )


def _architecture(data: StepData) -> str | None:
    """Return the architecture of the chip, or the one that alone runs kernels of the profile."""
    chip = chip_of(data)
    if chip is not None:
        return chip.architecture
    names = data.ops["op"].to_list()
    return _HOPPER if any(_OF_HOPPER.search(str(name)) for name in names) else None
