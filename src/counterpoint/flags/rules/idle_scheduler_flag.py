"""The latency hiding scheduler's flag changes nothing on this chip and release.

## What it does

Checks `xla_gpu_enable_latency_hiding_scheduler`, which enables overlap of collectives with
computation. On Hopper and Blackwell the scheduler runs by default since jaxlib 0.7, so that `true`
adds nothing to most programs, and `false` did not stop it before 0.12.

## Why it costs time

`false` is used to compare with a run without overlap, or to record a profile: from 0.7 to 0.11 that
run overlaps nevertheless, and the comparison is meaningless. From 0.12 on `false` does stop it.

## How it is detected

The rule depends on the release and the chip. Since 0.7, XLA runs the scheduler by default if it has
a model of the chip and of every collective in the program. It has none of collective-broadcast and
ragged-all-to-all, and none of computation on the host: one of those stops the scheduler for the
whole module unless the flag is `true`. With a PGLE profile it runs on every chip, from 0.5.1 on. If
the chip is unknown, only `false` is reported.

## Example

```sh jaxlib=0.10.2 chip=H100
export XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=false
```

## Fix

To compare without overlap, disable the pass: `--xla_disable_hlo_passes=latency-hiding-scheduler`
works on every release and chip. Keep `true` where the program has ragged-all-to-all,
collective-broadcast or computation on the host, and on chips before Hopper.

## Fix safety

Disabling the pass changes the schedule, as intended; it is reported only.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc (IsLHSEnabled)
- https://github.com/openxla/xla/blob/main/xla/service/gpu/model/sol_latency_estimator.cc
- docs/concepts/settings.md: what compilers of 0.10 to 0.12 did
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    FALSE,
    TRUE,
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_off,
    has_profile,
    remark,
    since,
)
from counterpoint.flags.versions import (
    DISABLED_PASSES,
    LHS,
    SCHEDULER,
    SOL,
    chip_family,
    lhs_flag_needed,
    scheduler_can_be_disabled,
)

CODE: Final = "FLAG302"
NAME: Final = "idle-scheduler-flag"
SINCE: Final = "0.1"

_OFF: Final = Fix(((DISABLED_PASSES, SCHEDULER),), safe=False)
_STOP: Final = f"to stop it, --{DISABLED_PASSES}={SCHEDULER}"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark, at the flag's last occurrence."""
    given = case.last(LHS)
    if given is None or LHS not in case.release.flags:
        return
    version = case.release.asked
    if given.meant.lower() in FALSE and not scheduler_can_be_disabled(version):
        found = _false(case)
    elif given.meant.lower() in TRUE:
        found = _true(case)
    else:
        return
    if found:
        severity, message, advice, fix = found
        yield remark(CODE, severity, given, message, advice, fix)


_Found = tuple[Severity, str, str, Fix | None]


def _false(case: LintContext) -> _Found | None:
    version = case.release.asked
    if has_profile(case) and since(case, "0.5.1"):
        text = "the scheduler runs nevertheless: a PGLE profile enables it"
        return Severity.WARNING, text, _STOP, _OFF
    if not since(case, "0.7") or flag_off(case, SOL):
        return None if case.chip is None and since(case, "0.7") else _default()
    if chip_family(case.chip) is None:
        text = "before jaxlib 0.12 the scheduler runs nevertheless on Hopper and newer chips"
        return Severity.NOTE, text, _STOP, _OFF
    if lhs_flag_needed(version, case.chip):
        return _default()
    text = f"before jaxlib 0.12 the scheduler runs nevertheless on {case.chip}"
    return Severity.WARNING, text, _STOP, _OFF


def _default() -> _Found:
    return Severity.NOTE, "the scheduler is off by default here", "remove it", Fix()


def _true(case: LintContext) -> _Found | None:
    if has_profile(case) and not lhs_flag_needed(case.release.asked, case.chip, profile=True):
        text = "a PGLE profile that fits the program enables the scheduler anyway"
    elif not lhs_flag_needed(case.release.asked, case.chip) and not flag_off(case, SOL):
        text = (
            f"on {case.chip} the scheduler runs by default, unless the program has"
            " ragged-all-to-all, collective-broadcast or computation on the host"
        )
    else:
        return None
    return Severity.NOTE, text, "keep it to make sure that the scheduler runs", None
