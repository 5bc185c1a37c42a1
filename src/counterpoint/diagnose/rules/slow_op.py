"""Ops take many times as long as their data and arithmetic need.

## What it does

Finds ops that are no matrix products and take at least five times as long as their roofline: the
bytes that they read and write at the rate of the memory, or their FLOPs at the peak of the chip.
Names the kind of op, and what is known to help for it. Kinds for which a better form is known
(sorts, scatters, gathers, cumulative sums, random numbers, transposes) are named from a tenth of
the step on if they take twice that time, and from a third on in any case.

## Why it costs time

Some ops cannot use the width of a chip. A scatter that adds to the same rows again and again
does so one after the other, in bfloat16 often by a loop of compare-and-swap; a sort makes many
passes; a cumulative sum as a window sums each element again; a transpose moves single elements
where the memory moves lines.

## How it is detected

The rule compares the measured time with the larger of both times, and with the few microseconds
that any kernel takes. Bytes and FLOPs are the HLO's, or those that the profile records. If the chip
is not known, the rates are the best that other ops of the same profile reach; on a CPU, for
gathers and transposes, of those that move about as much, because what fits its caches is faster.
An op that only prepares the indices of a scatter or gather in its line is part of it.
Matrix products are STEP502's, copies STEP504's and STEP505's; custom kernels whose work is not
known are left out. On virtual CPU devices, which share caches and cores, the rule names only kinds
with a better form, and of those only a tenth of the step or more. Where nothing can be compared,
the saving is at most the time that the op takes.

## Example

```python
x = table[tokens]  # its gradient is a scatter-add of one row per token
```

## Fix

Scatters: add in float32; say what is true of the indices (`unique_indices`, `indices_are_sorted`,
for gathers `mode="promise_in_bounds"`); use a product with a one-hot matrix for a small table, or
sort by index and add up segments. Sorts: `jax.lax.top_k` if only the largest are needed, and on a
TPU `approx_max_k`. The remedy leaves out what the HLO shows to be so already.
Cumulative sums: `jax.lax.associative_scan`. Random bits: `jax_default_prng_impl=rbg`. Transposes:
arrays in the layout in which they are used.

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

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.better_forms import (
    BetterForm,
    better_convolution,
    better_gather,
    better_random,
    better_scatter,
    better_sort,
    better_transform,
    better_window,
    is_top_k,
    smaller_top_k,
)
from counterpoint.diagnose.environment import advise, chip_of, on_virtual_devices
from counterpoint.diagnose.executed_ops import (
    ExecutedOp,
    executed_ops,
    moves_only,
    rows_as_evidence,
    without_hlo,
)
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.rules.layout_copies import relaid_by_name
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.provenance import provenance
from counterpoint.hlo.replication import replication
from counterpoint.timeline.model import Lane

CODE: Final = "STEP506"
NAME: Final = "slow-op"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.02  # of the step, for what an op could save
_LEAST_OP_SHARE: Final = 0.003  # of the step, for one of several ops
_LARGE_SHARE: Final = 0.1  # of the step, for ops of which a better form is known
_MOST_OF_IT: Final = 1 / 3
"""Share of the step from which on another form is worth a try, however fast this one is."""
_SLOW: Final = 5
_NEAR: Final = 2
"""Multiple of its roofline up to which no other form of an op is likely to be faster."""
_ANY_KERNEL_MS: Final = 0.005
"""What a kernel takes that does next to nothing."""
_MOST: Final = 3
_ENOUGH: Final = 3
"""Number of ops that must reach a rate for it to be the memory's."""
_LONG_MS: Final = {"gpu": 0.05}
_LONG_OP_MS: Final = 0.005
"""What an op has to take for its rate to count: shorter ones are mostly launches."""
_AS_MUCH: Final = 4
"""An op that moves at least that part of another one's bytes shows a rate for it."""
_FLOPS_PER_BYTE: Final = 50
"""Arithmetic that any chip does in the time in which it moves the data; used for unknown chips."""

_NOT_WORK: Final = ("matmul", "attention", "collective", "control", "host")
_WORKS: Final = (pl.col("lane") == Lane.COMPUTE) & ~pl.col("category").fill_null("other").is_in(
    _NOT_WORK
)
_MOVING: Final = ("elementwise", "copy", "reduction", "fusion")
"""Categories of ops that reach the rate of the memory, if any do."""
_COPIES: Final = pl.col("lane") == Lane.COPY
_TOLD_BY_CATEGORY: Final = ("sort", "rng")
_WAITS: Final = ("-start", "-done")


@dataclass(frozen=True, slots=True)
class OpKind:
    """A kind of op that is slow for a known reason, and what helps."""

    noun: str
    opcodes: tuple[str, ...]  # one of them is inside the op
    targets: tuple[str, ...]  # or in the name of the kernel that a custom call runs
    remedy: str
    better: bool = False  # whether another form is known that is mostly faster
    form: BetterForm | None = None  # what helps an instruction that is known
    words: str = ""  # what names such an op where there is no HLO; by default, its opcodes


_RANDOM: Final = re.compile(
    r"threefry|random_bits|jit\(_(uniform|bernoulli|normal|normal_real|randint|truncated_normal|"
    r"gumbel|exponential|gamma|shuffle)\)"
)
"""Names of jax.random's functions."""
_MIXING: Final = ("xor", "shift-left", "shift-right-logical")
_ROUNDS: Final = 4
"""Rounds of threefry in the body of its loop: each of them rotates and mixes bits once."""
_RNG: Final = OpKind(
    "generators of random numbers",
    ("rng", "rng-bit-generator", "rng-get-and-update-state"),
    ("rng",),
    'use another generator: jax.config.update("jax_default_prng_impl", "rbg"); draw fewer or'
    " smaller numbers (bfloat16, one mask for several layers)",
    better=True,
    form=better_random,
)
_GATHERS: Final = OpKind(
    "gathers",
    ("gather",),
    (),
    'give indices_are_sorted=True or mode="promise_in_bounds" where they hold, gather whole'
    " rows, and use a product with a one-hot matrix if the table is small",
    better=True,
    form=better_gather,
)
_TRANSPOSES: Final = OpKind(
    "transposes",
    ("transpose",),
    (),
    "keep data in the layout in which it is used: an einsum instead of transpose and product,"
    " weights stored as they are read",
    better=True,
    words=r"transpose|(^|_)copy",
)
_SORTS: Final = OpKind(
    "sorts",
    ("sort", "topk", "top-k"),
    ("sort", "topk", "top_k"),
    "if only the largest are needed, take them with jax.lax.top_k; sort along the last axis;"
    " sort 32-bit keys with an index instead of several arrays",
    better=True,
    form=better_sort,
)
_SCATTERS: Final = OpKind(
    "scatters",
    ("scatter", "select-and-scatter"),
    (),
    "add in float32; give unique_indices=True or indices_are_sorted=True where they hold; for the"
    " gradient of a lookup, use a product with a one-hot matrix if the table is small, else sort"
    " the indices and add up segments (jax.ops.segment_sum(..., indices_are_sorted=True))",
    better=True,
    form=better_scatter,
)
_KINDS: Final = (
    _SCATTERS,
    _SORTS,
    _RNG,
    OpKind(
        "cumulative sums and windows",
        ("reduce-window",),
        (),
        "use jax.lax.associative_scan, or a product with a triangular matrix, along a short axis;"
        " pool with jax.lax.conv_general_dilated where it fits",
        better=True,
        form=better_window,
    ),
    OpKind(
        "convolutions",
        ("convolution",),
        ("conv",),
        "keep channels last and a multiple of 8, in bfloat16; let XLA autotune",
        form=better_convolution,
    ),
    OpKind(
        "Fourier transforms",
        ("fft",),
        ("fft",),
        "use lengths that are products of small primes, and batch the transforms",
        form=better_transform,
    ),
    OpKind(
        "factorizations and triangular solves",
        ("cholesky", "triangular-solve"),
        ("cusolver", "getrf", "potrf", "geqrf", "trsm"),
        "batch them, use them in fewer steps, or replace the solve by a product with an inverse"
        " that is kept",
    ),
    _GATHERS,
    OpKind(
        "writes of slices",
        ("dynamic-update-slice",),
        (),
        "write whole rows, in the layout of the array, and donate the array so that it is updated"
        " in place",
    ),
    _TRANSPOSES,
)
_MOVES: Final = (_GATHERS, _TRANSPOSES)
_INDEXED: Final = (_SCATTERS, _GATHERS)
_OTHER: Final = OpKind(
    "other ops",
    (),
    (),
    "look at what the op computes, at its source line: a kernel of its own (Pallas, Triton), larger"
    " and fewer ops, or another layout",
)


_BYTES: Final = "bytes_accessed"
_Name = tuple[int | None, str]
"""An op: the number of its program, and its name."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """The rates that a roofline consists of, and whose they are."""

    bytes_per_s: float
    flops_per_s: float
    whose: str
    sizes: Mapping[_Name, tuple[float, float]] = field(
        default_factory=dict[_Name, tuple[float, float]]
    )
    """Of a CPU, bytes and rate of each op that shows one: what fits its caches moves faster."""

    def bytes_rate(self, row: dict[str, Any], kind: OpKind) -> float:
        """Return the rate for an op: if it only moves data, that of others that move as much."""
        if kind not in _MOVES:
            return self.bytes_per_s
        own, least = (row["program"], row["op"]), row[_BYTES] / _AS_MUCH
        alike = (rate for name, (size, rate) in self.sizes.items() if name != own and size >= least)
        return max(alike, default=self.bytes_per_s)


@dataclass(frozen=True, slots=True, eq=False)
class _SlowOp:
    """An op, and the least time in which a chip could execute it once; 0 if that is not known.

    `row` is of `StepData.ops`, or the sum of several that one line asks for.
    """

    row: dict[str, Any]
    kind: OpKind
    least_ms: float
    ran: ExecutedOp | None = None
    indices: tuple[dict[str, Any], ...] = ()  # rows of what prepares its indices

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The rows of the op profile that it stands for."""
        return (self.row,) if self.ran is None else (self.ran.row, *self.indices)

    @property
    def ms(self) -> float:
        return float(self.row["self_ms"])

    @property
    def once_ms(self) -> float:
        return self.ms / max(float(self.row["count"]), 1.0)

    @property
    def number(self) -> int:
        """Number of ops that it stands for."""
        return int(self.row.get("ops", 1))

    @property
    def times(self) -> float:
        return self.once_ms / self.least_ms if self.least_ms else math.inf

    @property
    def saves_ms(self) -> float:
        return max(0.0, self.ms - self.least_ms * max(float(self.row["count"]), 1.0))


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding for each of the three most costly kinds."""
    rates = _rates(data)
    for ops in data.cached(slow_ops):
        yield _finding(data, ops, rates)


def slow_ops(data: StepData) -> list[list[_SlowOp]]:
    """Return the slow ops of the three most costly kinds; a prediction has only prices."""
    if data.basis is Basis.PREDICTED:
        return []
    rates = _rates(data)
    kinds: dict[OpKind, list[_SlowOp]] = {}
    for op in (*_compared(data, rates), *_without_hlo(data, rates)):
        kinds.setdefault(op.kind, []).append(op)
    worth = [
        ops for kind, of_kind in kinds.items() if (ops := _worth_naming(data, kind, of_kind, rates))
    ]
    worth.sort(key=lambda ops: -sum(op.saves_ms for op in ops))
    return worth[:_MOST]


def _compared(data: StepData, rates: _Rates | None) -> Iterator[_SlowOp]:
    """Yield ops with their roofline, the longest first."""
    virtual = on_virtual_devices(data.timeline)
    executed = [*executed_ops(data, (_WORKS | _COPIES) & (pl.col("share") > _LEAST_OP_SHARE))]
    kinds = [_kind_of(ran) for ran in executed]
    indices = [
        _indices_of(data, ran) if kind in _INDEXED and ran.row[_BYTES] is not None else ()
        for ran, kind in zip(executed, kinds, strict=True)
    ]
    counted = {(row["program"], row["op"]) for rows in indices for row in rows}
    for ran, kind, before in zip(executed, kinds, indices, strict=True):
        if kind is None or moves_only(ran.program, ran.instruction):
            continue
        if kind is not _RNG and ran.row["lane"] == Lane.COPY:
            continue
        # On a CPU, threefry is a loop over whole arrays: at the rate of others, but needless.
        if rates is None or (virtual and kind is _RNG):
            yield _SlowOp(ran.row, kind, 0.0, ran)
        elif ran.row[_BYTES] is not None and (ran.row["program"], ran.row["op"]) not in counted:
            row = _together(ran.row, before)
            yield _SlowOp(row, kind, _least_ms(row, kind, rates), ran, before)


def _indices_of(data: StepData, ran: ExecutedOp) -> tuple[dict[str, Any], ...]:
    """Return the rows of what only prepares the indices of an op, in the same line of the source.

    jax.numpy counts negative indices from the end, which is a pass over all of them.
    """
    program, row = ran.program, ran.row
    own = [it.name for it in program.operands(ran.instruction) if len([*program.users(it)]) == 1]
    rows = data.ops.filter(
        pl.col("op").is_in(own)
        & (pl.col("program") == row["program"])
        & (pl.col("source") == row["source"])
        & (pl.col("category") == "elementwise")
        & pl.col("bytes_accessed").is_not_null()
    )
    return tuple(rows.iter_rows(named=True))


def _together(row: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of an op with the time and the bytes of others."""
    summed = {name: row[name] + sum(it[name] for it in others) for name in ("self_ms", _BYTES)}
    return {**row, **summed, "ops": 1 + len(others)}


def _without_hlo(data: StepData, rates: _Rates | None) -> Iterator[_SlowOp]:
    """Yield ops of which only the profiler's records are known: those of one line and name as one.

    TPUs record bytes and FLOPs of each op. A model's layers are as many ops, all of them small. If
    not even bytes are known, an op of a JAX program may still be of a kind with a better form; a
    transpose may be as fast as it can be.
    """
    named = [row["op"] for row in data.cached(relaid_by_name)]
    rows = (
        without_hlo(data)
        .filter(_WORKS & ~pl.col("op").is_in(named))
        .with_columns(stem=pl.col("op").str.replace(r"[.\d]+$", ""))
        .with_columns(moved=pl.col("bytes_accessed") * pl.col("count"))
        .with_columns(computed=pl.col("flops").fill_null(0.0) * pl.col("count"))
        .group_by("stem", "source", "scope", "category", maintain_order=True)
        .agg(
            pl.first("op", "program"),
            pl.len().alias("ops"),
            pl.col("self_ms", "count", "moved", "computed").sum(),
        )
        .filter(pl.col("self_ms") > _LEAST_SHARE * data.step_ms)
        .with_columns(
            bytes_accessed=pl.col("moved") / pl.col("count"),
            flops=pl.col("computed") / pl.col("count"),
        )
    )
    of_jax = data.timeline.step_program is not None
    virtual = on_virtual_devices(data.timeline)
    for row in rows.iter_rows(named=True):
        kind = _kind_by_name(row)
        if rates is not None and row[_BYTES]:
            yield _SlowOp(row, kind, _least_ms(row, kind, rates))
        elif of_jax and (virtual or kind is not _TRANSPOSES):
            yield _SlowOp(row, kind, 0.0)


def _kind_by_name(row: dict[str, Any]) -> OpKind:
    named = f"{row['stem']} {row['scope'] or ''}"
    if row["category"] in _TOLD_BY_CATEGORY:
        named += f" {row['category']}"
    for kind in _KINDS:
        if re.search(kind.words or "|".join(kind.opcodes), named):
            return kind
    return _OTHER


def _least_ms(row: dict[str, Any], kind: OpKind, rates: _Rates) -> float:
    flops_s = (row["flops"] or 0.0) / rates.flops_per_s
    return max(max(row[_BYTES] / rates.bytes_rate(row, kind), flops_s) * 1e3, _ANY_KERNEL_MS)


def _worth_naming(
    data: StepData, kind: OpKind, ops: Sequence[_SlowOp], rates: _Rates | None
) -> list[_SlowOp]:
    """Return the ops of a kind that are to be named: those far from their roofline, or all."""
    share = sum(op.ms for op in ops) / data.step_ms if data.step_ms else 0.0
    large = kind.better and share >= _LARGE_SHARE
    least = _SLOW if not large else _NEAR if share < _MOST_OF_IT else 1
    if not large and (rates is None or on_virtual_devices(data.timeline)):
        return []
    named = [op for op in ops if op.times >= least and (large or op.least_ms)]
    gain = sum(op.saves_ms for op in named)
    return named if gain > _LEAST_SHARE * data.step_ms else []


def _rates(data: StepData) -> _Rates | None:
    """Return the peaks of the chip; where it is not known, what ops of this profile reach."""
    chip = chip_of(data)
    if chip is not None:
        return _Rates(chip.hbm_bytes, chip.bf16_flops, f"{chip.name} needs")
    kind = next((device.kind for device in data.timeline.devices), None)
    once_ms = pl.col("self_ms") / pl.max_horizontal("count", 1.0)
    long = data.ops.filter(once_ms > _LONG_MS.get(kind or "", _LONG_OP_MS))
    moving = long.filter(pl.col("category").is_in(_MOVING))
    reached = moving.select(pl.col("bytes_accessed") / once_ms * 1e3).to_series().drop_nulls()
    if len(reached) < _ENOUGH:
        return None
    rate = float(reached.top_k(_ENOUGH).sort()[0])
    computed = long.select((pl.col("flops") / once_ms * 1e3).max()).item() or 0.0
    whose = "the best other ops of this profile would need"
    if not rate:
        return None
    sizes: dict[_Name, tuple[float, float]] = {}
    if kind == "cpu":
        shown = moving.filter(pl.col("bytes_accessed") > 0)
        names = shown.select("program", "op", "bytes_accessed", "self_ms", "count")
        sizes = {
            (program, op): (moved, moved / (ms / max(count, 1.0)) * 1e3)
            for program, op, moved, ms, count in names.iter_rows()
        }
    return _Rates(rate, max(rate * _FLOPS_PER_BYTE, computed), whose, sizes)


def _kind_of(ran: ExecutedOp) -> OpKind | None:
    """Return the kind of an op; None for waits, and for custom kernels whose work is not known."""
    instruction = ran.instruction
    if instruction.opcode.endswith(_WAITS):
        return None
    target = (instruction.custom_call_target or "").lower()
    body = ran.program.body(instruction)
    inside = {part.opcode for part in body} | {instruction.opcode}
    for kind in _KINDS:
        if inside & {*kind.opcodes} or any(word in target for word in kind.targets):
            return kind
        if kind is _RNG and _draws(ran, body):
            return kind
    return None if "custom-call" in inside else _OTHER


def _draws(ran: ExecutedOp, body: Sequence[Instruction]) -> bool:
    """Return whether it draws random numbers: by name, or because it rotates and mixes bits."""
    if _RANDOM.search(provenance(ran.program, ran.instruction).op_name):
        return True
    count = Counter(part.opcode for part in body)
    return all(count[opcode] >= _ROUNDS for opcode in _MIXING)


def _finding(data: StepData, ops: Sequence[_SlowOp], rates: _Rates | None) -> Finding:
    first, kind = max(ops, key=lambda op: op.saves_ms), ops[0].kind
    total = sum(op.ms for op in ops)
    share = total / data.step_ms if data.step_ms else 0.0
    far = _SLOW <= first.times < math.inf
    title = f"{kind.noun} take {ms_text(total)} per step, {share:.0%} of it"
    if far:
        title = f"{kind.noun} far below the memory's rate take {ms_text(total)} per step"
    return Finding(
        code=CODE,
        title=title,
        detail=(
            f"{counted_noun(sum(op.number for op in ops), 'op')}; {_name(first)}"
            f" {ms_text(first.once_ms)} each time{_roofline(first, rates)}{_alike(first.ran)}"
        ),
        saves_ms=Range(0.0, sum(op.saves_ms for op in ops)),
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=rows_as_evidence(data, (row for op in ops for row in op.rows)),
        remedy=_remedy(data, first),
        doubt="how fast the op could be depends on its data: the roofline is a limit, not a goal",
    )


def _name(op: _SlowOp) -> str:
    if not op.indices:
        return f"{place_of(op.row)} takes"
    others = " and ".join(str(row["op"]) for row in op.indices)
    prepares = "prepares" if len(op.indices) == 1 else "prepare"
    return f"{place_of(op.row)} and {others}, which {prepares} its indices, take"


def _roofline(op: _SlowOp, rates: _Rates | None) -> str:
    if op.kind is _RNG and not op.least_ms:
        return ", in a loop that rotates and mixes bits in many passes over whole arrays"
    if rates is None or not op.least_ms:
        return ", but nothing in this profile shows how fast it could be"
    size, reached = op.row[_BYTES], op.once_ms / 1e3
    return (
        f", {op.times:,.{0 if op.times >= 10 else 1}f} times the {ms_text(op.least_ms)} that"
        f" {rates.whose} for its {size / 1e6:,.1f} MB and its arithmetic; it reaches"
        f" {_rate_text(size / reached)}"
    )


def _rate_text(bytes_per_s: float) -> str:
    if bytes_per_s < 1e8:
        return f"{bytes_per_s / 1e6:,.1f} MB/s"
    return f"{bytes_per_s / 1e9:,.1f} GB/s"


def _alike(ran: ExecutedOp | None) -> str:
    if ran is None:
        return ""
    spread = replication(ran.program)
    copies = spread.copies(ran.instruction) if spread is not None else ()
    return f". {len(copies)} devices compute the same: shard its input" if len(copies) > 1 else ""


def _remedy(data: StepData, op: _SlowOp) -> Remedy:
    """Return what helps the op, without what it does already; without HLO, what helps its kind."""
    device = next((device.kind for device in data.timeline.devices), "")
    if op.ran is not None and op.kind.form is not None:
        return advise(data, op.kind.form(op.ran.program, op.ran.instruction, device))
    if op.kind is _SORTS and is_top_k(f"{op.row['op']} {op.row['scope'] or ''}"):
        return advise(data, smaller_top_k(device))
    return advise(data, op.kind.remedy)
