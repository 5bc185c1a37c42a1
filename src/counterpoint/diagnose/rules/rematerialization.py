"""The backward pass computes again what the forward pass had.

## What it does

Says what `jax.checkpoint` (rematerialisation) costs a step, which scopes and lines are computed
twice, and what it would take to keep the dearest results instead.

## Why it costs time

Checkpointing saves memory: only some values are kept for the backward pass, the rest is computed
again. Repeating a whole layer costs about a third more; repeating its collectives (gathering FSDP's
parameters once more) can cost more than that.

## How it is detected

By JAX's mark in the op's name (`rematted_computation`). Time is each op's own, of collectives what
nothing hides. What the step gains without it is asked of the simulator where the profile carries
the HLO. Keeping a result takes its bytes once for every execution in a step (each turn of a
`lax.scan`). If the Run tells how much memory was never used, what fits into it, the most time per
byte first, is certain; without that the lower bound is 0.

## Example

```python
layer = jax.checkpoint(layer)                     # keeps nothing but the layer's input
```

## Fix

Keep what is dear to compute and small: mark it with `checkpoint_name(x, "ffn")` and use
`policy=jax.checkpoint_policies.save_only_these_names("ffn")`, or
`save_and_offload_only_these_names` where the host's memory has room.
`dots_with_no_batch_dims_saveable` keeps products with weights. In MaxText: `remat_policy`, in Flax:
`nn.remat(policy=...)`.

## Fix safety

Results stay the same to the last bits. Needs memory: raise it step by step.

## False alarms

Recomputation that memory demands. How much is left is known only from a Run, and the peak may lie
outside of this step.

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
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.pgle_use import GIB, DeviceMemory, memory_of
from counterpoint.diagnose.recomputed import ExecutedOp, by_request, executed_rows, gain_without
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo import Shape

CODE: Final = "STEP401"
NAME: Final = "rematerialisation"
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


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    rows = by_request(case)
    total = float(rows["ms"].sum())
    if not case.step_ms or total <= _LEAST_SHARE * case.step_ms:
        return
    known = list(executed_rows(case, rows))
    saves, basis = gain_without(case, known, total) if known else (Range(0.0, total), case.basis)
    memory = memory_of(case)
    results = _results(known)
    fitting = _fitting(results, memory)
    certain = min(sum(result.ms for result in fitting), saves.high)
    yield Finding(
        code=CODE,
        title=_title(rows, total),
        detail=_detail(case, rows, total, results, memory),
        saves_ms=Range(certain if memory else 0.0, saves.high),
        basis=Basis.RULE_OF_THUMB if certain else basis,
        evidence=_evidence(case, rows),
        remedy=_remedy(case, rows, results, fitting),
        doubt=None if fitting else "it may be what makes the step fit into memory",
    )


def _title(rows: pl.DataFrame, total: float) -> str:
    communicating = _talking(rows)
    if communicating <= _LARGE * total:
        return f"computing again what was not kept takes {total:,.2f} ms per step"
    return (
        f"running again what was not kept takes {total:,.2f} ms per step: {communicating:,.2f} for"
        f" collectives, {total - communicating:,.2f} for computing"
    )


def _talking(rows: pl.DataFrame) -> float:
    return float(rows.filter(_COLLECTIVE)["ms"].sum())


def _evidence(case: StepData, rows: pl.DataFrame) -> tuple[Evidence, ...]:
    """Return the most expensive rows of both kinds as evidence."""
    shown = pl.concat([rows.filter(kind).head(_NAMED) for kind in (_COLLECTIVE, ~_COLLECTIVE)])
    dearest = shown.sort("ms", "op", descending=[True, False])
    return tuple(
        replace(case.evidence(row, "ms"), what=place_of(row))
        for row in dearest.iter_rows(named=True)
    )


def _detail(
    case: StepData,
    rows: pl.DataFrame,
    total: float,
    results: Sequence[_RecomputedResult],
    memory: DeviceMemory | None,
) -> str:
    where = _places(rows)
    text = f"{total / case.step_ms:.0%} of the step, most of it in {where}"
    communicating = _talking(rows)
    if 0.005 <= communicating <= _LARGE * total:
        text += f"; {communicating:,.2f} ms of it are collectives that run again"
    relevant = [result for result in results if result.ms > _LARGE * total]
    if relevant:
        best = relevant[0]
        text += (
            f". Keeping what {best.makers[0].row['op']} makes ({_made(best.makers[0])}"
            f"{_and_alike(best)}) takes {best.bytes / GIB:,.2f} GiB and saves {best.ms:,.2f} ms"
        )
    if memory is not None and memory.spare is not None:
        text += f"; {memory.spare / GIB:,.1f} GiB of the device's memory were never used"
    return text


def _and_alike(result: _RecomputedResult) -> str:
    more = len(result.makers) - 1
    return f", and {more} alike" if more else ""


def _places(rows: pl.DataFrame) -> str:
    """Return the scopes, or else lines, that take most of it."""
    by_place = (
        rows.with_columns(place=pl.coalesce("scope", "source", "op"))
        .group_by("place")
        .agg(pl.col("ms").sum())
        .sort("ms", "place", descending=[True, False])
    )
    named = [f"{place} ({ms:,.2f} ms)" for place, ms in by_place.head(_NAMED).rows()]
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


def _size(one: ExecutedOp) -> float:
    """Return the bytes of the result, kept for every execution of a step."""
    return _made(one).bytes * max(float(one.row["count"]), 1.0)


def _made(one: ExecutedOp) -> Shape:
    """Return the result; other outputs of a library call are workspace, or small."""
    return next(one.instruction.shape.leaves, one.instruction.shape)


def _remedy(
    case: StepData,
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
            f"for the collectives ({lines}): keep what they make by checkpoint_name, a gathered"
            " parameter behind jax.lax.with_sharding_constraint; each takes its whole size on"
            " every device"
        )
        text = f"{advice}; for the computing: {text}" if results else advice
    return advise(case, text)


def _keep(results: Sequence[_RecomputedResult], fitting: Sequence[_RecomputedResult]) -> str:
    lines = list(dict.fromkeys(result.place for result in fitting or results))
    where = f" (of {', '.join(lines[:_NAMED])})" if lines else ""
    policy = "save_only_these_names" if fitting else "save_and_offload_only_these_names"
    room = "there is room for them" if fitting else "or save_only_these_names where memory allows"
    return (
        f"mark the results that save most for their size{where} with checkpoint_name and keep them:"
        f" jax.checkpoint(..., policy=jax.checkpoint_policies.{policy}(...)); {room}"
    )
