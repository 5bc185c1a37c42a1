"""The backward pass recomputes results of the forward pass.

## What it does

Reports what `jax.checkpoint` (rematerialization) costs per step, which scopes and lines are
computed twice, and how much memory it would take to keep the most expensive results instead.

## Why it costs time

Checkpointing saves memory: only some values are kept for the backward pass, and the rest is
recomputed. Repeating a whole layer costs about a third more; repeating its collectives (gathering
FSDP's parameters again) can cost more than that.

## How it is detected

The rule looks for JAX's mark in the op's name (`rematted_computation`). It counts the time of each
op itself, and for collectives the exposed part. If the profile holds the HLO, the simulator
computes the gain without them. Keeping a result takes its bytes once for each execution in a step
(each iteration of a `lax.scan`). If the Run recorded how much memory was never used, the saving of
what fits into it (most time per byte first) is certain; otherwise the lower bound is 0.

## Example

```python
layer = jax.checkpoint(layer)                     # keeps nothing but the layer's input
```

## Fix

Keep results that are expensive to compute and small: mark them with `checkpoint_name(x, "ffn")` and
use `policy=jax.checkpoint_policies.save_only_these_names("ffn")`, or
`save_and_offload_only_these_names` if the host has enough memory.
`dots_with_no_batch_dims_saveable` keeps products with weights. MaxText: `remat_policy`; Flax:
`nn.remat(policy=...)`.

## Fix safety

Results stay the same except for the last bits. It needs memory: increase it step by step.

## False alarms

Recomputation may be needed to fit into memory. The unused memory is known only from a Run, and the
peak may be outside of this step.

## References

- https://docs.jax.dev/en/latest/gradient-checkpointing.html
- https://docs.jax.dev/en/latest/notebooks/host-offloading.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import ExecutedOp, executed_rows, gain_without
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.memory import GIB, DeviceMemory, by_request, memory_of
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Shape

CODE: Final = "STEP401"
NAME: Final = "rematerialization"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.02
"""Minimum share of the step to be worth any memory."""
_SLACK: Final = 0.9
"""Share of unused memory that may be filled: the allocator needs room between buffers."""
_NAMED: Final = 3
_LARGE: Final = 0.05
"""Minimum share of all recomputation for a result to be named as worth keeping."""
_COLLECTIVE: Final = pl.col("category") == "collective"
_HEAVY: Final = ("matmul", "attention", "convolution")


@dataclass(frozen=True, slots=True, eq=False)
class _RecomputedResult:
    """Instructions of one line that produce similar values."""

    makers: list[ExecutedOp]

    @property
    def ms(self) -> float:
        return sum(float(maker.row["ms"]) for maker in self.makers)

    @property
    def bytes(self) -> float:
        return sum(map(_size, self.makers))

    @property
    def place(self) -> str:
        row = self.makers[0].row
        return str(row["source"] or row["scope"] or row["op"])


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    rows = by_request(data)
    total = float(rows["ms"].sum())
    if not data.step_ms or total <= _LEAST_SHARE * data.step_ms:
        return
    known = list(executed_rows(data, rows))
    saves, basis = gain_without(data, known, total) if known else (Range(0.0, total), data.basis)
    memory = memory_of(data)
    results = _results(known)
    fitting = _fitting(results, memory)
    certain = min(sum(result.ms for result in fitting), saves.high)
    yield Finding(
        code=CODE,
        title=_title(rows, total),
        detail=_detail(data, rows, total, results, memory),
        saves_ms=Range(certain if memory else 0.0, saves.high),
        basis=Basis.RULE_OF_THUMB if certain else basis,
        evidence=_evidence(data, rows),
        remedy=_remedy(data, rows, results, fitting),
        doubt=None if fitting else "it may be necessary to fit into memory",
    )


def _title(rows: pl.DataFrame, total: float) -> str:
    communicating = _talking(rows)
    if communicating <= _LARGE * total:
        return f"recomputation for the backward pass takes {ms_text(total)} per step"
    return (
        f"rematerialization takes {ms_text(total)} per step: {communicating:,.2f} for collectives,"
        f" {total - communicating:,.2f} for compute"
    )


def _talking(rows: pl.DataFrame) -> float:
    return float(rows.filter(_COLLECTIVE)["ms"].sum())


def _evidence(data: StepData, rows: pl.DataFrame) -> tuple[Evidence, ...]:
    """Return the most expensive rows of both kinds as evidence."""
    shown = pl.concat([rows.filter(kind).head(_NAMED) for kind in (_COLLECTIVE, ~_COLLECTIVE)])
    largest = shown.sort("ms", "op", descending=[True, False])
    return tuple(
        replace(data.evidence(row, "ms"), what=place_of(row))
        for row in largest.iter_rows(named=True)
    )


def _detail(
    data: StepData,
    rows: pl.DataFrame,
    total: float,
    results: Sequence[_RecomputedResult],
    memory: DeviceMemory | None,
) -> str:
    where = _places(rows)
    text = f"{total / data.step_ms:.0%} of the step, mostly in {where}"
    communicating = _talking(rows)
    if 0.005 <= communicating <= _LARGE * total:
        text += f"; {ms_text(communicating)} of it is repeated collectives"
    relevant = [result for result in results if result.ms > _LARGE * total]
    if relevant:
        best = relevant[0]
        text += (
            f". Keeping the result of {best.makers[0].row['op']} ({_made(best.makers[0])}"
            f"{_and_alike(best)}) takes {_memory(best.bytes)} and saves {ms_text(best.ms)}"
        )
    if memory is not None and memory.spare is not None:
        text += f"; {memory.spare / GIB:,.1f} GiB of device memory was never used"
    return text


def _memory(size: float) -> str:
    return f"{size / GIB:,.2f} GiB" if size >= GIB / 10 else f"{size / 2**20:,.3g} MiB"


def _and_alike(result: _RecomputedResult) -> str:
    more = len(result.makers) - 1
    return f" and {more} similar ones" if more else ""


def _places(rows: pl.DataFrame) -> str:
    """Return the scopes, or else lines, that take most of it."""
    by_place = (
        rows.with_columns(place=pl.coalesce("scope", "source", "op"))
        .group_by("place")
        .agg(pl.col("ms").sum())
        .sort("ms", "place", descending=[True, False])
    )
    named = [f"{place} ({ms_text(ms)})" for place, ms in by_place.head(_NAMED).rows()]
    return ", ".join(named)


def _results(known: Iterable[ExecutedOp]) -> list[_RecomputedResult]:
    """Group expensive results over all layers; the most time per byte first."""
    alike: dict[tuple[str, str], list[ExecutedOp]] = {}
    for entry in known:
        if entry.row["category"] in _HEAVY and _size(entry):
            place = str(entry.row["source"] or entry.row["scope"] or entry.row["op"])
            alike.setdefault((place, str(_made(entry))), []).append(entry)
    return sorted(
        map(_RecomputedResult, alike.values()), key=lambda result: -result.ms / result.bytes
    )


def _fitting(
    results: Sequence[_RecomputedResult], memory: DeviceMemory | None
) -> list[_RecomputedResult]:
    """Return the results that would fit into the unused memory."""
    left = _SLACK * (memory.spare or 0) if memory is not None else 0.0
    chosen: list[_RecomputedResult] = []
    for result in results:
        if result.bytes <= left:
            left -= result.bytes
            chosen.append(result)
    return chosen


def _size(kernel: ExecutedOp) -> float:
    """Return the bytes of the result, kept for every execution of a step."""
    return _made(kernel).bytes * max(float(kernel.row["count"]), 1.0)


def _made(kernel: ExecutedOp) -> Shape:
    """Return the result; other outputs of a library call are workspace, or small."""
    return next(kernel.instruction.shape.leaves, kernel.instruction.shape)


def _remedy(
    data: StepData,
    rows: pl.DataFrame,
    results: Sequence[_RecomputedResult],
    fitting: Sequence[_RecomputedResult],
) -> Remedy:
    text = _keep(results, fitting)
    if _talking(rows) > _LARGE * float(rows["ms"].sum()):
        again = rows.filter(_COLLECTIVE)
        places = again.select(pl.coalesce("source", "scope", "op")).to_series()
        lines = ", ".join(places.unique(maintain_order=True).head(_NAMED).to_list())
        advice = (
            f"for the collectives ({lines}): keep their results with checkpoint_name (a gathered"
            " parameter after jax.lax.with_sharding_constraint); each takes its full size on every"
            " device"
        )
        text = f"{advice}; for the compute: {text}" if results else advice
    return advise(data, text)


def _keep(results: Sequence[_RecomputedResult], fitting: Sequence[_RecomputedResult]) -> str:
    lines = list(dict.fromkeys(result.place for result in fitting or results))
    where = f" (of {', '.join(lines[:_NAMED])})" if lines else ""
    policy = "save_only_these_names" if fitting else "save_and_offload_only_these_names"
    room = "memory suffices" if fitting else "or save_only_these_names if memory suffices"
    return (
        f"mark the results that save most per byte{where} with checkpoint_name and keep them:"
        f" jax.checkpoint(..., policy=jax.checkpoint_policies.{policy}(...)); {room}"
    )
