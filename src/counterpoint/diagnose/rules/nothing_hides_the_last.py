"""A large collective runs at an end of the step, where nothing can hide it.

## What it does

Finds collectives that are exposed for more than 2% of the step, run once, and have almost no
compute between them and the end, or the start, of the program.

## Why it costs time

Gradients merged into one collective can be sent only when the last of them is ready; by then the
backward pass is over. If weights are gathered in one collective, the first layer waits for the last
one's weights.

## How it is detected

The rule compares the compute before and after the collective in the same run: at most a tenth of it
is on one side. The HLO shows how many values were merged.

## Example

```text
compute          forward | backward                    | (waits)         | update
communication                                            all-reduce of all gradients
```

## Fix

Set a smaller combine threshold for the kind, so that the first parts are sent while the others are
computed; the proposed value splits it into about four. If it is a single value: reduce it by layer,
or pipeline it over micro-batches. If most of its time is its start and its rounds, smaller
collectives cost more: use fewer and larger ones, or fewer devices in each.

## Fix safety

Numbers do not change. Each additional collective costs a start.

## False alarms

The profile may show only a part of the program. A collective whose whole result the optimizer needs
first (a global norm) can't overlap with the rest of it.

## References

- https://github.com/openxla/xla/blob/main/xla/service/collective_combiner_utils.h
- https://docs.jax.dev/en/latest/gpu_performance_tips.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterpoint.core import Range
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.links import wires
from counterpoint.diagnose.environment import advise, given_flags, on_gpu
from counterpoint.diagnose.exposure.causes import AT_END, evidence, removing, shares_of
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = AT_END
NAME: Final = "nothing-hides-the-last"
SINCE: Final = "0.1"

_PARTS: Final = 4
"""Number of parts: of four, three can be hidden; more parts cost starts and bandwidth."""

_OF_WEIGHTS: Final = ("all-reduce", "reduce-scatter", "all-gather")
"""Kinds that mostly carry gradients and weights; others carry activations, which have no layers."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding per collective: at most a few are this large."""
    for row in data.cached(shares_of).of(CODE):
        yield _finding(data, row)


def _finding(data: StepData, row: dict[str, Any]) -> Finding:
    end = data.cached(shares_of).ends[row["op"]]
    sizes = _sizes(data, row)
    saving = removing(data, [row])
    merged = f", merged from {len(sizes):,} values," if len(sizes) > 1 else ""
    # Without HLO, only what did run beside it is known.
    beside = "nothing can overlap" if data.program else "almost nothing overlaps"
    return Finding(
        code=CODE,
        title=(
            f"devices wait {ms_text(row['own_ms'])} for {_named(row)} at the {end.where} of each"
            " step"
        ),
        detail=f"{place_of(row)}{merged} runs where {beside} it: {end.beside}",
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(data, [row]),
        remedy=_remedy(data, row, sizes),
        doubt=None
        if data.program
        else "without HLO in the profile, work that could overlap it is unknown",
    )


def _named(row: dict[str, Any]) -> str:
    """Return the op's name, preceded by the kind unless the name starts with it."""
    op, kind = str(row["op"]), str(row["kind"])
    return op if op.startswith(kind) else f"the {kind} {op}"


def _sizes(data: StepData, row: dict[str, Any]) -> list[int]:
    """Return the bytes of the merged values, as the combiner counts them."""
    from counterpoint.flags.combiner import KINDS, combiner_inputs

    if data.program is None or row["kind"] not in KINDS or not on_gpu(data):
        return []
    parts = (part for place in combiner_inputs(data.program, row["kind"]) for part in place.parts)
    return [part.bytes for part in parts if part.instruction == row["op"]]


def _is_mostly_start(data: StepData, row: dict[str, Any]) -> bool:
    """Return whether its time is mostly latency in the cost model, which parts would have too."""
    rows = data.cached(collective_profile).iter_rows(named=True)
    for other, wire in zip(rows, wires(data), strict=True):
        if (other["program"], other["op"]) == (row["program"], row["op"]):
            price, took = wire.price, other["mean_transfer_ms"]
            if price is None or took is None:
                return False
            return price.bound_by == "latency" and took <= price.high * 1e3
    return False


def _remedy(data: StepData, row: dict[str, Any], sizes: list[int]) -> Remedy:
    if _is_mostly_start(data, row):
        return advise(
            data,
            "use fewer and larger ones of its kind, or fewer devices in each (shard within a host,"
            " replicate across hosts): its start and rounds take most of its time, so several"
            " smaller ones would cost more",
        )
    if row["kind"] not in _OF_WEIGHTS:
        return advise(
            data,
            "divide the batch into micro-batches that do not depend on each other, so that one is"
            " computed while the other is sent (of experts, the products of one part while the"
            " tokens of the next are under way); or send fewer bytes",
        )
    if len(sizes) < _PARTS:
        return advise(
            data,
            "reduce or gather it layer by layer, overlapped with the compute of other layers; or"
            " with several micro-batches, one ahead of the other",
        )
    wanted = max(sum(sizes) // _PARTS, *sizes)
    from counterpoint.flags.thresholds import flag_of

    flag = flag_of(row["kind"])
    given = (given_flags(data) or {}).get(flag, "")
    wanted = min(wanted, int(given) // 2) if given.isdecimal() and int(given) else wanted
    return advise(
        data,
        f"merge less into it: this threshold splits it into about {_PARTS} parts",
        {flag: str(wanted)},
    )
