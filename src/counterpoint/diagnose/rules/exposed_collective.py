"""Devices wait for asynchronous communication that nothing hides.

## What it does

Lists asynchronous collectives that run while their device computes nothing, and the work that could
have overlapped them.

## Why it costs time

A collective that ends after the work that overlaps it makes the main stream wait. The links may be
fast enough: then the schedule starts it too late, or waits for it too early.

## How it is detected

The rule takes the time of a collective during which its device does not compute, minus the wait for
the last device (STEP105). Collectives that a more specific rule explains are left out: synchronous
ones (STEP102), small ones that could be merged (STEP103), large ones at an end of the step
(STEP104), and those limited by their links (STEP106, STEP107).

Independent work is in the same computation, and neither feeds the collective nor needs its result.
The saving is at most what that work covers, and at most what the simulator gains for the same
schedule without these collectives. The detail also states the gain if all work that does not need
them continued in the current order. A collective with many operands that is far slower than others
of its kind and size is described as such. In a prediction, transfer times come from the cost model;
collectives with too little work beside them form a finding of their own, with their price.

## Example

```text
main stream      backward layer 2 | (waits)        | backward layer 1
communication    reduce-scatter of layer 3 ........|
```

## Fix

Give the scheduler measured costs with a PGLE profile of this program (`counterpoint pgle auto`),
and make sure that it runs. Collectives of a scanned layer are hidden by moving them to another
iteration: `xla_gpu_enable_pipelined_all_gather` and its siblings, which take memory.

## Fix safety

Numbers do not change. More buffers are in use at a time: compare the peak memory.

## False alarms

Without HLO in the profile it is unknown whether a collective was asynchronous and what could
overlap it. The saving is then bounded by the exposed time only.

## References

- https://github.com/openxla/xla/blob/main/xla/service/latency_hiding_scheduler.cc
- https://docs.jax.dev/en/latest/gpu_performance_tips.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from counterpoint.core import Basis, Range
from counterpoint.diagnose.collectives.bound import Bound
from counterpoint.diagnose.environment import advise, on_gpu
from counterpoint.diagnose.exposure.causes import (
    EXPOSED,
    Rows,
    Saving,
    evidence,
    exposed_ms,
    hiding,
    kinds,
    meanwhile,
    removing,
    shares_of,
)
from counterpoint.diagnose.exposure.synchrony import (
    PIPELINED,
    SchedulerState,
    pipelining_flag,
    scheduler_of,
)
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.pgle_use import use_of
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.flags.versions import LHS
from counterpoint.hlo.schedule import in_loop

CODE: Final = EXPOSED
NAME: Final = "exposed-collective"
SINCE: Final = "0.1"

_ELSEWHERE: Final = (
    "give it more work to overlap: start it earlier in the program, alternate two halves of the"
    " batch, or send fewer bytes"
)
_NO_WORK: Final = (
    "send fewer bytes (a narrower type, fewer devices in it); use a larger batch on each device, by"
    " which weights and gradients do not grow; or alternate two halves of the batch, so that one is"
    " computed while the other is sent"
)
"""Where all other work of the computation depends on the collective or feeds it."""

_NEARLY: Final = 0.99

_OF_OTHERS: Final = (
    ". Not all devices of the program are in the profile: any part of this may be waiting for one"
    " that comes late, which shorter or hidden transfers do not change; the profiles of all,"
    " explained together, tell it"
)


def check(data: StepData) -> Iterator[Finding]:
    """Yield a finding for all that could be overlapped; for predictions, one for the others."""
    rows = data.cached(shares_of).of(CODE)
    alone = [row for row in rows if row["bound"] == Bound.TOO_LITTLE]
    others = [row for row in rows if row["bound"] != Bound.TOO_LITTLE]
    yield from (_finding(data, group) for group in (others, alone) if group)


def _finding(data: StepData, rows: Rows) -> Finding:
    looped = [row["kind"] for row in rows if _is_looped(data, row["op"])]
    saving = removing(data, rows) if looped else hiding(data, rows)
    lacks_others = data.basis is not Basis.PREDICTED and _lacks_others(data, rows)
    if lacks_others and saving.ms.high >= exposed_ms(rows) * _NEARLY:
        saving = Saving(saving.ms, data.basis)  # all that was measured, whatever a simulation adds
    parts = data.breakdown
    whole = parts.collective_exposed_ms + parts.collective_hidden_ms
    hidden = parts.collective_hidden_ms / whole if whole else 0.0
    first = rows[0]
    return Finding(
        code=CODE,
        title=f"devices wait {ms_text(exposed_ms(rows))} per step for {kinds(rows)}",
        detail=(
            f"{hidden:.0%} of {ms_text(whole)} of communication is hidden behind compute; of the"
            f" rest, {place_of(first)} takes {ms_text(first['own_ms'])} per step,"
            f" {_times(first['count'])}: {first['why'] or _beside(first)}{_too_long(data, first)}"
            f"{_OF_OTHERS if lacks_others else meanwhile(data, rows)}"
        ),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(data, rows),
        remedy=_remedy(data, rows, looped),
        doubt=None
        if data.program
        else "without HLO in the profile, work that could overlap them is unknown",
    )


def _lacks_others(data: StepData, rows: Rows) -> bool:
    """Return whether the program runs on devices of other processes that were not read."""
    program = data.program
    sizes = [row["group_size"] or 0 for row in rows]
    if program is not None:
        sizes.append(program.num_partitions * program.num_replicas)
    return max(sizes, default=0) > len(data.timeline.devices)


def _beside(row: dict[str, Any]) -> str:
    """Describe what could overlap the collective, if the network analysis has no reason."""
    if row["movable_ms"] is None:
        return "work that could overlap it is unknown"
    if not row["movable_ms"]:
        return "all other work of its computation depends on it or feeds it"
    return f"{ms_text(row['movable_ms'])} of other work of its computation could overlap it"


def _times(count: float) -> str:
    """Return how often a collective is executed in a step; what follows is of one execution."""
    return "in one execution" if count == 1 else f"in {count:,.3g} executions; of each"


def _too_long(data: StepData, row: dict[str, Any]) -> str:
    """Say that no schedule hides the collective, if this is so.

    Its transfer is that of the device that arrives last. It may take longer than what the others
    need once they have waited, so the mean over devices of that is a shorter time.
    """
    parts = (row["mean_transfer_ms"], row["slack_ms"], row["movable_ms"])
    if row["bound"] == Bound.TOO_LITTLE:
        return ""  # `why` says so already
    if None in parts or row["mean_transfer_ms"] <= row["slack_ms"] + row["movable_ms"]:
        return ""
    last = " on the device that arrives last" if row["wait_ms"] else ""
    steps = data.selection.windows["step"].n_unique()
    mean = " in the mean of all executions" if row["count"] != 1 else " in the mean of the steps"
    if row["count"] == 1 == steps:
        mean = ""
    return (
        f". Its transfer, {row['mean_transfer_ms']:,.3g} ms{last}{mean}, is"
        f" longer than all work that could overlap it: {row['slack_ms']:,.3g} ms beside it,"
        f" {row['movable_ms']:,.3g} ms elsewhere"
    )


def _remedy(data: StepData, rows: Rows, looped: Sequence[str]) -> Remedy:
    if rows[0]["bound"] == Bound.OPERANDS:
        return advise(data, _fewer(rows[0]["kind"]))
    none = all(row["movable_ms"] == 0 for row in rows) and not looped
    little = all(row["bound"] == Bound.TOO_LITTLE for row in rows)
    more_work = _NO_WORK if none else _ELSEWHERE
    if not on_gpu(data):
        return advise(data, more_work)
    if none or little:
        pipelining = _pipelining(data, looped)
        moved = "; or move collectives of the loop to another iteration" if pipelining else ""
        return advise(data, more_work + moved, pipelining)
    scheduler = scheduler_of(data)
    flags = {} if scheduler.ran else {LHS: "true"}
    pipelining = _pipelining(data, looped)
    words = _words(scheduler, _costs(data), pipelined=bool(pipelining))
    return advise(data, words, flags | pipelining)


def _pipelining(data: StepData, looped: Sequence[str]) -> dict[str, str]:
    """Return the flags that move collectives of these kinds, where they are not on already."""
    flags = {pipelining_flag(kind): "true" for kind in looped if kind in PIPELINED}
    return dict(advise(data, "", flags).flags)


def _fewer(kind: str) -> str:
    """Advise on collectives with many operands."""
    from counterpoint.flags.combiner import KINDS
    from counterpoint.flags.thresholds import flag_of

    flag = f" (a smaller --{flag_of(kind)})" if kind in KINDS else ""
    return (
        f"merge fewer values into one collective{flag}, or keep them in one array from the start"
        " (stacked layers)"
    )


def _costs(data: StepData) -> str:
    """Advise a PGLE profile, or a check of the one that was given."""
    use = use_of(data)
    if use is not None and (use.path or use.auto):
        return "check that the PGLE profile fits this program: counterpoint pgle check"
    return "give the latency-hiding scheduler measured costs: a PGLE profile of this program"


def _words(scheduler: SchedulerState, costs: str, *, pipelined: bool) -> str:
    if scheduler.ran is False:
        first = f"enable the latency-hiding scheduler: {scheduler.why}"
    elif scheduler.ran is None:
        first = f"make sure that the latency-hiding scheduler runs; then {costs}"
    else:
        first = costs
    more = "; move collectives of the loop to another iteration" if pipelined else ""
    return f"{first}{more}"


def _is_looped(data: StepData, name: str) -> bool:
    program = data.program
    instruction = program.instruction(name) if program is not None else None
    return (
        program is not None
        and instruction is not None
        and in_loop(program, instruction.computation)
    )
