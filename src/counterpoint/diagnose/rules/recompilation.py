"""Functions are compiled again while training runs.

## What it does

Finds compiles inside of steps: the host's compiler events in the profile, and, of a recorded Run,
functions that were compiled again after its first three steps. Names the function, and where the
profile carries both builds, the argument whose shape differs.

## Why it costs time

A compile takes seconds to minutes, and the devices of all hosts wait for it at the next collective.
Where shapes differ from batch to batch it comes back again and again.

## How it is detected

Compiler events longer than a millisecond that begin between the first steady step and the end of
the last. They cost what the steps that they touch take longer than the others, spread over all
steps. Of a Run: compiles of a function that had been compiled before, later than its third step.

## Example

```python
for batch in batches:  # the last one of each epoch is shorter
    state = step(state, batch)
```

## Fix

Make shapes the same: pad or drop the last batch, bucket sequence lengths, pass what changes as an
array and not as a Python number or `static_argnums`. `jax.config.update("jax_explain_cache_misses",
True)` prints why JAX compiles again. A compilation cache (`jax_compilation_cache_dir`) makes each
shape cost once.

## Fix safety

Padding changes the numbers unless it is masked out.

## False alarms

Functions compiled for the first time inside of a profile (an evaluation, a checkpoint) come once. A
function that a program makes anew in each step (a lambda, a `partial`) is compiled anew, too: there
the fix is to make it once.

## References

- https://docs.jax.dev/en/latest/persistent_compilation_cache.html
- https://docs.jax.dev/en/latest/config_options.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.basis import Range
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.host.compiles import (
    WARM,
    Compiled,
    compiled_in_run,
    compiled_in_steps,
    per_step_ms,
    shapes_apart,
)

CODE: Final = "STEP303"
NAME: Final = "recompilation"
SINCE: Final = "0.1"

_NAMED: Final = 5


def check(case: Case) -> Iterator[Finding]:
    """At most one: what the profile saw, else what the Run recorded."""
    found = [*_in_profile(case)] or [*_in_run(case)]
    yield from found


def _in_profile(case: Case) -> Iterator[Finding]:
    seen = compiled_in_steps(case)
    if seen is None:
        return
    what = ", ".join(seen.names[:_NAMED]) or "a function that the profile does not name"
    yield Finding(
        code=CODE,
        title=(
            f"the host compiles for {seen.ms:,.1f} ms within {len(seen.steps)} of the profile's"
            " steps"
        ),
        detail=(
            f"{what}; this makes steps {seen.cost_ms:,.2f} ms longer, spread over all"
            f"{_shapes(case, seen.names)}"
        ),
        saves_ms=Range(0.0, seen.cost_ms),
        basis=case.basis,
        evidence=tuple(Evidence(what=name, ms=None) for name in seen.names[:_NAMED]),
        remedy=_remedy(),
        doubt=_doubt(case, seen),
    )


def _doubt(case: Case, seen: Compiled) -> str | None:
    first = set(case.timeline.steps["step"].unique().sort().to_list()[:WARM])
    if case.context.run is None and seen.steps <= first:
        return "these are the profile's first steps: if the program's, too, they always compile"
    return None


def _in_run(case: Case) -> Iterator[Finding]:
    run = case.context.run
    again = compiled_in_run(run) if run is not None else {}
    if run is None or not again:
        return
    seconds = sum(took for _, took in again.values())
    ranked = sorted(again.items(), key=lambda it: -it[1][1])
    times = sum(count for count, _ in again.values())
    yield Finding(
        code=CODE,
        title=f"{times} compiles after the run's first steps take {seconds:,.1f} s",
        detail=(
            "; ".join(f"{name} {n} times, {s:,.1f} s" for name, (n, s) in ranked[:_NAMED])
            + _shapes(case, tuple(name for name, _ in ranked))
        ),
        saves_ms=Range(0.0, per_step_ms(run, seconds)),
        basis=case.basis,
        evidence=tuple(
            Evidence(what=name, ms=per_step_ms(run, took)) for name, (_, took) in ranked[:_NAMED]
        ),
        remedy=_remedy(),
    )


def _shapes(case: Case, names: tuple[str, ...]) -> str:
    for name in names:
        apart = shapes_apart(case.timeline.programs, name)
        if apart is not None:
            return f"; an argument of {name} is {apart[0]} and then {apart[1]}"
    return ""


def _remedy() -> Remedy:
    return Remedy(
        "give the function the same shapes in each step (pad or drop the last batch, bucket"
        " lengths); JAX_EXPLAIN_CACHE_MISSES=1 prints why it compiles again"
    )
