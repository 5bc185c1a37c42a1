"""Many small collectives could be merged into few.

## What it does

Finds exposed collectives of at most 1 MiB that XLA's combiner would merge at a larger threshold,
and computes that threshold.

## Why it costs time

Starting a collective costs tens of microseconds, whatever its size: a launch, and a round among all
ranks. Ten small collectives pay that ten times.

## How it is detected

In the HLO, the rule applies the combiner's own rules: it merges collectives of one computation,
kind and group of devices (for reductions also of one type and operation), none of which depends on
another. Collectives in a loop body merge only with those of the same body. If the current threshold
is known, only larger ones are tried. TPUs have another combiner and are not examined. The saving is
bounded by the fixed cost of each collective removed, taken from the fastest of its set.

## Example

```text
all-reduce.1  4 KiB      all-reduce.2  16 KiB      all-reduce.3  1 KiB
```

## Fix

Set the threshold of the kind, such as `xla_gpu_all_reduce_combine_threshold_bytes`. `counterpoint
flags thresholds` lists the values at which the result changes.

## Fix safety

A merged collective waits for the last of its operands and holds all their buffers at once, so large
ones may be hidden less well. Sums do not change.

## False alarms

XLA keeps merged pipelined collectives apart from others, and its scheduler may need them apart. On
other hardware the small collectives may be hidden already.

## References

- https://github.com/openxla/xla/blob/main/xla/service/collective_combiner_utils.h
- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.core import Basis, Range
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.exposure.causes import (
    SMALL,
    Rows,
    evidence,
    exposed_ms,
    kinds,
    removing,
    shares_of,
)
from counterpoint.diagnose.exposure.opportunities import Merger
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData

CODE: Final = SMALL
NAME: Final = "small-collectives"
SINCE: Final = "0.1"

_NAMED: Final = 3


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all kinds."""
    rows = data.cached(shares_of).of(CODE)
    if not rows:
        return
    mergers = data.cached(shares_of).mergers
    fewer = sum(len(names) - 1 for merger in mergers for names in merger.sets)
    saves = _saves(data, mergers, rows)
    flags: dict[str, int] = {}
    for merger in mergers:
        flags[merger.flag] = max(merger.threshold, flags.get(merger.flag, 0))
    yield Finding(
        code=CODE,
        title=(
            f"devices wait {ms_text(exposed_ms(rows))} per step for small {kinds(rows)} that could"
            " be merged"
        ),
        detail=f"merging would remove {fewer:,} of them: {_told(mergers)}",
        saves_ms=saves,
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence(data, rows),
        remedy=advise(
            data,
            "raise the combiner's threshold",
            {name: str(value) for name, value in flags.items()},
        ),
        doubt="the scheduler may need them apart: compare the step with both thresholds",
    )


def _saves(data: StepData, mergers: Sequence[Merger], rows: Rows) -> Range:
    """Return the saving: each one removed saves at most the start of the fastest of its set."""
    by_name = {row["op"]: row for row in rows}
    most = 0.0
    for merger in mergers:
        for names in merger.sets:
            own = [by_name[name] for name in names if name in by_name]
            starts = [row["transfer_ms"] or row["median_ms"] for row in own]
            times = max((row["count"] for row in own), default=0.0)
            most += (len(own) - 1) * min(starts) * times if len(own) > 1 else 0.0
    return Range(0.0, min(most, removing(data, rows).ms.high))


def _told(mergers: Sequence[Merger]) -> str:
    largest = sorted(
        ((names, merger) for merger in mergers for names in merger.sets),
        key=lambda entry: -len(entry[0]),
    )
    texts = [
        f"{', '.join(names[:_NAMED])}"
        f"{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''}"
        f" into one{' in each iteration of their loop' if merger.in_loop else ''}"
        for names, merger in largest[:_NAMED]
    ]
    more = len(largest) - _NAMED
    return "; ".join(texts) + (f"; and {more} more sets" if more > 0 else "")
