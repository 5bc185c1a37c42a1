"""AutoPGLE is enabled where it can't work.

## What it does

Checks `JAX_ENABLE_PGLE` and the settings around it.

## Why it costs time

AutoPGLE profiles the first calls of each compiled function and recompiles it. Where it can't, the
first runs are slower without any benefit; JAX reports little.

## How it is detected

- Under Nsight Systems (detected by its variables in the environment): both need CUPTI, which serves
  only one of them. Newer releases of CUPTI and XLA share (`xla_gpu_enable_cupti_multi_subscriber`;
  not tried).
- `JAX_PGLE_PROFILING_RUNS=0`: no run is profiled, so AutoPGLE is off.
- `JAX_PGLE_PROFILING_RUNS` or `JAX_PGLE_AGGREGATION_PERCENTILE` without `JAX_ENABLE_PGLE`: nothing
  reads them.
- `JAX_COMPILATION_CACHE_EXPECT_PGLE` without a compilation cache.
- A profile given by XLA's flag as well: AutoPGLE's own profile replaces it after the first runs.

## Example

```sh jaxlib=0.10.2
export JAX_COMPILATION_CACHE_EXPECT_PGLE=yes
```

## Fix

Record with Nsight in a second run, from the cache: `JAX_COMPILATION_CACHE_DIR=...` and
`JAX_COMPILATION_CACHE_EXPECT_PGLE=yes`, without `JAX_ENABLE_PGLE`.

## Fix safety

Removing a variable that nothing reads is safe. The other fixes are reported only.

## References

- https://docs.jax.dev/en/latest/gpu_performance_tips.html
- https://github.com/jax-ml/jax/blob/main/jax/_src/compiler.py
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    has_profile,
    is_no,
    is_yes,
    jax_name,
    jax_setting,
    remark,
    since,
    under_nsys,
)
from counterpoint.flags.versions import PROFILE

CODE: Final = "FLAG408"
NAME: Final = "auto-pgle-trap"
SINCE: Final = "0.1"

_ON: Final = "JAX_ENABLE_PGLE"
_RUNS: Final = "JAX_PGLE_PROFILING_RUNS"
_ONLY_WITH_IT: Final = (_RUNS, "JAX_PGLE_AGGREGATION_PERCENTILE")
_EXPECT: Final = "JAX_COMPILATION_CACHE_EXPECT_PGLE"
_CACHE: Final = "JAX_COMPILATION_CACHE_DIR"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each trap."""
    if is_yes(case.variables.get(_ON)):
        yield from _switched_on(case)
    else:
        yield from _switched_off(case)
    yield from _expected(case)


def _switched_on(case: LintContext) -> Iterator[Remark]:
    on = case.last(_ON)
    if on is None:
        return
    if under_nsys(case):
        text = "Nsight Systems records this process, and CUPTI serves only one of them"
        expect = jax_setting(on, _EXPECT, "true")
        advice = f"record a second run, from the cache, with {expect} and without {on.name}"
        yield remark(CODE, Severity.WARNING, on, text, advice)
    runs = case.last(_RUNS)
    if runs and case.variables.get(_RUNS) == "0":
        yield remark(
            CODE,
            Severity.WARNING,
            runs,
            "no run is profiled, so AutoPGLE is off",
            f"write {jax_setting(runs, _RUNS, '3')}",
            None,
        )
    if has_profile(case) and (given := case.last(PROFILE)):
        text = "AutoPGLE's own profile replaces it after the first runs"
        yield remark(CODE, Severity.NOTE, given, text, f"remove either {on.name} or this")


def _switched_off(case: LintContext) -> Iterator[Remark]:
    for name in _ONLY_WITH_IT:
        given = case.last(name)
        if given:
            text = f"nothing reads it without {jax_name(given, _ON)}"
            advice = f"add {jax_setting(given, _ON, 'true')}, or remove it"
            yield remark(CODE, Severity.WARNING, given, text, advice, Fix(safe=False))


def _expected(case: LintContext) -> Iterator[Remark]:
    given = case.last(_EXPECT)
    if not given or not is_yes(case.variables.get(_EXPECT)) or not since(case, "0.5.1"):
        return
    cache = jax_name(given, _CACHE)
    if is_no(case.variables.get("JAX_ENABLE_COMPILATION_CACHE")):
        off = jax_name(given, "JAX_ENABLE_COMPILATION_CACHE")
        text = f"the compilation cache is off ({off})"
    elif not case.variables.get(_CACHE):
        text = f"there is no compilation cache, unless the program sets {cache}"
    else:
        return
    yield remark(CODE, Severity.WARNING, given, text, f"set {cache}", Fix(safe=False))
