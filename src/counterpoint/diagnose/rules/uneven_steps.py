"""Some steps take much longer than the others, or each takes longer than the one before.

## What it does

Compares the lengths of all steady steps. Where some are much longer, it sums their excess over the
others, says every how many steps one is slow, and what the host or the devices did in them that
they do not do in the others. Where steps grow, it says by how much.

## Why it costs time

A checkpoint, an evaluation, a hook or a new file of the data set every few steps is no part of a
median step, so it is easily overlooked; spread over all steps it is often the largest loss.

## How it is detected

The time in which devices work and the time in which they are idle are compared apart. Between short
and slow steps there must be a gap of a twentieth of a median step, and of one and a half times the
distance between the shortest and the longest of the short ones, of which there are at least three
in ten. Since that can be noise, the slow steps must have something that the others lack, a function
of the host or a program, or come at a fixed distance, or be far apart: by four times the scatter of
the others, and by more on CPU devices, whose cores other programs use. The saving is the excess of
the slow steps, spread over all. Slow steps of different causes are different findings; one cause is
what the host does one after the other in the same steps, an evaluation with what the host does
around it, and a checkpoint with what devices do longer meanwhile. The steps that differ are left
out of a typical step, so no other finding counts their time. If half of the steps are slow, a
typical one is, too: then the findings on the host count what it does, and this one has no saving.
Steps that compile are STEP303's. Steps grow if nine of ten pairs of steps are in order and the last
third is a fifth longer than the first.

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

from counterpoint.core import Basis, Range, Unknown
from counterpoint.core.columns import as_ranges
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import WORTH
from counterpoint.diagnose.rules.slow_remote_calls import CODE as SLOW_CALLS
from counterpoint.diagnose.rules.slow_remote_calls import lost_in_long_steps
from counterpoint.diagnose.slow_steps import SlowSteps, slow_steps, typical_are_slow
from counterpoint.diagnose.step_data import StepData
from counterpoint.diagnose.step_lengths import BuildLengths, Growth, build_lengths, growth
from counterpoint.timeline.model import Lane

CODE: Final = "STEP309"
NAME: Final = "uneven-steps"
SINCE: Final = "0.1"

_LISTED: Final = 6
_NAMED: Final = 3
_ALSO_WORK: Final = ", and devices work {other} longer"

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
    str(Lane.COMPUTE): "devices compute {ms} longer",
    str(Lane.COLLECTIVE): "devices wait {ms} longer for communication",
    str(Lane.COPY): "devices wait {ms} longer for copies",
}
_WORK: Final = "devices work {ms} longer"
_REMEDIES: Final = {
    IdleCause.INPUT: "let a thread or a process prepare batches ahead, which hides a slow one",
    IdleCause.PYTHON: "do it less often, or beside the training on a thread: asynchronous"
    " checkpoints, logging and evaluation",
}

_COUNTED: Final = Unknown("part of what findings on the host count")


def check(data: StepData) -> Iterator[Finding]:
    """Yield a finding for slow steps of each cause, or one on steps that grow."""
    if data.basis is Basis.PREDICTED:
        return
    grown = data.cached(growth)
    if grown is not None:
        yield _growing(data, grown)
        return
    builds = data.cached(build_lengths)
    if builds is not None:
        yield _by_build(data, builds)
    yield from (_slow(data, slow) for slow in data.cached(slow_steps))


def _growing(data: StepData, grown: Growth) -> Finding:
    lost = max(0.0, grown.mean_ms - grown.first_ms)
    who = "the host" if grown.by_host else "devices"
    return Finding(
        code=CODE,
        title=f"steps grow by {ms_text(grown.per_step_ms)} each:"
        f" {ms_text(grown.first_ms)} at first, {ms_text(grown.last_ms)} at last",
        detail=f"nearly every step of the profile is longer than those before it, because {who}"
        f" {'takes' if grown.by_host else 'take'} longer: the median step depends on when the"
        " profile was taken",
        # What the host does in a typical step is counted by the findings on that.
        saves_ms=_COUNTED if grown.by_host else Range(0.0, lost),
        mean_step_ms=None if grown.by_host else grown.mean_ms,
        basis=data.basis,
        evidence=(Evidence(what="the mean step over the first ones", ms=lost),),
        remedy=Remedy("find what grows: a list, a cache without a limit, or an input that slows"),
    )


def _by_build(data: StepData, builds: BuildLengths) -> Finding:
    shortest, longest = min(builds.ms.values()), max(builds.ms.values())
    ordered = sorted(builds.ms, key=lambda program: builds.ms[program])
    return Finding(
        code=CODE,
        title=f"steps take {ms_text(shortest)} to {ms_text(longest)}: {builds.function} runs as"
        f" {len(builds.ms)} programs, for other shapes or static arguments",
        detail="; ".join(
            f"{counted_noun(len(builds.steps[program]), 'step')}"
            f" ({as_ranges(builds.steps[program][:_LISTED])}) {ms_text(builds.ms[program])}"
            for program in ordered
        ),
        saves_ms=Range(0.0, builds.lost_ms),
        mean_step_ms=builds.mean_ms,
        basis=data.basis,
        evidence=(Evidence(what="the mean step over the shortest", ms=builds.lost_ms),),
        remedy=Remedy(
            "if lengths of batches differ, put those of like length together and pad less; what a"
            " step costs per example or token tells whether the long ones are slow"
        ),
    )


def _saving(slow: SlowSteps, left: float, claimed: float, *, counted: bool) -> Range | Unknown:
    if counted:
        return _COUNTED
    if left <= WORTH * slow.mean_ms and claimed:
        return Unknown(f"{SLOW_CALLS} counts it: slow messages")
    return Range(0.0, left)


def _slow(data: StepData, slow: SlowSteps) -> Finding:
    # What devices do longer may be waiting for messages that are slow.
    claimed = 0.0 if slow.by_host else data.cached(lost_in_long_steps)
    left = max(0.0, slow.lost_ms - claimed)
    # What the host does in typical steps is counted by the findings on that.
    counted = slow.by_host and typical_are_slow(data)
    return Finding(
        code=CODE,
        title=f"{_which(slow)} {ms_text(slow.excess_ms)} longer:"
        f" {ms_text(slow.lost_ms)} per step on average",
        detail=_detail(slow),
        saves_ms=_saving(slow, left, claimed, counted=counted),
        mean_step_ms=None if counted else slow.mean_ms,
        basis=data.basis,
        evidence=(
            Evidence(
                what=f"excess of {_steps(slow)}",
                ms=slow.excess_ms,
                gaps=slow.gaps,
            ),
            *(Evidence(what=what, ms=ms) for what, ms in slow.named[:_NAMED]),
        ),
        remedy=_remedy(data, slow),
    )


def _which(slow: SlowSteps) -> str:
    count = len(slow.longer_ms)
    if slow.period is not None:
        return f"every {_ordinal(slow.period)} step ({_steps(slow, bare=True)}) takes"
    if count == 1:
        return f"{_steps(slow)} takes"
    return f"{count} of {slow.count} steps ({_steps(slow, bare=True)}) take"


def _ordinal(number: int) -> str:
    words = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    return words[number - 2] if number - 2 < len(words) else f"{number}th"


def _steps(slow: SlowSteps, *, bare: bool = False) -> str:
    steps: Sequence[int] = sorted(slow.longer_ms)
    shown = as_ranges(steps[:_LISTED])
    more = f" and {len(steps) - _LISTED} more" if len(steps) > _LISTED else ""
    return f"{shown}{more}" if bare else f"{'step' if len(steps) == 1 else 'steps'} {shown}{more}"


def _detail(slow: SlowSteps) -> str:
    """Say what host or devices do in slow steps that they do not in the others."""
    own_ms, other = ms_text(slow.excess_ms - slow.other_part_ms), ms_text(slow.other_part_ms)
    where, idle = f"in {_steps(slow)}", f"devices are idle {own_ms} longer"
    if not slow.by_host:
        did = f"{where} {_DEVICES.get(slow.state, _WORK).format(ms=own_ms)}"
        did += f", as they also run {_listed(slow.programs)}" if slow.programs else ""
        also = f", and are idle {other} longer"
    elif slow.functions:
        did, also = f"{where} {idle} while the host runs {_functions(slow)}", _ALSO_WORK
    elif slow.cause is not None and slow.cause in _DOES:
        did, also = f"{where} {idle} while the host {_DOES[slow.cause]}", _ALSO_WORK
        did += f", most in {slow.named[0][0]}" if slow.named else ""
    else:
        did, also = f"{where} {idle}, and the profile does not show why", _ALSO_WORK
    did += also.format(other=other) if slow.other_part_ms else ""
    usual = ms_text(slow.short_ms)
    if len(slow.usual) == 1:
        return f"{did}; the other step takes {usual}"
    return f"{did}; the {len(slow.usual):,} other steps take {usual} each"


def _functions(slow: SlowSteps) -> str:
    """Return the functions of the host, each with its time if there are several."""
    if len(slow.functions) == 1:
        return slow.functions[0][0]
    return _listed([f"{name} ({ms_text(ms)})" for name, ms in slow.functions])


def _listed(texts: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(texts) - _NAMED
    names = [*texts[:_NAMED], *([f"{more} more"] if more > 0 else [])]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _remedy(data: StepData, slow: SlowSteps) -> Remedy:
    if not slow.by_host and slow.programs:
        text = (
            f"if {slow.programs[0]} is an evaluation, evaluate less often, on fewer batches, or on"
            " other devices; else find out why these steps need it"
        )
    elif not slow.by_host:
        text = (
            "find out why devices have more to do in these steps: batches of another length, or"
            " other programs"
        )
    elif slow.cause is not None and slow.cause in _REMEDIES:
        text = _REMEDIES[slow.cause]
    elif slow.functions:
        text = _REMEDIES[IdleCause.PYTHON]
    else:
        text = (
            "find out what these steps do that the others don't, and do it less often or beside the"
            " training"
        )
    return advise(data, text)
