"""XLA compiles for more than a minute before training can begin.

## What it does

Adds up XLA's compiles of a recorded Run, and names the function that takes longest.

## Why it costs time

All devices wait while a step is compiled, at each start and after each change of the program: of a
job that is restarted often, and of every trial of a setting.

## How it is detected

The agent of `counterpoint run` records each compile of JAX. The rule fires if those of one rank
take more than a minute together; tracing and lowering, which come before, are not counted.

## Example

```python
for layer in layers:  # XLA compiles 150 copies of one layer
    x = layer(x)
```

## Fix

Stack the parameters of equal layers and run them by `jax.lax.scan`: XLA compiles one layer instead
of all. Keep compiled programs between starts: `JAX_COMPILATION_CACHE_DIR`.

## Fix safety

A scan computes the same numbers, and keeps XLA from optimizing across layers. A cache entry is used
only for the same program, settings and versions.

## False alarms

A large program that runs for days may compile for minutes. Autotuning is part of these compiles,
and its results are kept by the same cache.

## References

- https://docs.jax.dev/en/latest/persistent_compilation_cache.html
- https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.finding import Evidence, Finding
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP307"
NAME: Final = "slow-compile"
SINCE: Final = "0.1"

_LONG_S: Final = 60.0
_CACHE: Final = "JAX_COMPILATION_CACHE_DIR"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all compiles of a Run."""
    run = data.context.run
    if run is None:
        return

    from counterpoint.runs.compiles import all_compiles

    compiles = all_compiles(run)
    if compiles is None or compiles.seconds <= _LONG_S:
        return
    name = compiles.longest or "a function without a name"
    cached = _CACHE in (data.context.environment or {})
    keep = "" if cached else f"; keep compiled programs between starts: {_CACHE}=DIRECTORY"
    yield Finding(
        code=CODE,
        title=f"XLA compiles for {compiles.seconds:,.1f} s",
        detail=(
            f"{counted_noun(compiles.count, 'compile')}; the longest is {name},"
            f" {compiles.longest_s:,.1f} s"
        ),
        saves_ms=Unknown(f"{compiles.seconds:,.1f} s at each start, not per step"),
        basis=data.basis,
        evidence=(Evidence(what=name, ms=None),),
        remedy=advise(data, f"run equal layers by jax.lax.scan instead of one by one{keep}"),
    )
