"""Steps are slower while they are profiled: the profile shows its own cost.

## What it does

Compares the steps of a recorded Run inside and outside of its profile.

## Why it costs time

Training without a profile doesn't pay it. But whoever takes a profile's gaps for the program's own
mends what is not broken: the Python tracer stretches Python, and tracing kernels their launches.

## How it is detected

A Run knows when each step began and when its profile was open. The median of at least three steps
inside is compared with the Run's step time, that of the steps outside in which nothing was
compiled; a profile that makes steps 5 % longer is worth a word.

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

import math
from collections.abc import Iterator
from statistics import median_low
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.hosts import profiler_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.runs import Rank
from counterpoint.runs.scores import slowest_rank, undisturbed

CODE: Final = "STEP606"
NAME: Final = "profiler-overhead"
SINCE: Final = "0.1"

_ENOUGH: Final = 3
_SLOWER: Final = 1.05


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for the rank whose steps represent the Run."""
    found = slowest_rank(case.context.run) if case.context.run is not None else None
    if found is None or found[1].disturbed:
        return
    rank, outside = found
    inside = _profiled(rank)
    if len(inside) < _ENOUGH:
        return
    slow, usual = median_low(inside) * 1e3, outside.seconds * 1e3
    if slow <= _SLOWER * usual:
        return
    traced = any(name.startswith("$") for name in case.timeline.host_names)
    yield Finding(
        code=CODE,
        title=f"steps take {slow - usual:,.1f} ms longer while they are profiled",
        detail=(
            f"{slow:,.1f} ms by the median of {len(inside)} steps inside the profile,"
            f" {usual:,.1f} ms of {outside.steps} outside it"
            + ("; the Python tracer was on" if traced else "")
        ),
        saves_ms=Unknown("training without a profile does not pay it"),
        basis=case.basis,
        evidence=(
            Evidence(what="steps inside the profile", ms=slow),
            Evidence(what="steps outside it", ms=usual),
        ),
        remedy=Remedy(
            f"{profiler_of(case.timeline).cost_less} and fewer steps; take gaps of this profile for"
            " an upper bound"
        ),
    )


def _profiled(rank: Rank) -> tuple[float, ...]:
    """Return the seconds of the steps that began and ended while the profile was open."""
    window = rank.window
    if window is None or window.opened_s is None or rank.steps_in_bursts:
        return ()
    closed_s = window.closed_s if window.closed_s is not None else math.inf
    around = [(-math.inf, window.opened_s), (closed_s, math.inf)]
    return undisturbed(rank.steps, around)
