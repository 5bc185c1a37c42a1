"""Some steps take much longer than the others, or each takes longer than the one before.

## What it does

Compares the lengths of all steady steps. Where some are much longer, it sums their excess over the
others, says every how many steps one is slow, and what the host or the devices did in them that
they do not do in the others. Where steps grow, it says by how much.

## Why it costs time

A checkpoint, an evaluation, a hook or a new file of the data set every few steps is no part of a
median step, so it is easily overlooked; spread over all steps it is often the largest loss.

## How it is detected

Between the lengths of short and of slow steps there must be a gap of a twentieth of a short step,
and of one and a half times the distance between the shortest and the longest of the short ones. At
least three in ten steps are short. The saving is the excess of the slow steps, spread over all. The
share of it in which devices are idle is attributed to the host as in STEP301 to STEP305. Steps grow
if nine of ten pairs of steps are in order and the last third is a fifth longer than the first.

## Example

```text
step    | 12        | 13        | 14        | 15                                | 16
device  | train     | train     | train     | train |      (idle)               | train
python  |                                   | $train.py:88 save_checkpoint      |
```

## Fix

Do it less often, or beside the training: save checkpoints asynchronously (Orbax does), evaluate on
other devices, open the next file on a thread ahead of its use, and log from a thread. Steps of
several lengths because of several shapes: batches of like lengths, or padding to fewer lengths.
Steps that grow: look for a list that grows, a cache without a limit, or an input that becomes
slower.

## Fix safety

An asynchronous checkpoint needs memory for a copy of the state.

## False alarms

A profile of few steps may have none or several of the slow ones, so the share in a long run can
differ: what counts is how often it happens. The profiler's own start and stop are no part of it.

## References

- Orbax, asynchronous checkpointing:
  https://orbax.readthedocs.io/en/latest/guides/checkpoint/async_checkpointing.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.columns import as_ranges
from counterpoint.diagnose.attribution import IDLE, STATES
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import CAUSES, IdleCause
from counterpoint.diagnose.host.idle import IdleTime, idle_of
from counterpoint.diagnose.slow_steps import Growth, SlowSteps, all_of, growth, slow_steps
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Lane

CODE: Final = "STEP309"
NAME: Final = "uneven-steps"
SINCE: Final = "0.1"

_LISTED: Final = 6
_NAMED: Final = 3
_WORTH_NAMING: Final = 0.1
"""Share of the excess from which on an event of the host is evidence."""

_DOES: Final = {
    IdleCause.COMPILE: "compiles",
    IdleCause.BLOCKED: "waits for a result",
    IdleCause.RUNTIME: "is held back by the runtime",
    IdleCause.INPUT: "fetches the next batch",
    IdleCause.THREAD: "waits for another thread",
    IdleCause.TRANSFER: "copies data to devices",
    IdleCause.DISPATCH: "calls jitted functions",
    IdleCause.LAUNCHING: "launches kernels",
    IdleCause.EAGER: "launches little programs",
    IdleCause.PYTHON: "runs Python",
    IdleCause.CONTENDED: "is held up by another thread",
    IdleCause.OTHERS: "waits for other devices",
}
_DEVICES: Final = {
    str(Lane.COMPUTE): "devices compute longer",
    str(Lane.COLLECTIVE): "devices wait for communication",
    str(Lane.COPY): "devices wait for copies",
}
_REMEDIES: Final = {
    IdleCause.INPUT: "let a thread or a process prepare batches ahead, which hides a slow one",
    IdleCause.PYTHON: "do it less often, or beside the training on a thread: asynchronous"
    " checkpoints, logging and evaluation",
    IdleCause.COMPILE: "keep shapes and static arguments the same, or compile all of them before"
    " training",
}


def check(data: StepData) -> Iterator[Finding]:
    """Yield a finding on slow steps or on steps that grow."""
    if data.basis is Basis.PREDICTED:
        return
    grown = growth(data)
    if grown is not None:
        yield _growing(data, grown)
        return
    slow = slow_steps(data)
    if slow is not None:
        yield _slow(data, slow)


def _growing(data: StepData, grown: Growth) -> Finding:
    lost = max(0.0, grown.mean_ms - grown.first_ms)
    return Finding(
        code=CODE,
        title=f"steps grow by {ms_text(grown.per_step_ms)} each:"
        f" {ms_text(grown.first_ms)} at first, {ms_text(grown.last_ms)} at last",
        detail="nearly every step of the profile is longer than those before it, so the median step"
        " depends on when the profile was taken",
        saves_ms=Range(0.0, lost),
        mean_step_ms=grown.mean_ms,
        basis=data.basis,
        evidence=(Evidence(what="the mean step over the first one", ms=lost),),
        remedy=Remedy("find what grows: a list, a cache without a limit, or an input that slows"),
    )


def _slow(data: StepData, slow: SlowSteps) -> Finding:
    apart = all_of(data, slow.longer_ms)
    usual = all_of(data, _short(data, slow))
    excess = slow.lost_ms * slow.count / len(slow.longer_ms)
    idle, usually = apart.cached(idle_of), usual.cached(idle_of)
    states = _states(apart)
    more = {state: ms - _states(usual)[state] for state, ms in states.items()}
    state = max(more, key=lambda state: more[state])
    cause = _cause(idle, usually) if state == IDLE else None
    named = _named(idle, usually, cause, _WORTH_NAMING * excess) if cause else ()
    return Finding(
        code=CODE,
        title=f"{_which(slow)} {ms_text(excess)} longer:"
        f" {ms_text(slow.lost_ms)} per step on average",
        detail=_detail(slow, state, cause, more[state], named),
        saves_ms=Range(0.0, slow.lost_ms),
        mean_step_ms=slow.mean_ms,
        basis=data.basis,
        evidence=(
            Evidence(
                what=f"excess of {_steps(slow)} over the others' {ms_text(slow.short_ms)}",
                ms=excess,
                gaps=idle.gaps(cause) if cause else (),
            ),
            *(Evidence(what=what, ms=ms) for what, ms in named),
        ),
        remedy=_remedy(data, cause),
    )


def _short(data: StepData, slow: SlowSteps) -> list[int]:
    steady = data.timeline.steps.filter("steady")["step"].unique().sort().to_list()
    return [step for step in steady if step not in slow.longer_ms]


def _states(of: StepData) -> dict[str, float]:
    summed = of.attributed.group_by("state").agg(pl.col("ps").sum())
    found = {state: ps * of.selection.scale for state, ps in summed.rows()}
    return {str(state): found.get(str(state), 0.0) for state in (*STATES, IDLE)}


def _cause(idle: IdleTime, usually: IdleTime) -> IdleCause:
    """Return the cause of idle time of which slow steps have most in excess."""
    return max(CAUSES, key=lambda cause: idle.ms(cause) - usually.ms(cause))


def _named(
    idle: IdleTime, usually: IdleTime, cause: IdleCause, worth: float
) -> tuple[tuple[str, float], ...]:
    """Return events of the host that slow steps have more of, with their excess."""
    known = dict(usually.top(cause, count=1000))
    more = [(what, ms - known.get(what, 0.0)) for what, ms in idle.top(cause, count=1000)]
    ranked = sorted(more, key=lambda item: -item[1])
    return tuple((what, ms) for what, ms in ranked[:_NAMED] if ms > worth)


def _which(slow: SlowSteps) -> str:
    count = len(slow.longer_ms)
    if slow.period is not None:
        return f"every {_ordinal(slow.period)} step ({_steps(slow, bare=True)}) takes"
    return f"{count} of {slow.count} steps {'takes' if count == 1 else 'take'}"


def _ordinal(number: int) -> str:
    words = {2: "second", 3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 8: "eighth", 10: "tenth"}
    return words.get(number, f"{number}th")


def _steps(slow: SlowSteps, *, bare: bool = False) -> str:
    steps: Sequence[int] = sorted(slow.longer_ms)
    shown = as_ranges(steps[:_LISTED])
    more = f" and {len(steps) - _LISTED} more" if len(steps) > _LISTED else ""
    return f"{shown}{more}" if bare else f"{'step' if len(steps) == 1 else 'steps'} {shown}{more}"


def _detail(
    slow: SlowSteps,
    state: str,
    cause: IdleCause | None,
    ms: float,
    named: tuple[tuple[str, float], ...],
) -> str:
    if state in _DEVICES:
        did = f"in {_steps(slow)} {_DEVICES[state]}, {ms_text(ms)}"
    elif cause in _DOES:
        did = (
            f"in {_steps(slow)} devices are idle {ms_text(ms)} longer while the host {_DOES[cause]}"
        )
        did += f", most in {named[0][0]}" if named else ""
    else:
        did = (
            f"in {_steps(slow)} devices are idle {ms_text(ms)} longer,"
            " and the profile does not show why"
        )
    return (
        f"{did}; the other {slow.count - len(slow.longer_ms)} steps take {ms_text(slow.short_ms)}"
    )


def _remedy(data: StepData, cause: IdleCause | None) -> Remedy:
    return advise(
        data,
        _REMEDIES.get(
            cause,
            "find out what these steps do that the others don't, and do it less"
            " often or beside the training",
        )
        if cause
        else "find out why devices have more to do in these steps: batches of another length, or"
        " other programs",
    )
