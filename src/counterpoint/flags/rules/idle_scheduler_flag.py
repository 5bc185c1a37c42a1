"""The latency hiding scheduler's flag changes nothing on this chip and release.

## What it does

Checks `xla_gpu_enable_latency_hiding_scheduler`, which enables overlap of collectives with
computation. On Hopper and Blackwell the scheduler runs by default since jaxlib
{+scheduler-by-default}, so that `true` adds nothing to most programs, and `false` did not stop it
before {-scheduler-despite-false}.

## Why it costs time

`false` is used to compare with a run without overlap, or to record a profile. From
{+scheduler-by-default} on and before {-scheduler-despite-false} that run overlaps nevertheless, and
the comparison is meaningless.

## How it is detected

The rule depends on the release and the chip: programs compiled with each release for an H100 and
an A100 show in which the scheduler ran (catalogue/observed.tsv). By default XLA runs it if it has a
model of the chip and of every collective in the program. It has none of collective-broadcast and
ragged-all-to-all, none of computation on the host, and before {-permute-stops-scheduler} none of
collective-permute: one of those stops the scheduler for the whole module unless the flag is `true`.
With a PGLE profile it runs on every chip, from {+profile-starts-scheduler} on. If the chip is
unknown, only `false` is reported.

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
- docs/concepts/settings.md: what the compilers of all releases did
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
    flag_on,
    has_profile,
    remark,
)
from counterpoint.flags.observed import boundary, has, with_releases
from counterpoint.flags.versions import (
    DISABLED_PASSES,
    LHS,
    SCHEDULER,
    SOL,
    chip_family,
    false_stops_scheduler,
    lhs_flag_needed,
)

__doc__ = with_releases(__doc__ or "")

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
    if given.meant.lower() in FALSE:
        verdict = _false(case)
    elif given.meant.lower() in TRUE:
        verdict = _true(case)
    else:
        return
    if verdict:
        severity, message, advice, fix = verdict
        yield remark(CODE, severity, given, message, advice, fix)


_Verdict = tuple[Severity, str, str, Fix | None]


def _false(case: LintContext) -> _Verdict | None:
    version = case.release.asked
    if has_profile(case) and not false_stops_scheduler(version, profile=True):
        text = "the scheduler runs nevertheless: a PGLE profile enables it"
        return Severity.WARNING, text, _STOP, _OFF
    by_estimator = has("scheduler-by-estimator", version) and flag_on(case, SOL)
    if not has("scheduler-by-default", version) and not by_estimator:
        return _default()
    if false_stops_scheduler(version) or (flag_off(case, SOL) and case.chip is None):
        return None  # it does what it says; FLAG406 if there is a profile
    nevertheless = (
        f"before jaxlib {boundary('-scheduler-despite-false')} the scheduler runs nevertheless on"
    )
    if chip_family(case.chip) is None:
        return Severity.NOTE, f"{nevertheless} Hopper and newer chips", _STOP, _OFF
    if flag_off(case, SOL) or lhs_flag_needed(version, case.chip):
        return _default()
    return Severity.WARNING, f"{nevertheless} {case.chip}", _STOP, _OFF


def _default() -> _Verdict:
    return Severity.NOTE, "the scheduler is off by default here", "remove it", Fix()


def _true(case: LintContext) -> _Verdict | None:
    version = case.release.asked
    if has_profile(case) and not lhs_flag_needed(version, case.chip, profile=True):
        text = "a PGLE profile that fits the program enables the scheduler anyway"
    elif not lhs_flag_needed(version, case.chip) and not flag_off(case, SOL):
        permute = "collective-permute, " if has("permute-stops-scheduler", version) else ""
        text = (
            f"on {case.chip} the scheduler runs by default, unless the program has {permute}"
            "ragged-all-to-all, collective-broadcast or computation on the host"
        )
    else:
        return None
    return Severity.NOTE, text, "keep it to make sure that the scheduler runs", None
