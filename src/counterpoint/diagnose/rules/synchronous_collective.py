"""Collectives are synchronous: the device does nothing else while they run.

## What it does

Lists collectives that run on the main stream, and why each is not asynchronous.

## Why it costs time

A synchronous collective hides nothing: all of its time is added to the step.

## How it is detected

In the program's HLO, the rule finds collectives without a done, or that XLA marked synchronous. The
cause is found by exclusion:

- A flag requests it (`xla_gpu_disable_async_collectives`).
- XLA runs it as a kernel of its own.
- The latency-hiding scheduler did not run: it was disabled, it is not the default on this chip, or
  the program contains something that it has no model for (collective-broadcast, ragged-all-to-all,
  computation on the host).
- The scheduler ran and placed nothing between start and done, although independent work exists.
- The loop iteration needs the result at once.
- No other work is left to overlap it.

On TPUs, and if the profile names instructions without their HLO, flags and passes are not
considered.

## Example

```sh jaxlib=0.10.2 chip=A100
export XLA_FLAGS=--xla_gpu_disable_async_collectives=allreduce
```

## Fix

The fix depends on the cause: remove the flag; enable the scheduler; give it measured costs (PGLE)
if it left work unused; pipeline the loop. If nothing can overlap it, only fewer bytes help: another
sharding, a smaller type, or fewer collectives for the same work.

## Fix safety

Numbers do not change. Asynchronous collectives hold their buffers longer: compare the peak memory.

## False alarms

A collective of a few microseconds is faster on the main stream than on another stream. One whose
result is needed at once is synchronous for good reason.

## References

- https://github.com/openxla/xla/blob/main/xla/hlo/transforms/collectives/convert_async_collectives_to_sync.cc
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
- https://github.com/openxla/xla/blob/main/xla/service/gpu/model/sol_latency_estimator.cc
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise, given_flags, on_gpu
from counterpoint.diagnose.exposure.causes import (
    SYNCHRONOUS,
    Rows,
    evidence,
    exposed_ms,
    hiding,
    kinds,
    meanwhile,
    removing,
    shares_of,
)
from counterpoint.diagnose.exposure.synchrony import PIPELINED, SyncCause, pipelining_flag
from counterpoint.diagnose.finding import Finding, Remedy, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.flags.versions import LHS
from counterpoint.flags.versions import SYNCHRONOUS as DISABLED

CODE: Final = SYNCHRONOUS
NAME: Final = "synchronous-collective"
SINCE: Final = "0.1"

_FEWER: Final = "send fewer bytes (smaller type, other sharding), or once for several micro-batches"
_WORDS: Final[Mapping[SyncCause, str]] = {
    SyncCause.REQUESTED: f"remove --{DISABLED}",
    SyncCause.KERNEL: "nothing if it is short; otherwise fewer and larger shards",
    SyncCause.SCHEDULER_OFF: "enable the latency-hiding scheduler",
    SyncCause.LEFT_ALONE: "give XLA's scheduler measured costs: a PGLE profile of this program;"
    " if it lacked memory, reduce memory use elsewhere",
    SyncCause.LOOP: "move it to another iteration of its loop",
    SyncCause.NOTHING: _FEWER,
    SyncCause.UNKNOWN: f"give it work to overlap, such as the other half of the batch; or {_FEWER}",
}


def check(data: StepData) -> Iterator[Finding]:
    """Yield one finding per cause: each has its own remedy."""
    rows = data.cached(shares_of).of(CODE)
    for cause in SyncCause:
        own = [row for row in rows if data.cached(shares_of).synchronous[row["op"]].cause is cause]
        if own:
            yield _finding(data, cause, own)


def _finding(data: StepData, cause: SyncCause, rows: Rows) -> Finding:
    first = rows[0]
    reason = data.cached(shares_of).synchronous[first["op"]]
    within = reason.can_change and cause is not SyncCause.LOOP
    saving = hiding(data, rows) if within else removing(data, rows)
    return Finding(
        code=CODE,
        title=f"devices wait {ms_text(exposed_ms(rows))} per step for synchronous {kinds(rows)}",
        detail=(
            f"{counted_noun(len(rows), 'instruction')}, first {place_of(first)} with"
            f" {ms_text(first['own_ms'])}: synchronous because {reason.why}"
            + (meanwhile(data, rows) if reason.can_change else "")
        ),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(data, rows),
        remedy=_remedy(data, cause, rows),
        doubt=None,
    )


def _remedy(data: StepData, cause: SyncCause, rows: Rows) -> Remedy:
    flags: dict[str, str] = {}
    if cause is SyncCause.SCHEDULER_OFF:
        flags = {LHS: "true"}
    elif cause is SyncCause.REQUESTED:
        flags = {DISABLED: _without(data, {row["kind"] for row in rows})}
    elif cause is SyncCause.LOOP:
        kept = dict.fromkeys(row["kind"] for row in rows if row["kind"] in PIPELINED)
        flags = {pipelining_flag(kind): "true" for kind in kept}
    if not on_gpu(data):  # no flags of XLA:GPU, and no PGLE, which reaches no collectives of TPUs
        return advise(data, _WORDS[SyncCause.UNKNOWN])
    return advise(data, _WORDS[cause], flags)


def _without(data: StepData, kinds_: set[str]) -> str:
    """Return the flag's value without these kinds; empty if none remain."""
    given = (given_flags(data) or {}).get(DISABLED, "")
    dropped = {"ALLCOLLECTIVES", *(kind.replace("-", "").upper() for kind in kinds_)}
    words = [word for word in given.split(",") if word]
    return ",".join(word for word in words if word.upper().replace("_", "") not in dropped)
