"""XLA does not read the given PGLE profile, or reads another one.

## What it does

Checks `xla_gpu_pgle_profile_file_or_directory_path` and the conditions under which the profile is
used: the scheduler, the file's name, and JAX's compilation cache.

## Why it costs time

The program is scheduled by guesses although a profile was given. XLA does not report a profile that
it does not look for.

## How it is detected

- If the pass `latency-hiding-scheduler` is disabled, nothing reads the profile.
- From jaxlib {-profile-read-despite-false} on `xla_gpu_enable_latency_hiding_scheduler=false` has
  the same effect; before {+profile-starts-scheduler} the scheduler had to be enabled. Both were
  seen in programs compiled with each release.
- XLA reads `.pbtxt` and `.pb`, or a directory of `<fingerprint>.pbtxt`; it ignores files with any
  other extension. `.xplane.pb` is a recording, from which `counterpoint pgle make` makes a profile.
- The key of JAX's compilation cache contains the profile's path, not its content: a new profile
  under the same name is ignored.

## Example

```sh jaxlib=0.12.0 chip=H100
export XLA_FLAGS="--xla_gpu_pgle_profile_file_or_directory_path=step.pbtxt
  --xla_gpu_enable_latency_hiding_scheduler=false"
```

## Fix

Let the scheduler run; name a `.pbtxt`; give each profile its own name. `counterpoint pgle apply`
proves that a profile was used.

## Fix safety

Enabling the scheduler is the purpose of a profile, and changes the schedule: reported only.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc (ReadPGLEProfile)
- https://github.com/jax-ml/jax/blob/main/jax/_src/cache_key.py
- docs/concepts/settings.md: what the compilers of all releases did
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_off,
    flag_on,
    has_profile,
    is_no,
    items,
    remark,
)
from counterpoint.flags.observed import boundary, has, with_releases
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.versions import (
    ACCURACY,
    DISABLED_PASSES,
    LHS,
    PROFILE,
    SCHEDULER,
    false_stops_scheduler,
)
from counterpoint.timeline.formats import is_recording

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG406"
NAME: Final = "unread-profile"
SINCE: Final = "0.1"

_READ: Final = (".pbtxt", ".pb")


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each reason, on the profile's flag."""
    given = case.last(PROFILE)
    if given is None or not has_profile(case):
        return
    yield from _scheduler(case, given)
    yield from _file(given)
    yield from _cache(case, given)
    yield from _strictness(case)


def _scheduler(case: LintContext, given: Occurrence) -> Iterator[Remark]:
    without = "the profile is silently ignored"
    if SCHEDULER in items(case, DISABLED_PASSES):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"{without}: the pass {SCHEDULER} is disabled",
            f"remove {SCHEDULER} from {DISABLED_PASSES}",
        )
    elif flag_off(case, LHS) and false_stops_scheduler(case.release.asked, profile=True):
        fix = Fix(((LHS, "true"),), safe=False)
        yield remark(
            CODE, Severity.WARNING, given, f"{without}: {LHS} is false", f"write --{LHS}=true", fix
        )
    elif not has("profile-starts-scheduler", case.release.asked) and not flag_on(case, LHS):
        begins = boundary("+profile-starts-scheduler")
        text = f"before jaxlib {begins} the profile is read only with --{LHS}=true"
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            text,
            f"add --{LHS}=true",
            Fix(((LHS, "true"),), safe=False),
        )


def _file(given: Occurrence) -> Iterator[Remark]:
    path = PurePath(given.meant)
    if is_recording(path.name):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"{path.name} is a recording, not a profile",
            f"counterpoint pgle make {path.name} -o step.pbtxt",
        )
    elif path.suffix and path.suffix not in _READ and not given.meant.endswith("/"):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"XLA reads {' and '.join(_READ)}, not {path.suffix}",
            "rename the file; counterpoint pgle show prints its content",
        )


def _cache(case: LintContext, given: Occurrence) -> Iterator[Remark]:
    variables = case.variables
    if not variables.get("JAX_COMPILATION_CACHE_DIR"):
        return
    if not is_no(variables.get("JAX_ENABLE_COMPILATION_CACHE")):
        yield remark(
            CODE,
            Severity.NOTE,
            given,
            "JAX's cache identifies the profile by its path only: a new one under this name is"
            " ignored",
            "give each profile its own name",
        )


def _strictness(case: LintContext) -> Iterator[Remark]:
    given = case.last(ACCURACY)
    if given is not None and case.flags[ACCURACY].upper().endswith("ERROR"):
        fails = "every module that the profile does not cover, even a small one, fails to compile"
        if has("strict-profile-needs-overlap", case.release.asked):
            fails += ", and every one with a collective that ends up synchronous"
        yield remark(
            CODE,
            Severity.NOTE,
            given,
            fails,
            "write WARN for whole programs",
            Fix(((ACCURACY, "PGLE_STRICTNESS_LEVEL_WARN"),), safe=False),
        )
