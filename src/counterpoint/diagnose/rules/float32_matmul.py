"""Matrices are multiplied as float32 where bfloat16 would be faster.

## What it does

Lists matrix products with float32 operands, the source lines that request them, and the saving with
bfloat16 operands. Sums and results may stay float32 at no cost.

## Why it costs time

Matrix units run at half the rate on TF32 as on bfloat16, and plain float32 runs on other units at a
fifteenth of it (NVIDIA H100: 989, 495 and 67 TFLOP/s). Operands take twice the memory traffic. It
is usually unintended: one float32 operand (a parameter without a cast, a constant, a mask, the
gradient of a float32 loss) makes the whole product float32.

## How it is detected

The rule reads the types of a dot's two operands in the HLO, also inside fusions and library calls.
On NVIDIA GPUs XLA multiplies float32 as TF32 unless precision HIGHEST (or an algorithm) was
requested; for AMD, libraries are called with plain float32. The product is priced as it is and with
bfloat16 operands; the ratio, applied to the measured time, is the saving: at least this ratio minus
a cast of both operands, at most the ratio of the chip's rates. Products below a thousandth of the
step, such as a router or a loss in float32, are left out. Without HLO, the kernel names of cuBLAS
and CUTLASS are used (`sgemm`, `ffma`, `tf32`, `d884gemm`); then no saving is certain.

## Example

```python
logits = jnp.einsum("btd,vd->btv", x, embedding)   # x is bfloat16, embedding float32
```

## Fix

Cast the operands and keep the sum: `jnp.einsum(..., x, embedding.astype(jnp.bfloat16),
preferred_element_type=jnp.float32)`. Flax: `dtype=jnp.bfloat16, param_dtype=jnp.float32`.

## Fix safety

Numbers change: inputs are rounded to 8 bits. Compare losses over some hundred steps. Logits and
routers may be float32 on purpose.

## False alarms

The precision may be necessary. The rule is silent on TPUs: they multiply float32 in one bfloat16
pass unless configured otherwise, and the profile does not record that.

## References

- https://docs.jax.dev/en/latest/201/precision.html
- https://github.com/openxla/xla/blob/main/xla/service/gpu/matmul_utils.cc (IsTf32Allowed)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise, gpu_machine, is_nvidia
from counterpoint.diagnose.executed_ops import ExecutedOp, executed_ops, rows_as_evidence
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData, place_of

if TYPE_CHECKING:
    from counterpoint.cost.compute.gemm import Gemm
    from counterpoint.cost.compute.machine import ComputeDevice

CODE: Final = "STEP501"
NAME: Final = "float32-matmul"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.001
"""Minimum share of the step for a change of type to be worth it."""
_CAST_BYTES: Final = 6  # an element is read as four bytes and written as two
_TOO_FAST: Final = 1.1
"""Multiple of the type's rate above which it was not multiplied as that type, despite the HLO."""
_SCALED: Final = "; float16 needs a scaled loss, since its range is small"

_HOW: Final = {"tf32": "TF32", "f32": "plain float32", "f64": "float64"}


@dataclass(frozen=True, slots=True, eq=False)
class _WideProduct:
    """A product of wide operands: its multiplication type, and the range of its saving."""

    row: dict[str, Any]
    kind: str
    saves: Range
    shape: str = ""

    @property
    def ms(self) -> float:
        return float(self.row["self_ms"])


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all products."""
    machine = gpu_machine(data)
    if machine is None:
        return
    long = (pl.col("category") == "matmul") & (pl.col("share") > _LEAST_SHARE)
    known = list(executed_ops(data, long))
    wide = [judged for product in known if (judged := _judged(product, machine))]
    wide += _by_kernel(data, data.ops.filter(long), known, machine)
    if not wide:
        return
    wide.sort(key=lambda product: -product.ms)
    total = sum(product.ms for product in wide)
    saves = Range(
        sum(product.saves.low for product in wide), sum(product.saves.high for product in wide)
    )
    hows = " and ".join(dict.fromkeys(_HOW[product.kind] for product in wide))
    # NVIDIA's matrix units take TF32 and bfloat16 since the same generation.
    old = is_nvidia(data) and "tf32" not in machine.flops
    narrow = "float16" if old else "bfloat16"
    width = "float64" if all(product.kind == "f64" for product in wide) else "float32"
    yield Finding(
        code=CODE,
        title=f"products of {width} matrices take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(wide), 'product')}, multiplied as {hows}; the longest is"
            f" {place_of(wide[0].row)}{wide[0].shape}, {ms_text(wide[0].ms)} per step."
            f" {narrow} operands would save {_gain(wide, saves)}"
        ),
        saves_ms=saves,
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=rows_as_evidence(data, (product.row for product in wide)),
        remedy=advise(
            data,
            f"cast the operands to {narrow} and keep the sum in float32:"
            f" preferred_element_type=jnp.float32 (Flax: dtype=jnp.{narrow} with"
            f" param_dtype=jnp.float32){_SCALED if old else ''}",
        ),
        doubt=f"{width} may be intended, for logits or a router: compare losses",
    )


def _gain(wide: Sequence[_WideProduct], saves: Range) -> str:
    if all(product.shape for product in wide):
        low = f"{ms_text(saves.low)} with a cast before each product"
        return f"{low}, up to {ms_text(saves.high)} without"
    return (
        f"up to {ms_text(saves.high)} by the chip's rates; without HLO, shapes and the exact saving"
        " are unknown"
    )


def _judged(kernel: ExecutedOp, machine: ComputeDevice) -> _WideProduct | None:
    from counterpoint.cost.compute.gemm import gemms
    from counterpoint.cost.compute.gemm_price import price_gemm

    products = [_as_run(gemm, machine) for gemm in gemms(kernel.program, kernel.instruction)]
    wide = [gemm for gemm in products if gemm.dtype in ("tf32", "f32")]
    if not wide or len(wide) < len(products):
        return None
    kind = wide[0].dtype
    if sum(gemm.flops for gemm in wide) > _TOO_FAST * machine.peak(kind) * kernel.once_ms / 1e3:
        return None
    current_s = sum(price_gemm(gemm, machine).seconds for gemm in wide)
    narrow_s = sum(price_gemm(replace(gemm, dtype="bf16"), machine).seconds for gemm in wide)
    moved = sum(_CAST_BYTES * gemm.batch * gemm.k * (gemm.m + gemm.n) for gemm in wide)
    cast_ms = moved / machine.memory_rate * 1e3
    times = max(float(kernel.row["count"]), 1.0)
    gain = kernel.ms * max(0.0, 1 - narrow_s / current_s)
    most = max(gain, _most(kernel.ms, kind, machine))
    saves = Range(max(0.0, gain - cast_ms * times), most)
    return _WideProduct(kernel.row, kind, saves, f", {_shape(kernel, machine)}")


def _by_kernel(
    data: StepData, rows: pl.DataFrame, known: Iterable[ExecutedOp], machine: ComputeDevice
) -> Iterator[_WideProduct]:
    """Yield products without HLO that kernel names identify: their shapes are not known."""
    met = {(product.row["program"], product.row["op"]) for product in known}
    for row in rows.iter_rows(named=True):
        if (row["program"], row["op"]) in met:
            continue
        names = data.timeline.ops["name"].gather(data.rows_of(row)).to_list()
        kinds = {multiplied_as(str(name)) for name in names}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is not None:
            yield _WideProduct(row, kind, Range(0.0, _most(float(row["self_ms"]), kind, machine)))


def _most(ms: float, kind: str, machine: ComputeDevice) -> float:
    """Return the largest saving by the chip's rates."""
    return ms * max(0.0, 1 - machine.peak(kind) / machine.peak("bf16"))


def _as_run(gemm: Gemm, machine: ComputeDevice) -> Gemm:
    # XLA uses the matrix units for float32 on NVIDIA's chips that have TF32, and not on AMD's.
    tensor = machine.vendor == "NVIDIA" and "tf32" in machine.flops
    return gemm if tensor or gemm.dtype != "tf32" else replace(gemm, dtype="f32")


def _shape(kernel: ExecutedOp, machine: ComputeDevice) -> str:
    from counterpoint.cost.compute.gemm import gemms

    return " and ".join(
        str(_as_run(gemm, machine)) for gemm in gemms(kernel.program, kernel.instruction)
    )


_TYPES: Final = (
    (re.compile(r"[bh]f?16|fp16|f16f16|bf16|e4m3|e5m2|s8|i8"), None),
    (re.compile(r"d884|(?<![a-z])dgemm|f64f64|simt_d"), "f64"),
    (re.compile(r"tf32|s1688gemm"), "tf32"),
    (re.compile(r"ffma|(?<![a-z])sgemm|gemm_f32f32_f32f32|simt_s"), "f32"),
)
"""The first match wins: a name with a narrow type is not searched further."""


def multiplied_as(kernel: str) -> str | None:
    """Return the type a kernel multiplies in: `f64`, `f32`, `tf32`, or None.

    This is read from the kernel names of cuBLAS and CUTLASS: `ampere_sgemm_128x64_tn` and
    `..._ffma_...` multiply float32 on the scalar units, `tf32` and `s1688gemm` TF32 on the matrix
    units, `d884gemm` and `dgemm` float64. None means an unknown or a 16-bit or narrower type.
    """
    name = kernel.lower()
    return next((kind for mark, kind in _TYPES if mark.search(name)), None)
