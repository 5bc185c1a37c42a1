"""The CPU governor saves power.

## What it does

Checks the frequency governor of each core.

## Why it costs time

Python, the input pipeline and kernel launches run on single cores. At the lowest clock they are
several times slower, and the GPU waits.

## How it is detected

`/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` is `powersave`, and the driver is one that
then keeps the lowest clock (acpi-cpufreq, cppc). With intel_pstate and amd-pstate, `powersave`
follows the load, which is a note.

## Example

```
powersave on 96 cores (acpi-cpufreq)
```

## Fix

`sudo cpupower frequency-set -g performance`

## Fix safety

The host draws more power when idle.

## References

- https://docs.kernel.org/admin-guide/pm/cpufreq.html
- https://docs.kernel.org/admin-guide/pm/intel_pstate.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC502"
NAME: Final = "cpu-governor"
SINCE: Final = "0.1"

_FOLLOWS_LOAD: Final = ("intel_pstate", "amd-pstate", "amd-pstate-epp", "amd_pstate")


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the governors in use."""
    governors, driver = facts.machine.governors, facts.machine.frequency_driver
    saving = governors.get("powersave", 0)
    if not governors:
        yield not_applicable("the kernel sets no frequencies on this host (as in virtual machines)")
    elif not saving:
        yield ok(", ".join(f"{name} on {count} cores" for name, count in governors.items()))
    else:
        adapts = driver in _FOLLOWS_LOAD
        yield CheckResult(
            status=Status.NOTE if adapts else Status.WARNING,
            found=f"powersave on {saving} cores ({driver or '?'})",
            wanted="performance",
            why="the clock follows the load, with a delay"
            if adapts
            else "cores run at their lowest clock, and the GPU waits for Python",
            remedy="sudo cpupower frequency-set -g performance",
            source="https://docs.kernel.org/admin-guide/pm/cpufreq.html",
        )
