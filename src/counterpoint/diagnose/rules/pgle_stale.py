"""The scheduler was given a PGLE profile of another program.

## What it does

Holds the profile that the settings name against the program that ran.

## Why it costs time

XLA looks costs up by names, which it counts as it makes instructions. Of another build the same
name stands for another operation: the scheduler then works by wrong costs, which can be worse than
none. A profile whose names bear another fingerprint it drops, and guesses.

## How it is detected

On GPUs, where the program's HLO is there and the profile still lies where the settings say. The
fingerprint that the program had before it was scheduled is in the profile's names or in the head
that `counterpoint pgle make` writes: another one there means another program. At most what is
exposed of asynchronous collectives is saved (STEP101; not to be added).

## Example

```text
profile    made of 1f0c...    (before the batch was doubled)
program    97c3...
```

## Fix

Make the profile anew from a run of this program, under the flags it is to be used under:
`counterpoint pgle make`, then `counterpoint pgle check`.

## Fix safety

Numbers do not change; the schedule and its memory do, as with any profile.

## False alarms

A profile may have been replaced since the run. Where the program differs in little, most costs are
right all the same. Ranks may hold different builds of one program: the profile may be of another
rank's.

## References

- https://github.com/openxla/xla/blob/main/xla/service/profile_guided_latency_estimator.cc
- docs/guide/pgle-check.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.exposure.causes import evidence, exposed_ms, hiding
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.pgle_use import coverage_of, ill_informed, use_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.pgle.lookups import ProfileFit

CODE: Final = "STEP603"
NAME: Final = "pgle-stale"
SINCE: Final = "0.1"

_WRONG: Final = (ProfileFit.STALE, ProfileFit.FOREIGN)


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    rows = ill_informed(case)
    use = use_of(case)
    if not rows or use is None or use.path is None:
        return
    coverage = coverage_of(case, use.path)
    if coverage is None or coverage.staleness.fit not in _WRONG:
        return
    staleness = coverage.staleness
    saving = hiding(case, rows)
    yield Finding(
        code=CODE,
        title=f"the PGLE profile is of another program, and {exposed_ms(rows):,.2f} ms are exposed",
        detail="; ".join((f"{use.path}: {staleness.reason}", *staleness.differences)),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(case, rows),
        remedy=advise(
            case,
            "make the profile anew of this recording: counterpoint pgle make; or run without it",
        ),
        doubt="the file may have been replaced since",
    )
