"""Exposed collectives are bound by latency: their starts and rounds take the time.

## What it does

Lists exposed collectives whose time is that of starting them and of the rounds among their ranks,
far below the rate of the links.

## Why it costs time

A collective of a kilobyte takes half as long as one of a megabyte (an all-reduce over two hosts of
eight A100: 42 and 86 us, docs/accuracy-collectives.md). In a chain of small ones, each
needed before the next can start, both the links and the device are idle. In a ring of hundreds of
ranks each part is so small that even a large message is mostly rounds.

## How it is detected

The achieved rate is compared with the capacity of the links and with what latency alone explains.
If the links are unknown, a collective counts if it has at most 64 KiB and takes ten times as long
as the slowest link would, unless at least two others of its kind and ranks show that a quarter of
its time is enough. Virtual devices of a CPU wait for its cores: there, one that takes more than
0.3 ms says nothing about latency. Collectives that could be merged are STEP103; the HLO shows how
long a chain of dependent ones is. Predictions, whose times come from the cost model, are not
judged.

## Example

```text
all-reduce.7   4 KiB among 64 devices, 48 us: 0.2% of what the links carry
```

## Fix

Use fewer collectives: one all-reduce of stacked values (losses, norms, statistics) instead of
several, once per step instead of once per layer or micro-batch. Make chains shorter. For large
collectives among many ranks: shard over fewer ranks (within a host or a domain, with replicas
across), or use a larger batch per step. On NVIDIA: NVLink SHARP (`NCCL_NVLS_ENABLE`), which needs
NVSwitch of Hopper or newer, and the low-latency protocols that NCCL chooses unless `NCCL_PROTO`
excludes them.

## Fix safety

Stacking does not change sums. Norms computed less often do change.

## False alarms

A small collective that waits for a late device looks slow. The wait is subtracted if the profile
contains all devices of a group; with a single device this is impossible.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from counterpoint.core import Range
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.environment import advise, on_virtual_devices
from counterpoint.diagnose.exposure.causes import (
    LATENCY,
    Rows,
    evidence,
    exposed_ms,
    kinds,
    longest_chain,
    removing,
    shares_of,
)
from counterpoint.diagnose.exposure.opportunities import is_small
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = LATENCY
NAME: Final = "latency-bound"
SINCE: Final = "0.1"

_NVLS: Final = "NCCL_NVLS_ENABLE"
_PROTOCOL: Final = "NCCL_PROTO"

_THREADS_MEET_MS: Final = 0.3
"""What threads need to meet in one process, if none of them waits for a core."""
_CHAIN: Final = 2
_MOST: Final = 0.5
_LONGER: Final = 4
"""A collective this many times longer than one like it is not bound by latency."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all of them."""
    rows = data.cached(shares_of).of(CODE)
    if on_virtual_devices(data.timeline):
        rows = [row for row in rows if row["own_ms"] <= _THREADS_MEET_MS * row["count"]]
    if not rows:
        return
    saving = removing(data, rows)
    first = rows[0]
    step = data.timeline.step_program
    depth = longest_chain(data, [row["op"] for row in rows if row["program"] == step])
    yield Finding(
        code=CODE,
        title=(f"devices wait {ms_text(exposed_ms(rows))} per step for {_named(rows)}"),
        detail=(
            f"{place_of(first)} takes {ms_text(first['own_ms'])} per step"
            f"{'' if first['wait_ms'] is None else ' without waiting for late devices'}:"
            f" {_why(data, first)}"
            f"{_chain(rows, depth)}"
        ),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(data, rows),
        remedy=_remedy(data, rows, depth),
        doubt=None
        if any(row["wait_ms"] is not None for row in rows)
        else "waiting for late devices may be included: the profile does not show when each"
        " arrived",
    )


def _why(data: StepData, row: dict[str, Any]) -> str:
    """Return why it takes so long: not for its start, where another one needs far less."""
    table = data.cached(collective_profile)
    alike = table.filter(
        (pl.col("kind") == row["kind"])
        & (pl.col("group_size") == row["group_size"])
        & (pl.col("bytes") >= row["bytes"])
        & (pl.col("op") != row["op"])
    )
    least = alike["median_ms"].min()
    once = float(row["own_ms"]) / max(float(row["count"]), 1.0)
    if not isinstance(least, float) or least * _LONGER > once:
        return str(row["why"])
    other = alike.filter(pl.col("median_ms") == least)["op"][0]
    return (
        f"{other} sends no less among as many ranks in {ms_text(least)}, so its start and rounds"
        f" do not take {ms_text(once)}: it waits for something, a late device or a busy link"
    )


def _named(rows: Rows) -> str:
    """Describe the collectives as small, or else by what takes their time."""
    times = sum(row["count"] for row in rows)
    if all(is_small(row) for row in rows):
        return f"{times:,.0f} small {kinds(rows)}"
    ranks = max(row["group_size"] or 0 for row in rows)
    among = f" among {ranks:,} ranks" if ranks else ""
    return f"the starts and rounds of {times:,.0f} {kinds(rows)}{among}"


def _chain(rows: Rows, depth: int) -> str:
    if not _is_chain(rows, depth):
        return ""
    return (
        f". {depth:,} of them form a chain: each needs the result of the one before, so they can't"
        " be merged"
    )


def _is_chain(rows: Rows, depth: int) -> bool:
    """Return whether most of the collectives form one chain."""
    return depth >= _CHAIN and depth > _MOST * len(rows)


def _remedy(data: StepData, rows: Rows, depth: int) -> Remedy:
    text = "use fewer of them: stack values with the same reduction, and reduce once per step"
    large = sum(row["own_ms"] for row in rows if not is_small(row))
    if large > _MOST * exposed_ms(rows):
        text = (
            "shard over fewer ranks (within a host or a domain, with replicas across, as in HSDP),"
            " so that each sends larger parts in fewer rounds; or compute more per step with a"
            " larger batch"
        )
    elif _is_chain(rows, depth):
        text = (
            "make the chain shorter: reduce once instead of in several steps, or compute on each"
            " device what the others would send it"
        )
    given = data.context.environment or data.timeline.environment
    if given.get(_NVLS) == "0":
        text += f"; {_NVLS}=0 disables the fast path within a host"
    if given.get(_PROTOCOL, "").lower() in ("simple", "^ll,ll128"):
        text += f"; {_PROTOCOL}={given[_PROTOCOL]} excludes the protocols for small messages"
    return advise(data, text)
