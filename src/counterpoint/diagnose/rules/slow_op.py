"""Ops take many times as long as their data and arithmetic need.

## What it does

Finds ops that are no matrix products and take at least ten times as long as their roofline: the
bytes that they read and write at the rate of the memory, or their FLOPs at the peak of the chip.
Names the kind of op, and what is known to help for it.

## Why it costs time

Some ops cannot use the width of a chip. A scatter that adds to the same rows again and again
does so one after the other, in bfloat16 often by a loop of compare-and-swap; a sort makes many
passes; a transpose moves single elements where the memory moves lines.

## How it is detected

The rule compares the measured time with the larger of both times, and with the few microseconds
that any kernel takes. Bytes and FLOPs are the HLO's, or those that the profile records. Matrix
products are STEP502's, copies that only change a layout STEP504's; custom kernels whose work is not
known are left out. Where neither the chip nor the rate of its memory is known, as on virtual CPU
devices, it names only sorts, scatters, gathers, random numbers and transposes that take a fifth of
the step or more, without a saving.

## Example

```python
x = table[tokens]  # its gradient is a scatter-add of one row per token
```

## Fix

Scatters: add in float32; say what is true of the indices (`unique_indices`, `indices_are_sorted`,
`mode="promise_in_bounds"`); use a product with a one-hot matrix for a small table, or sort by
index and add up segments. Sorts: `jax.lax.top_k` or `approx_max_k` if only the largest are needed.
Random bits: `jax_default_prng_impl=rbg`. Transposes: arrays in the layout in which they are used.

## Fix safety

Other orders of addition change the last bits. A promise about indices that does not hold gives
wrong results. Another generator gives other random numbers.

## False alarms

The bytes of an op that reads parts of an array are estimates. An op that shares the chip with
another one takes longer than it would alone.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.lax.scatter_add.html
- https://docs.jax.dev/en/latest/jax.random.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range, Unknown
from counterpoint.core.frozen import frozen
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise, chip_of
from counterpoint.diagnose.executed_ops import ExecutedOp, evidence_of, executed_ops, moves_only
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.replication import replication
from counterpoint.timeline import Lane

CODE: Final = "STEP506"
NAME: Final = "slow-op"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.01  # of the step
_LARGE_SHARE: Final = 0.2  # of the step, for an op of which no roofline is known
_SLOW: Final = 10
_ANY_KERNEL_MS: Final = 0.005
"""What a kernel takes that does next to nothing."""
_MOST: Final = 3
_ENOUGH: Final = 3
"""Number of ops that must reach a rate for it to be the memory's."""
_FLOPS_PER_BYTE: Final = 50
"""Arithmetic that any chip does in the time in which it moves the data; used for unknown chips."""

_NOT_WORK: Final = ("matmul", "attention", "collective", "control", "host")
_SLOW_ANYWHERE: Final = ("sort", "scatter/gather", "rng", "copy")
"""Categories of ops of which the slow part is the heaviest."""
_WORKS: Final = pl.col("lane").is_in([Lane.COMPUTE, Lane.COPY]) & ~pl.col("category").fill_null(
    "other"
).is_in(_NOT_WORK)
_WAITS: Final = ("-start", "-done")


@frozen
class OpKind:
    """A kind of op that is slow for a known reason, and what helps."""

    noun: str
    opcodes: tuple[str, ...]  # one of them is inside the op
    targets: tuple[str, ...]  # or in the name of the kernel that a custom call runs
    remedy: str
    slow_anywhere: bool = False  # whether a large share of it is worth a word without a roofline


_THREEFRY: Final = "threefry"
_KINDS: Final = (
    OpKind(
        "scatters",
        ("scatter", "select-and-scatter"),
        (),
        'add in float32; give unique_indices=True, indices_are_sorted=True or mode="drop" where'
        " they hold; for the gradient of a lookup, use a product with a one-hot matrix if the table"
        " is small, else sort the indices and add up segments"
        " (jax.ops.segment_sum(..., indices_are_sorted=True))",
        slow_anywhere=True,
    ),
    OpKind(
        "sorts",
        ("sort", "topk", "top-k"),
        ("sort", "topk", "top_k"),
        "take only the largest (jax.lax.top_k, jax.lax.approx_max_k), sort along the last axis, and"
        " sort 32-bit keys with an index instead of several arrays",
        slow_anywhere=True,
    ),
    OpKind(
        "generators of random numbers",
        ("rng", "rng-bit-generator", "rng-get-and-update-state"),
        ("rng",),
        'use another generator: jax.config.update("jax_default_prng_impl", "rbg"); draw fewer or'
        " smaller numbers (bfloat16, one mask for several layers)",
        slow_anywhere=True,
    ),
    OpKind(
        "cumulative sums and windows",
        ("reduce-window",),
        (),
        "use jax.lax.associative_scan, or a product with a triangular matrix, along a short axis;"
        " pool with jax.lax.conv_general_dilated where it fits",
    ),
    OpKind(
        "convolutions",
        ("convolution",),
        ("conv",),
        "keep channels last and a multiple of 8, in bfloat16; let XLA autotune",
    ),
    OpKind(
        "Fourier transforms",
        ("fft",),
        ("fft",),
        "use lengths that are products of small primes, and batch the transforms",
    ),
    OpKind(
        "factorizations and triangular solves",
        ("cholesky", "triangular-solve"),
        ("cusolver", "getrf", "potrf", "geqrf", "trsm"),
        "batch them, use them in fewer steps, or replace the solve by a product with an inverse"
        " that is kept",
    ),
    OpKind(
        "gathers",
        ("gather",),
        (),
        'give indices_are_sorted=True or mode="promise_in_bounds" where they hold, gather whole'
        " rows, and use a product with a one-hot matrix if the table is small",
        slow_anywhere=True,
    ),
    OpKind(
        "writes of slices",
        ("dynamic-update-slice",),
        (),
        "write whole rows, in the layout of the array, and donate the array so that it is updated"
        " in place",
    ),
    OpKind(
        "transposes",
        ("transpose",),
        (),
        "keep data in the layout in which it is used: an einsum instead of transpose and product,"
        " weights stored as they are read",
        slow_anywhere=True,
    ),
)
_OTHER: Final = OpKind(
    "other ops",
    (),
    (),
    "look at what the op computes, at its source line: a kernel of its own (Pallas, Triton), larger"
    " and fewer ops, or another layout",
)


@frozen
class _Rates:
    """The rates that a roofline consists of, and whose they are."""

    bytes_per_s: float
    flops_per_s: float
    whose: str


@frozen(eq=False)
class _SlowOp:
    """An op, and the least time in which a chip could execute it once."""

    ran: ExecutedOp
    kind: OpKind
    least_ms: float
    bytes: float

    @property
    def times(self) -> float:
        return self.ran.once_ms / self.least_ms

    @property
    def saves_ms(self) -> float:
        return max(0.0, self.ran.ms - self.least_ms * max(float(self.ran.row["count"]), 1.0))


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding for each of the three most costly kinds; a prediction has only prices."""
    if data.basis is Basis.PREDICTED:
        return
    rates = _rates(data)
    if rates is None:
        yield from _large(data)
        return
    kinds: dict[OpKind, list[_SlowOp]] = {}
    for slow in _slow(data, rates):
        kinds.setdefault(slow.kind, []).append(slow)
    costly = sorted(kinds.values(), key=lambda ops: -sum(slow.saves_ms for slow in ops))
    for ops in costly[:_MOST]:
        if sum(slow.saves_ms for slow in ops) > _LEAST_SHARE * data.step_ms:
            yield _finding(data, ops, rates)


def _large(data: StepData) -> Iterator[Finding]:
    """Yield kinds of op that take much of the step, where nothing tells how fast they could be."""
    kinds: dict[OpKind, list[ExecutedOp]] = {}
    for ran in executed_ops(data, _WORKS & (pl.col("share") > _LEAST_SHARE)):
        kind = _kind_of(ran)
        if kind is None or not kind.slow_anywhere or moves_only(ran.program, ran.instruction):
            continue
        if ran.row["category"] in _SLOW_ANYWHERE or _THREEFRY in (ran.row["scope"] or ""):
            kinds.setdefault(kind, []).append(ran)
    for kind, ops in kinds.items():
        total = sum(ran.ms for ran in ops)
        if total < _LARGE_SHARE * data.step_ms:
            continue
        first = max(ops, key=lambda ran: ran.ms)
        yield Finding(
            code=CODE,
            title=f"{kind.noun} take {ms_text(total)} per step, {total / data.step_ms:.0%} of it",
            detail=(
                f"{counted_noun(len(ops), 'op')}; {place_of(first.row)} takes"
                f" {ms_text(first.once_ms)} each time{_alike(first)}"
            ),
            saves_ms=Unknown("how fast they could be is not known: the device has no known rate"),
            takes_ms=total,
            basis=data.basis,
            evidence=evidence_of(data, ops),
            remedy=_remedy(data, kind),
        )


def _alike(ran: ExecutedOp) -> str:
    spread = replication(ran.program)
    copies = spread.copies(ran.instruction) if spread is not None else ()
    return f". {len(copies)} devices compute the same: shard its input" if len(copies) > 1 else ""


def _rates(data: StepData) -> _Rates | None:
    """Return the peaks of the chip; where it is not known, what ops of this profile reach.

    Virtual devices on a CPU share its caches and cores, so one op's rate says nothing of another's.
    """
    chip = chip_of(data)
    if chip is not None:
        return _Rates(chip.hbm_bytes, chip.bf16_flops, f"{chip.name} needs")
    if any(device.kind == "cpu" for device in data.timeline.devices):
        return None
    moves = pl.col("category").is_in(["elementwise", "copy", "reduction"])
    once_ms = pl.col("self_ms") / pl.max_horizontal("count", 1.0)
    moving = data.ops.filter(moves & (once_ms > _SLOW * _ANY_KERNEL_MS))
    reached = moving.select(pl.col("bytes_accessed") / once_ms * 1e3).to_series().drop_nulls()
    if len(reached) < _ENOUGH:
        return None
    rate = float(reached.top_k(_ENOUGH).sort()[0])
    return (
        _Rates(rate, rate * _FLOPS_PER_BYTE, "other ops of this profile would need")
        if rate
        else None
    )


def _slow(data: StepData, rates: _Rates) -> Iterator[_SlowOp]:
    """Yield ops far above their roofline, the longest first."""
    for ran in executed_ops(data, _WORKS & (pl.col("share") > _LEAST_SHARE / _MOST)):
        bytes_ = ran.row["bytes_accessed"]
        kind = _kind_of(ran)
        if bytes_ is None or kind is None or moves_only(ran.program, ran.instruction):
            continue
        roofline_s = max(bytes_ / rates.bytes_per_s, (ran.row["flops"] or 0.0) / rates.flops_per_s)
        least_ms = max(roofline_s * 1e3, _ANY_KERNEL_MS)
        if ran.once_ms >= _SLOW * least_ms:
            yield _SlowOp(ran, kind, least_ms, bytes_)


def _kind_of(ran: ExecutedOp) -> OpKind | None:
    """Return the kind of an op; None for waits, and for custom kernels whose work is not known."""
    instruction = ran.instruction
    if instruction.opcode.endswith(_WAITS):
        return None
    target = (instruction.custom_call_target or "").lower()
    inside = {part.opcode for part in ran.program.body(instruction)} | {instruction.opcode}
    for kind in _KINDS:
        if inside & {*kind.opcodes} or any(word in target for word in kind.targets):
            return kind
        if "rng" in kind.opcodes and _THREEFRY in (ran.row["scope"] or ""):
            return kind
    return None if "custom-call" in inside else _OTHER


def _finding(data: StepData, ops: Sequence[_SlowOp], rates: _Rates) -> Finding:
    first, kind = max(ops, key=lambda slow: slow.saves_ms), ops[0].kind
    total = sum(slow.ran.ms for slow in ops)
    reached = first.bytes / first.ran.once_ms * 1e3
    return Finding(
        code=CODE,
        title=f"{kind.noun} far below the memory's rate take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(ops), 'op')}; {place_of(first.ran.row)} takes"
            f" {ms_text(first.ran.once_ms)} each time, {first.times:,.0f} times the"
            f" {ms_text(first.least_ms)} that {rates.whose} for its"
            f" {first.bytes / 1e6:,.1f} MB and its arithmetic; it reaches {reached / 1e9:,.1f} GB/s"
        ),
        saves_ms=Range(0.0, sum(slow.saves_ms for slow in ops)),
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence_of(data, (slow.ran for slow in ops)),
        remedy=_remedy(data, kind),
        doubt="how fast the op could be depends on its data: the roofline is a limit, not a goal",
    )


def _remedy(data: StepData, kind: OpKind) -> Remedy:
    return advise(data, kind.remedy)
