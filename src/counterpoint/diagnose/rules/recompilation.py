"""Functions are compiled again.

## What it does

Finds compiles within steps: the compiler events of the host in the profile and, for a recorded Run,
functions that were compiled again, at the start of training or later. Names the function, the time
of its further compiles, and the argument whose shape, sharding or layout differs.

## Why it costs time

A compile takes seconds to minutes, and the devices of all hosts wait for it at the next collective.
If shapes differ from batch to batch, it recurs.

## How it is detected

The rule finds compiler events longer than a millisecond that start between the first steady step
and the end of the last. Their cost is the excess of the steps they touch over the others, spread
over all steps: the saving is one of the mean step, since a median one may compile nothing. Only
the outermost function of a call is named: those that it calls are traced within it. What differs is
told by the parameters of the builds; where these are equal, by whether `jax.jit` was called in the
same steps, if Python was recorded. Where the compiler did not run, the program came from JAX's
compilation cache, but was traced and lowered to look for it. In a
Run, it finds compiles, after the third step, of a function that had been compiled before, and
spreads them over the Run's steps. Earlier ones cost time once and are reported without a saving per
step: those of the step's own function, and others that one source line compiles again for a second
or more. The lowered programs that a Run keeps show the arguments of each build.

## Example

```python
for batch in batches:  # the last one of each epoch is shorter
    state = step(state, batch)
```

## Fix

If the second step compiles again, its parameters leave the first step with another sharding than
they entered with: place them before the first step, with `jax.device_put(params, shardings)` or
`jax.jit(init, out_shardings=shardings)`. Keep shapes equal: pad or drop the last batch, bucket
sequence lengths, pass changing values as arrays instead of Python numbers or `static_argnums`.
`jax.config.update("jax_explain_cache_misses", True)` prints why JAX compiles again. With a
compilation cache (`jax_compilation_cache_dir`) each shape costs once.

## Fix safety

Padding changes numbers unless it is masked.

## False alarms

Functions compiled for the first time within a profile (an evaluation, a checkpoint) cost once. A
function created in each step (a lambda, a `partial`) is compiled each time: create it once. Two
functions of the same name on one line look like one that was compiled twice.

## References

- https://docs.jax.dev/en/latest/persistent_compilation_cache.html
- https://docs.jax.dev/en/latest/config_options.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range, Unknown
from counterpoint.core.printable import some
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.host.builds import known_builds, recompilation_of, shapes_apart
from counterpoint.diagnose.host.compiles import (
    WARM,
    StepCompiles,
    compiled_in_run,
    compiled_in_steps,
    warmed_steps,
)
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.definition import defined_at

CODE: Final = "STEP303"
NAME: Final = "recompilation"
SINCE: Final = "0.1"

_NAMED: Final = 5
_LAMBDA: Final = re.compile(r"<lambda>|jit__lambda_?")
_AGAIN: Final = 2
"""Steps with compiles from which on a function is compiled again, not for the first time."""
_WORTH_S: Final = 1.0
"""Minimum seconds of compiling for functions other than the step's."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield what the profile shows, else what the Run recorded; then repeated startup compiles."""
    findings = [*_in_profile(data)] or [*_in_run(data)]
    reported = {evidence.what for finding in findings for evidence in finding.evidence}
    # Calls have the function's name, without the module's prefix.
    reported |= {f"jit_{name}" for name in reported}
    yield from findings
    yield from (finding for finding in _at_start(data) if finding.evidence[0].what not in reported)


def _in_profile(data: StepData) -> Iterator[Finding]:
    seen = compiled_in_steps(data)
    if seen is None:
        return
    does = "compiles" if seen.compiled else "traces functions and loads their programs"
    yield Finding(
        code=CODE,
        title=(
            f"the host {does} for {seen.ms:,.1f} ms within {len(seen.steps)} of the profile's steps"
        ),
        detail=(
            f"{_what(data, seen)}, which makes steps {ms_text(seen.cost_ms)} longer on average"
            f"{_differs(data, seen)}"
        ),
        saves_ms=Range(0.0, seen.cost_ms),
        mean_step_ms=seen.mean_step_ms,
        basis=data.basis,
        evidence=_evidence(seen),
        remedy=_remedy_of(data, seen),
        doubt=_doubt(data, seen),
    )


def _what(data: StepData, seen: StepCompiles) -> str:
    """Say which functions are compiled, or traced and loaded."""
    what = [_placed(data, name) for name in seen.names]
    which = some(what, _NAMED) or "a function that the profile does not name"
    does = "compiled" if seen.compiled else "traced and loaded"
    return f"{which} {'are' if len(what) > 1 else 'is'} {does}"


def _placed(data: StepData, name: str) -> str:
    """Return a function's name, with its file and line if it is a lambda: many have that name."""
    if not _LAMBDA.fullmatch(name):
        return name
    builds = known_builds(data.timeline.programs, name)
    places = {place for build in builds if (place := defined_at(build)) is not None}
    shown = [f"{file}:{line}" for file, line in sorted(places)]
    return f"{name} ({some(shown, _NAMED)})" if shown else name


def _differs(data: StepData, seen: StepCompiles) -> str:
    """Say what differs between the builds of the first function that has several."""
    cached = (
        ""
        if seen.compiled
        else "; nothing is compiled: JAX's compilation cache has the programs,"
        " but each function is traced and lowered again to find its own"
    )
    if shapes := _shapes(data, seen.names):
        return f"{shapes}{cached}"
    if len(seen.steps) < _AGAIN:
        return cached
    if seen.made:
        return f"{cached}; jax.jit is called in these steps, and each call makes a new function"
    name = seen.names[0] if seen.names else ""
    if len(known_builds(data.timeline.programs, name)) < _AGAIN:
        return f"{cached}; the profile does not show what differs"
    same = f"{cached}; the arguments of {name} have the same shapes"
    if seen.made is None:
        return (
            f"{same}: a static argument or a value that it closes over changes, or it is a new"
            " function each time"
        )
    return f"{same}: a static argument or a value that it closes over changes"


def _remedy_of(data: StepData, seen: StepCompiles) -> Remedy:
    if len(seen.steps) < _AGAIN or _shapes(data, seen.names):
        return _remedy()
    if seen.made:
        return Remedy(
            "make the jitted function once, before the loop: a lambda, a partial or a decorated"
            " function that is made in each step is another function to JAX"
        )
    if len(known_builds(data.timeline.programs, seen.names[0] if seen.names else "")) < _AGAIN:
        return Remedy(
            "give the function the same shapes and static arguments in each step, and make it once,"
            " before the loop; JAX_EXPLAIN_CACHE_MISSES=1 prints why it compiles again"
        )
    return Remedy(
        "pass what changes as an array (jnp.asarray(rate)) instead of a static argument or a Python"
        " value in a closure, and make functions once; JAX_EXPLAIN_CACHE_MISSES=1 prints why it"
        " compiles again"
    )


def _evidence(seen: StepCompiles) -> tuple[Evidence, ...]:
    """Return what was compiled; the longest compiles are those of the first name."""
    first, *others = seen.names[:_NAMED] or ("compiles",)
    return (
        Evidence(what=first, ms=None, events=seen.longest),
        *(Evidence(what=name, ms=None) for name in others),
    )


def _doubt(data: StepData, seen: StepCompiles) -> str | None:
    chosen = data.timeline.chosen
    warm = WARM if chosen is None else max(0, WARM - chosen.before)
    first = set(data.timeline.steps["step"].unique().sort().to_list()[:warm])
    if data.context.run is None and seen.steps <= first:
        return (
            "these are the first steps of the profile; if also of the program, they always compile"
        )
    return None


def _in_run(data: StepData) -> Iterator[Finding]:
    run = data.context.run
    compiled = compiled_in_run(run) if run is not None else {}
    again = {name: build for name, build in compiled.items() if build[0] > 1}
    for name, (_, took) in compiled.items():
        if name not in again:
            yield _once(
                data,
                name,
                f"{name} is compiled again after the run's first steps; that takes {took:,.1f} s",
                f"once in {len(run.timed.steps) if run and run.timed else 0:,} steps, as where a"
                f" step has a second form (with hooks, for example){_shapes(data, (name,))}",
                f"{took:,.2f} s once, not per step",
            )
    if run is None or not again:
        return
    seconds = sum(took for _, took in again.values())
    ranked = sorted(again.items(), key=lambda entry: -entry[1][1])
    times = sum(count for count, _ in again.values())
    warmed = warmed_steps(run)
    yield Finding(
        code=CODE,
        title=f"{times} compiles after the run's first steps take {seconds:,.1f} s",
        detail=(
            "; ".join(
                f"{name} {count} times, {took:,.1f} s" for name, (count, took) in ranked[:_NAMED]
            )
            + _shapes(data, tuple(name for name, _ in ranked))
        ),
        saves_ms=(
            Unknown(f"{seconds:,.2f} s of the run, not of a median step")
            if warmed is None
            else Range(0.0, seconds * 1e3 / warmed.count)
        ),
        mean_step_ms=None if warmed is None else warmed.mean_ms,
        basis=data.basis,
        evidence=tuple(
            Evidence(what=name, ms=took * 1e3 / warmed.count if warmed is not None else None)
            for name, (_, took) in ranked[:_NAMED]
        ),
        remedy=_remedy(),
    )


def _at_start(data: StepData) -> Iterator[Finding]:
    """Yield functions with several builds in a Run: their compiles cost time once."""
    run, index = data.context.run, data.timeline.step_program
    step = data.timeline.programs[index].name if index is not None else None
    if run is None or run.timed is None:
        return
    names = dict.fromkeys(compile_.name for compile_ in run.timed.compiles if compile_.name)
    again = [
        recompilation
        for name in names
        if (recompilation := recompilation_of(run, name)) is not None
    ]
    relevant = [
        build
        for build in again
        if build.name == step or (build.one_line and build.seconds >= _WORTH_S)
    ]
    for build in sorted(relevant, key=lambda build: -build.seconds):
        place = f", called at {build.where}" if build.where else ""
        yield _once(
            data,
            build.name,
            f"{build.name} is compiled {'twice' if build.times == 2 else f'{build.times:,} times'};"
            f" all but the first take {build.seconds:,.2f} s",
            f"{build.name}{place}: {build.apart or 'the Run does not show which argument differs'}",
            f"{build.seconds:,.2f} s once, not per step",
        )


def _once(data: StepData, name: str, title: str, detail: str, why: str) -> Finding:
    return Finding(
        code=CODE,
        title=title,
        detail=detail,
        saves_ms=Unknown(why),
        basis=data.basis,
        evidence=(Evidence(what=name, ms=None),),
        remedy=Remedy(
            "pass the same arguments in the first call as in all others: place parameters before it"
            " (jax.device_put(params, shardings), or jax.jit(init, out_shardings=shardings)), and"
            " keep shapes the same; JAX_EXPLAIN_CACHE_MISSES=1 prints why it compiles again"
        ),
    )


def _shapes(data: StepData, names: tuple[str, ...]) -> str:
    run = data.context.run
    for name in names:
        if run is not None and (known := recompilation_of(run, name)) is not None and known.apart:
            return f"; {name}: {known.apart}"
        apart = shapes_apart(data.timeline.programs, name)
        if apart is not None:
            return f"; an argument of {name} is first {apart[0]}, then {apart[1]}"
    return ""


def _remedy() -> Remedy:
    return Remedy(
        "give the function the same shapes in each step (pad or drop the last batch, bucket"
        " lengths); JAX_EXPLAIN_CACHE_MISSES=1 prints why it compiles again"
    )
