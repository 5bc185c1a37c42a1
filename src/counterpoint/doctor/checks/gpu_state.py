"""GPUs are throttled, or not configured for long runs.

## What it does

Reads from nvidia-smi why clocks are lowered, and the state of ECC and persistence mode.

## Why it costs time

One GPU that is too hot or short of power makes all others wait at each collective. Without
persistence mode, the driver initializes a GPU again for each first program.

## How it is detected

Hardware slowdown, heat and the power brake are warnings. The power cap is ignored, since a busy GPU
reaches it. ECC off and persistence mode off are notes.

## Example

```
GPU 3: clocks lowered by heat
```

## Fix

Heat and power need an administrator: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE`.

## Fix safety

Reading changes nothing.

## False alarms

The check sees one moment, usually before any work: a GPU may become hot later. `explain` shows late
ranks.

## References

- https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
- https://docs.nvidia.com/deploy/driver-persistence/index.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC504"
NAME: Final = "gpu-state"
SINCE: Final = "0.1"

_REASONS: Final = "https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"
_PERSISTENCE: Final = "https://docs.nvidia.com/deploy/driver-persistence/index.html"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each slowed GPU, and common ones for the other settings."""
    gpus = facts.gpus
    if not facts.has_driver:
        yield not_applicable(gpus.why_none)
        return
    if not gpus.cards:
        yield unknown(gpus.why_none)
        return
    faults = [*_slowed(facts), *_off(facts)]
    yield from faults
    if not faults:
        names = ", ".join(sorted({card.name for card in gpus.cards}))
        yield ok(f"{len(gpus.cards)} x {names}, not throttled")


def _slowed(facts: HostFacts) -> Iterator[CheckResult]:
    for card in facts.gpus.cards:
        if card.slowed_by:
            yield CheckResult(
                status=Status.WARNING,
                found=f"GPU {card.index}: clocks lowered by {', '.join(card.slowed_by)}",
                wanted="full clocks",
                why="all other GPUs wait for it at each collective",
                remedy=f"nvidia-smi -i {card.index} -q -d PERFORMANCE,TEMPERATURE",
                source=_REASONS,
            )


def _off(facts: HostFacts) -> Iterator[CheckResult]:
    cards = facts.gpus.cards
    cold = [str(card.index) for card in cards if card.persistence is False]
    bare = [str(card.index) for card in cards if card.ecc is False]
    if cold:
        yield CheckResult(
            status=Status.NOTE,
            found=f"persistence mode is off on GPU {', '.join(cold)}",
            wanted="on",
            why="the first program after a pause waits until the driver has initialized the GPU",
            remedy="sudo nvidia-smi -pm 1",
            source=_PERSISTENCE,
        )
    if bare:
        yield CheckResult(
            status=Status.NOTE,
            found=f"ECC is off on GPU {', '.join(bare)}",
            wanted="on, for training",
            why="bit errors go unnoticed",
            remedy="sudo nvidia-smi -e 1   # takes effect after a reboot",
            source="https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceCommands.html",
        )
