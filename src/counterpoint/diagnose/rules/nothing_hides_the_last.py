"""A large collective stands at an end of the step, where nothing can hide it.

## What it does

Finds collectives that hold up the step by more than two percent of it, run once, and have next to
no computing between them and the end, or the start, of the program.

## Why it costs time

Gradients that are merged into one collective can be sent only when the last of them is there; by
then the backward pass is over. Weights gathered as one let the first layer wait for the last.

## How it is detected

By the computing in the same run before and behind the collective's spans: at most a tenth of it
lies on one side. Of how many values a collective was merged, its HLO tells.

## Example

```text
compute          forward | backward                    | (waits)         | update
communication                                            all-reduce of all gradients
```

## Fix

A smaller combine threshold of the kind, so that the first parts go while the others are computed;
the value proposed splits it into about four. Where it is one value: reduce it by layer, or pipeline
it over micro-batches. Where the cost model says that its start and its rounds take most of its
time, more and smaller ones cost more; have fewer and larger ones, or fewer devices in each.

## Fix safety

Numbers do not change. More and smaller collectives each cost a start.

## False alarms

A program of which the profile shows a part only. A collective that one part of the optimizer needs
in full (a global norm) can't be overlapped with the rest of it.

## References

- https://github.com/openxla/xla/blob/main/xla/service/collective_combiner_utils.h
- https://docs.jax.dev/en/latest/gpu_performance_tips.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterpoint.core import Range
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.wire import wires
from counterpoint.diagnose.exposure.causes import AT_END, evidence, removing, shares_of
from counterpoint.diagnose.exposure.given import given_flags, on_gpu
from counterpoint.diagnose.finding import Finding, Remedy
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.flags.combining import KINDS, combiner_inputs, flag_of

CODE: Final = AT_END
NAME: Final = "nothing-hides-the-last"
SINCE: Final = "0.1"

_PARTS: Final = 4
"""Number of parts: of four, three can be hidden; more parts cost starts and bandwidth."""


def check(case: StepData) -> Iterator[Finding]:
    """Yield one finding per collective: at most a few are this large."""
    for row in case.ask(shares_of).of(CODE):
        yield _finding(case, row)


def _finding(case: StepData, row: dict[str, Any]) -> Finding:
    end = case.ask(shares_of).ends[row["op"]]
    sizes = _sizes(case, row)
    saving = removing(case, [row])
    merged = f", merged of {len(sizes):,} values," if len(sizes) > 1 else ""
    side = "behind" if end.where == "end" else "before"
    return Finding(
        code=CODE,
        title=(
            f"devices wait {row['own_ms']:,.2f} ms for {_named(row)} at the {end.where} of each"
            " step"
        ),
        detail=(
            f"{place_of(row)}{merged} stands where {_alone(case)} beside it: {side} it the program"
            f" computes {end.beside_ms:,.2f} ms"
        ),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(case, [row]),
        remedy=_remedy(case, row, sizes),
        doubt=None
        if case.program
        else "the profile holds no HLO: what could run beside it is not known",
    )


def _named(row: dict[str, Any]) -> str:
    """Return the op's name, preceded by the kind unless the name starts with it."""
    op, kind = str(row["op"]), str(row["kind"])
    return op if op.startswith(kind) else f"the {kind} {op}"


def _alone(case: StepData) -> str:
    """Describe what could run beside the collective; without HLO, only what did."""
    return "nothing can run" if case.program else "next to nothing runs"


def _sizes(case: StepData, row: dict[str, Any]) -> list[int]:
    """Return the bytes of the merged values, as the combiner counts them."""
    if case.program is None or row["kind"] not in KINDS or not on_gpu(case):
        return []
    found = (part for place in combiner_inputs(case.program, row["kind"]) for part in place.parts)
    return [part.bytes for part in found if part.instruction == row["op"]]


def _is_mostly_start(case: StepData, row: dict[str, Any]) -> bool:
    """Return whether its time is mostly latency in the cost model, which parts would have too."""
    rows = case.ask(collective_profile).iter_rows(named=True)
    for other, wire in zip(rows, wires(case), strict=True):
        if (other["program"], other["op"]) == (row["program"], row["op"]):
            price, took = wire.price, other["mean_transfer_ms"]
            if price is None or took is None:
                return False
            return price.bound_by == "latency" and took <= price.high * 1e3
    return False


def _remedy(case: StepData, row: dict[str, Any], sizes: list[int]) -> Remedy:
    if _is_mostly_start(case, row):
        return advise(
            case,
            "have fewer and larger ones of its kind, or let fewer devices take part (shard within a"
            " host, replicate across hosts): its start and its rounds take most of its time, so"
            " that several smaller ones would cost more",
        )
    if len(sizes) < _PARTS:
        return advise(
            case,
            "reduce or gather it layer by layer, beside the computation of the others; with"
            " several micro-batches, one ahead of the other",
        )
    wanted = max(sum(sizes) // _PARTS, *sizes)
    flag = flag_of(row["kind"])
    given = (given_flags(case) or {}).get(flag, "")
    wanted = min(wanted, int(given) // 2) if given.isdecimal() and int(given) else wanted
    return advise(
        case,
        f"merge less into it: with this threshold its parts go one by one, in about {_PARTS}",
        {flag: str(wanted)},
    )
