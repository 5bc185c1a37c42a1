"""The profile lost events: what it shows is less than what ran.

## What it does

Says that the profiler dropped events or that a file was cut, before anybody believes its totals.

## Why it costs time

It costs none by itself. Steps at the end may be missing, kernels may lack, and idle time may be
work that nobody recorded.

## How it is detected

What the file says: a trace.json with as many events as XLA writes at most (1,000,000), or one that
ends in the middle; profiler warnings of dropped events; planes that end early.

## Example

```text
trace.json.gz    1,000,000 events    the latest are left out
```

## Fix

Read the `.xplane.pb` beside the trace.json. Profile fewer steps (three are enough), fewer devices,
without the Python tracer (`python_tracer_level=0`), or with a lower `host_tracer_level`.

## Fix safety

Nothing changes in the program.

## False alarms

Events dropped on host threads alone leave device times right.

## References

- https://github.com/jax-ml/jax/issues/21295
- https://github.com/openxla/xla/blob/main/xla/tsl/profiler/convert/xplane_to_trace_events.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP605"
NAME: Final = "profile-truncated"
SINCE: Final = "0.1"

_WORDS: Final = ("cut at", "cut off", "dropped", "truncated", "ends in the middle", "incomplete")
"""Words in readers' notes on lost data."""


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not case.timeline.truncated:
        return
    notes = [note for note in case.timeline.notes if any(word in note for word in _WORDS)]
    yield Finding(
        code=CODE,
        title="the profile is incomplete: events were lost",
        detail="; ".join(notes) or "the file says that events were dropped",
        saves_ms=Unknown("what was lost is not known"),
        basis=case.basis,
        evidence=tuple(Evidence(what=note, ms=None) for note in notes),
        remedy=Remedy(
            "profile fewer steps, without the Python tracer (python_tracer_level=0); of a"
            " trace.json read the .xplane.pb beside it"
        ),
    )
