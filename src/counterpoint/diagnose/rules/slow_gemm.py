"""Matrix products take longer than products of their shape do on this chip.

## What it does

Compares each matrix product with the time of a good kernel for its shape and type, and lists those
far behind, with shapes and source lines. On TPUs, it compares every operation that XLA estimates.
It also compares large products of as many FLOPs and one type with each other: if some are slower
than the fastest of them, a second finding tells what that costs.

## Why it costs time

A library chooses one of many kernels. A choice without autotuning, dimensions that are no multiple
of the matrix unit's, or rows that are not aligned to 16 bytes cost a factor, not a few percent.

## How it is detected

The measure is not the chip's peak, which small or flat products never reach, but the cost model,
which counts tiles in waves over the cores, and memory traffic if that is slower. A product is slow
if it exceeds 1.5 times the model's upper bound. On TPUs, each operation that XLA estimates
(fusions, products, copies) is compared with the price of `predict`, which is XLA's estimate where
the HLO has one; it is slow if it takes more than twice as long. Products that overlap a collective
for more than a tenth of their time are left out, because it takes cores from them, and so are
predictions, whose times come from the model itself. Products of equal size are compared by the
times in the profile alone, which needs no known chip; a product that takes 1.15 times as long as
the fastest of its kind counts, unless it is in the first finding.

## Example

```python
logits = x @ head      # [8192, 4096] x [4096, 50257]: an odd vocabulary
```

## Fix

Pad dimensions to multiples of 64, at least of 8 for bfloat16; let XLA autotune (level 4 is the
default), also between cuBLASLt and Triton. TPUs multiply in tiles of 128 or 256, and float32 at
precision HIGHEST in six passes.

## Fix safety

Padding changes no result if the padded part is masked. Autotuning takes compile time.

## False alarms

The chip may run below its clock (power, heat) or do other work, or a fused epilogue may read much
more than the operands.

## References

- https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/
- https://openxla.org/xla/persisted_autotuning
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.collectives.collectives import shares_beside
from counterpoint.diagnose.environment import advise, chip_of, gpu_machine, on_virtual_devices
from counterpoint.diagnose.executed_ops import ExecutedOp, evidence_of, executed_ops
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of

if TYPE_CHECKING:
    from counterpoint.cost.compute.gemm import Gemm
    from counterpoint.cost.model import Price
    from counterpoint.hardware.chip import Chip

CODE: Final = "STEP502"
NAME: Final = "slow-gemm"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.001  # of the step
_SLOW: Final = 1.5
"""Multiple of the model's upper bound. In a public profile on A100 (NVIDIA/JAX-Toolbox, Pax) 200
products of 22 shapes undisturbed by collectives are all below 1.2.
"""
_UNEQUAL: Final = 1.15
"""Multiple of the fastest product of its size from which on another one is slower."""
_WORTH: Final = 0.02  # of the step
_LONG: Final = 512
"""Elements in each dimension from which on a product is bound by arithmetic on any chip."""
_IN_COMPANY: Final = 0.1
_ALIGNED: Final = 8
"""Elements of 16 bits in 16 bytes: below, cuBLAS can't use its matrix units well."""
_ESTIMATED: Final = ("matmul", "elementwise", "reduction", "copy")
"""Categories of the operations that XLA estimates on TPUs."""


@dataclass(frozen=True, slots=True, eq=False)
class _SlowProduct:
    """A slow product, and the expected time of its shape."""

    ran: ExecutedOp
    gemms: tuple[Gemm, ...]
    price: Price

    @property
    def times(self) -> float:
        return self.ran.once_ms / (self.price.seconds * 1e3)

    @property
    def saves(self) -> Range:
        count = max(float(self.ran.row["count"]), 1.0)
        return Range(
            max(0.0, self.ran.ms - self.price.high * 1e3 * count),
            max(0.0, self.ran.ms - self.price.low * 1e3 * count),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Slower:
    """A product, and the fastest of its size."""

    ran: ExecutedOp
    best: ExecutedOp

    @property
    def lost_ms(self) -> float:
        return self.ran.ms * (1 - self.best.once_ms / self.ran.once_ms)


_Compared = TypeVar("_Compared", _SlowProduct, _Slower)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most two findings; a prediction's times are the model's own."""
    if data.basis is Basis.PREDICTED:
        return
    chip = chip_of(data)
    slow = _alone(data, list(_slow(data, chip))) if chip else []
    if chip is not None and slow:
        yield _behind_the_model(data, chip, slow)
    yield from _unequal(data, {(op.ran.row["program"], op.ran.row["op"]) for op in slow})


def _behind_the_model(data: StepData, chip: Chip, slow: list[_SlowProduct]) -> Finding:
    slow.sort(key=lambda product: -product.saves.high)
    total = sum(product.ran.ms for product in slow)
    saves = Range(
        sum(product.saves.low for product in slow), sum(product.saves.high for product in slow)
    )
    first = slow[0]
    what, noun = "matrix products slower than expected for their shapes", "product"
    if not all(product.gemms for product in slow):
        what, noun = "operations slower than XLA estimates", "operation"
    return Finding(
        code=CODE,
        title=f"{what} take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(slow), noun)}; {place_of(first.ran.row)}, {_shapes(first)}, takes"
            f" {first.ran.once_ms:,.3f} ms, {first.times:.1f} times as long as expected on"
            f" {chip.name} ({first.price.low * 1e3:,.3f} to {first.price.high * 1e3:,.3f} ms)"
        ),
        saves_ms=saves,
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence_of(data, (product.ran for product in slow)),
        remedy=_remedy(data, slow),
        doubt="a chip below its nominal clock slows all products alike",
    )


def _unequal(data: StepData, told: set[tuple[int, str]]) -> Iterator[Finding]:
    """Yield a finding for products that are slower than others of their size and type."""
    if on_virtual_devices(data.timeline):  # they take cores from each other
        return
    long = (pl.col("category") == "matmul") & (pl.col("share") > _LEAST_SHARE)
    alike: dict[object, list[ExecutedOp]] = {}
    for product in executed_ops(data, long & (pl.col("flops") > 0)):
        size = _size(product)
        if size is not None and (product.row["program"], product.row["op"]) not in told:
            alike.setdefault(size, []).append(product)
    slower: list[_Slower] = []
    for products in alike.values():
        best = min(products, key=lambda product: product.once_ms)
        slow = [it for it in products if it.once_ms > _UNEQUAL * best.once_ms]
        slower += [_Slower(it, best) for it in slow]
    slower = sorted(_alone(data, slower), key=lambda it: -it.lost_ms)
    lost = sum(it.lost_ms for it in slower)
    if not slower or lost <= _WORTH * data.step_ms:
        return
    first = slower[0]
    flops = float(first.ran.row["flops"])
    yield Finding(
        code=CODE,
        title=f"matrix products of equal size at unequal rates lose {ms_text(lost)} per step",
        detail=(
            f"{counted_noun(len(slower), 'product')}; of {flops / 1e9:,.3g} GFLOP,"
            f" {place_of(first.ran.row)} takes {first.ran.once_ms:,.3f} ms"
            f" ({flops / first.ran.once_ms / 1e9:,.0f} TFLOP/s), {place_of(first.best.row)}"
            f" {first.best.once_ms:,.3f} ms ({flops / first.best.once_ms / 1e9:,.0f} TFLOP/s)"
        ),
        saves_ms=Range(0.0, lost),
        takes_ms=sum(it.ran.ms for it in slower),
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence_of(data, (it.ran for it in slower)),
        remedy=advise(
            data,
            "compare their kernels and layouts: let XLA autotune both the library and Triton, store"
            " weights in the order in which the fast one reads them, and look at what the slow one"
            " also does (a fused conversion, a gradient summed in float32)",
        ),
        doubt="products that sum along another dimension, or read more beside it, may be slower",
    )


def _size(product: ExecutedOp) -> object | None:
    """Return what products have in common that should take as long as each other.

    As many FLOPs, such as a layer's product and the two of its gradients, whether split into parts
    of the sum (split-K) or not, if all dimensions are long: a product with a short one is bound by
    memory, in one order of its dimensions more than in another.
    """
    from counterpoint.cost.compute.gemm import gemms

    products = tuple(gemms(product.program, product.instruction))
    if not products or any(min(gemm.m, gemm.n, gemm.k) < _LONG for gemm in products):
        return None
    return tuple((gemm.dtype, gemm.flops) for gemm in products)


def _slow(data: StepData, chip: Chip) -> Iterator[_SlowProduct]:
    from counterpoint.cost.compute.gemm import gemms
    from counterpoint.cost.compute.pricing import price_compute
    from counterpoint.cost.model import PriceFamily

    if {device.kind for device in data.timeline.devices} == {"tpu"}:
        yield from _on_tpu(data, chip)
    machine = gpu_machine(data)
    if machine is None:
        return
    long = (pl.col("category") == "matmul") & (pl.col("share") > _LEAST_SHARE)
    for product in executed_ops(data, long):
        products = tuple(gemms(product.program, product.instruction))
        if not products or product.instruction.opcode == "ragged-dot":
            continue
        price = price_compute(product.program, product.instruction, machine)
        if price.family is PriceFamily.MATMUL and product.once_ms > _SLOW * price.high * 1e3:
            yield _SlowProduct(product, products, price)


def _on_tpu(data: StepData, chip: Chip) -> Iterator[_SlowProduct]:
    """Yield operations that took twice as long as XLA estimates, or as their FLOPs do."""
    from counterpoint.cost.compute.gemm import gemms
    from counterpoint.cost.tpu.pricing import TpuPrices, estimated_cycles
    from counterpoint.hardware.tpu import TpuSlice

    tpu = chip.tpu
    if tpu is None:
        return
    model = TpuPrices(where=TpuSlice(tpu=tpu, shape=(1,) * tpu.dimensions), chip=chip)
    known = pl.col("category").is_in(_ESTIMATED) & (pl.col("share") > _LEAST_SHARE)
    for ran in executed_ops(data, known):
        price = model.price(ran.program, ran.instruction)
        products = tuple(gemms(ran.program, ran.instruction))
        judged = products or estimated_cycles(ran.instruction) is not None
        if judged and 0 < price.seconds * 2e3 < ran.once_ms:
            yield _SlowProduct(ran, products, price)


def _alone(data: StepData, slow: list[_Compared]) -> list[_Compared]:
    """Drop products that a collective slows down."""
    if not slow:
        return []
    rows = {id(product): data.rows_of(product.ran.row) for product in slow}
    shares = shares_beside(
        data.timeline, data.spans, [row for op_rows in rows.values() for row in op_rows]
    )
    return [
        product for product in slow if all(shares[row] <= _IN_COMPANY for row in rows[id(product)])
    ]


def _shapes(slow: _SlowProduct) -> str:
    return " and ".join(map(str, slow.gemms or [slow.ran.instruction.shape]))


def _remedy(data: StepData, slow: list[_SlowProduct]) -> Remedy:
    level = {"xla_gpu_autotune_level": "4"}
    given = (data.context.flags or {}).get("xla_gpu_autotune_level", "4")
    flags = level if given in ("0", "1", "2", "3") else {}
    odd = [product for product in slow if _is_odd(product)]
    if {device.kind for device in data.timeline.devices} == {"tpu"}:
        text = (
            "pad dimensions to multiples of 128 (of 256 from v6e on), and avoid"
            " precision=HIGHEST, which multiplies float32 in six passes"
        )
        beside = "look at what uses memory beside it: copies to the host, asynchronous collectives"
        return advise(data, text if slow[0].gemms else beside)
    if odd:
        text = (
            f"pad dimensions to multiples of 64: {_shapes(odd[0])} has rows not aligned to 16 bytes"
        )
    elif flags:
        text = f"enable autotuning: xla_gpu_autotune_level={given} does not try all kernels"
    elif any(product.ran.instruction.opcode == "fusion" for product in slow):
        text = "compare the Triton kernels that XLA chose with cuBLAS"
        flags = {"xla_gpu_enable_triton_gemm": "false"}
    else:
        text = "compare cuBLASLt with cuBLAS, and use fewer and larger products"
        flags = {"xla_gpu_enable_cublaslt": "true"}
    return advise(data, text, flags)


def _is_odd(slow: _SlowProduct) -> bool:
    return any(
        size % _ALIGNED for gemm in slow.gemms for size in (gemm.m, gemm.n, gemm.k) if size > 1
    )
