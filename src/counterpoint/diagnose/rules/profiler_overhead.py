"""Steps are slower while they are profiled: the profile shows its own cost.

## What it does

Compares the steps of a recorded Run inside and outside of its profile.

## Why it costs time

Training without a profile doesn't pay it. But whoever takes a profile's gaps for the program's own
mends what is not broken: the Python tracer stretches Python, and tracing kernels their launches.

## How it is detected

A Run knows when each step began and when its profile was open. Medians of at least three steps each
are compared, the first steps left out; a profile that makes steps 5 % longer is worth a word.

## Example

```text
steps 2 to 19    101 ms
steps 20 to 24   137 ms    profiled
```

## Fix

Record without the Python tracer (`python_tracer_level=0`), with `host_tracer_level=1`, and fewer
steps. Believe device times of kernels, and gaps between them only as far as both agree.

## Fix safety

Nothing changes in the program.

## False alarms

Steps are not alike: an evaluation, a checkpoint or longer sequences may fall into the window.

## References

- https://docs.jax.dev/en/latest/profiling.html
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.recorder import recorder_of
from counterpoint.runs import Rank

CODE: Final = "STEP606"
NAME: Final = "profiler-overhead"
SINCE: Final = "0.1"

_ENOUGH: Final = 3
_WARM: Final = 2
_SLOWER: Final = 1.05


def check(case: Case) -> Iterator[Finding]:
    """At most one, of the rank whose steps stand for the Run's."""
    rank = case.context.run.timed if case.context.run is not None else None
    if rank is None:
        return
    inside, outside = _lengths(rank)
    if min(len(inside), len(outside)) < _ENOUGH:
        return
    slow, usual = median(inside) * 1e3, median(outside) * 1e3
    if slow <= _SLOWER * usual:
        return
    traced = any(name.startswith("$") for name in case.timeline.host_names)
    yield Finding(
        code=CODE,
        title=f"steps take {slow - usual:,.1f} ms longer while they are profiled",
        detail=(
            f"{slow:,.1f} ms by the median of {len(inside)} steps inside the profile,"
            f" {usual:,.1f} ms of {len(outside)} outside it"
            + ("; the Python tracer was on" if traced else "")
        ),
        saves_ms=Unknown("training without a profile does not pay it"),
        basis=case.basis,
        evidence=(
            Evidence(what="steps inside the profile", ms=slow),
            Evidence(what="steps outside it", ms=usual),
        ),
        remedy=Remedy(
            f"{recorder_of(case.timeline).cost_less} and fewer steps; take gaps of this profile for"
            " an upper bound"
        ),
    )


def _lengths(rank: Rank) -> tuple[list[float], list[float]]:
    """Seconds of steps inside the profile, and of those wholly outside it, warm-up left out."""
    window = rank.window
    if window is None or window.opened_s is None or rank.steps_in_bursts:
        return [], []
    opened, closed = window.opened_s, window.closed_s
    inside: list[float] = []
    outside: list[float] = []
    later = 0
    for before, after in zip(rank.steps[_WARM:], rank.steps[_WARM + 1 :], strict=False):
        apart = 1 if before.step is None or after.step is None else after.step - before.step
        if apart != 1:
            continue
        took = before.seconds if before.seconds is not None else after.start_s - before.start_s
        if before.start_s >= opened and (closed is None or after.start_s <= closed):
            inside.append(took)
        elif after.start_s <= opened:
            outside.append(took)
        elif closed is not None and before.start_s >= closed:
            later += 1
            # The profile is written first, and steps may wait for that.
            outside += [took] if later > _WARM else []
    return inside, outside
