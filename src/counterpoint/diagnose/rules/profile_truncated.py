"""The profile lost events: it shows less than what ran.

## What it does

Reports that the profiler dropped events or that a file was cut off, so its totals can't be trusted.

## Why it costs time

It costs no time by itself. Steps at the end or single kernels may be missing, and idle time may be
unrecorded work.

## How it is detected

The rule looks for signs of this in the file: a trace.json with the maximum number of events that
XLA writes (1,000,000), or one that ends in the middle; profiler warnings of dropped events; planes
that end early.

## Example

```text
trace.json.gz    1,000,000 events    the latest are left out
```

## Fix

Read the `.xplane.pb` next to the trace.json. Profile fewer steps (three suffice) or fewer devices,
without the Python tracer (`python_tracer_level=0`), or with a lower `host_tracer_level`.

## Fix safety

The program does not change.

## False alarms

If only events of host threads were dropped, device times are right.

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


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not data.timeline.truncated:
        return
    notes = [note for note in data.timeline.notes if any(word in note for word in _WORDS)]
    yield Finding(
        code=CODE,
        title="the profile is incomplete: events were lost",
        detail="; ".join(notes) or "the file reports dropped events",
        saves_ms=Unknown("the lost events are unknown"),
        basis=data.basis,
        evidence=tuple(Evidence(what=note, ms=None) for note in notes),
        remedy=Remedy(
            "profile fewer steps, without the Python tracer (python_tracer_level=0); read the"
            " .xplane.pb beside a trace.json"
        ),
    )
