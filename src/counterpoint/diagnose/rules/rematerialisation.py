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

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.advise import advise
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.instructions import Ran, behind, gain_without, rows_as_evidence
from counterpoint.diagnose.memory import GIB, Memory, memory_of
from counterpoint.diagnose.recomputed import by_request

CODE: Final = "STEP401"
NAME: Final = "rematerialisation"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.02
"""Of the step: less is not worth any memory."""
_SLACK: Final = 0.9
"""Part of the memory left over that may be filled: the allocator needs room between buffers."""
_NAMED: Final = 3
_HEAVY: Final = ("matmul", "attention", "convolution")


def check(case: Case) -> Iterator[Finding]:
    """At most one."""
    rows = by_request(case)
    total = float(rows["ms"].sum())
    if not case.step_ms or total <= _LEAST_SHARE * case.step_ms:
        return
    known = list(behind(case, rows))
    saves, basis = gain_without(case, known, total) if known else (Range(0.0, total), case.basis)
    memory = memory_of(case)
    fitting = _fitting(known, memory)
    certain = min(sum(it.ms for it in fitting), saves.high)
    yield Finding(
        code=CODE,
        title=f"computing again what was not kept takes {total:,.2f} ms per step",
        detail=_detail(case, rows, total, known, memory),
        saves_ms=Range(certain if memory else 0.0, saves.high),
        basis=Basis.RULE_OF_THUMB if certain else basis,
        evidence=rows_as_evidence(case, rows.iter_rows(named=True)),
        remedy=_remedy(case, known, fitting),
        doubt=None if fitting else "it may be what makes the step fit into memory",
    )


def _detail(
    case: Case, rows: pl.DataFrame, total: float, known: Sequence[Ran], memory: Memory | None
) -> str:
    where = _places(rows)
    text = f"{total / case.step_ms:.0%} of the step, most of it in {where}"
    talking = float(rows.filter(pl.col("category") == "collective")["ms"].sum())
    if talking:
        text += f"; {talking:,.2f} ms of it are collectives that run again"
    dear = _dearest(known)
    if dear:
        best = dear[0]
        text += (
            f". Keeping what {best.row['op']} makes takes {_size(best) / GIB:,.2f} GiB and saves"
            f" {best.ms:,.2f} ms"
        )
    if memory is not None and memory.spare is not None:
        text += f"; {memory.spare / GIB:,.1f} GiB of the device's memory were never used"
    return text


def _places(rows: pl.DataFrame) -> str:
    """The scopes, or else lines, that take most of it."""
    by_place = (
        rows.with_columns(place=pl.coalesce("scope", "source", "op"))
        .group_by("place")
        .agg(pl.col("ms").sum())
        .sort("ms", "place", descending=[True, False])
    )
    named = [f"{place} ({ms:,.2f} ms)" for place, ms in by_place.head(_NAMED).rows()]
    return ", ".join(named)


def _dearest(known: Sequence[Ran]) -> list[Ran]:
    """Heavy results, the most time per byte first."""
    heavy = [it for it in known if it.row["category"] in _HEAVY and _size(it)]
    return sorted(heavy, key=lambda it: -it.ms / _size(it))


def _fitting(known: Sequence[Ran], memory: Memory | None) -> list[Ran]:
    """What the memory that was never used would hold."""
    left = _SLACK * (memory.spare or 0) if memory is not None else 0.0
    kept: list[Ran] = []
    for it in _dearest(known):
        if _size(it) <= left:
            left -= _size(it)
            kept.append(it)
    return kept


def _size(one: Ran) -> float:
    """Bytes of its result, kept for every execution of a step."""
    result = next(one.instruction.shape.leaves, one.instruction.shape)
    return result.bytes * max(float(one.row["count"]), 1.0)


def _remedy(case: Case, known: Sequence[Ran], fitting: Sequence[Ran]) -> Remedy:
    wanted = fitting or _dearest(known)
    lines = dict.fromkeys(str(it.row["source"]) for it in wanted if it.row["source"])
    at = f" (results of {', '.join(list(lines)[:_NAMED])})" if lines else ""
    policy = "save_only_these_names" if fitting else "save_and_offload_only_these_names"
    room = "there is room for them" if fitting else "or save_only_these_names where memory allows"
    return advise(
        case,
        f"mark the dearest results{at} with checkpoint_name and keep them:"
        f" jax.checkpoint(..., policy=jax.checkpoint_policies.{policy}(...)): {room}",
    )
