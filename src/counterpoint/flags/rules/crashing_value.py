"""A value that XLA's parser accepts, and that crashes the compiler or the program.

## What it does

Finds values that crash the compile, or the process, although the flag accepts them.

## Why it costs time

The program crashes minutes after its start, usually with a message that does not name the flag.

## How it is detected

The rule uses a list of values that were tried: each flag in a compile of a sharded training step
for H100 with jaxlib 0.10.2, and known crashes of later releases. It also uses the catalogue, which
lists the releases whose parser crashes on a flag whatever its value. A warning says that a flag
ended the compile of common steps in this release, which another program may survive.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_experimental_parallel_collective_overlap_limit=0"
```

## Fix

Use another value, or remove the flag.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_experimental_parallel_collective_overlap_limit=1"
```

## Fix safety

Safe to remove: a program that did not run runs now.

## References

- The list: src/counterpoint/flags/rules/crashing_values.tsv
- Common steps, by release: src/counterpoint/flags/catalogue/tried_flags.tsv, which
  tools/tried_flags.py writes
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_off,
    flag_on,
    has_profile,
    remark,
    since,
)
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.tried import crashed_steps
from counterpoint.flags.versions import LHS, false_stops_scheduler, lhs_flag_needed

CODE: Final = "FLAG203"
NAME: Final = "crashing-value"
SINCE: Final = "0.1"

_SCHEDULER: Final = "scheduler"
_FILE: Final = Path(__file__).with_name("crashing_values.tsv")


@dataclass(frozen=True, slots=True)
class _Crash:
    values: re.Pattern[str]
    what: str
    channel: str = ""  # empty: both
    since: str = ""  # empty: in all releases
    where: str = ""  # empty: everywhere

    def hits(self, one: Occurrence, case: LintContext) -> bool:
        if self.channel not in ("", one.channel):
            return False
        if self.since and not since(case, self.since):
            return False
        if self.where == _SCHEDULER and not _scheduler_runs(case):
            return False
        return self.values.fullmatch(one.meant.strip().lower()) is not None


def check(case: LintContext) -> Iterator[Remark]:
    crashes = _crashes()
    for setting in case.compiler:
        crash = crashes.get(setting.name)
        if crash and setting.known and case.known(setting) and crash.hits(setting, case):
            yield remark(CODE, Severity.ERROR, setting, crash.what, "remove it", Fix())
        elif setting.known and case.known(setting):
            yield from _tried(setting, case.release.version)
        flag = case.release.flags.get(setting.name)
        if flag and flag.fatal and setting.channel is Channel.XLA_FLAGS:
            what = f"crashes XLA of jaxlib {case.release.version} whatever its value"
            yield remark(CODE, Severity.ERROR, setting, what, "remove it", Fix())


def _tried(one: Occurrence, version: str) -> Iterator[Remark]:
    """Yield a warning about a flag on which the compile of common steps ended in this release."""
    truth = {"1": "true", "0": "false"}
    value = one.meant.strip().lower() if one.meant.lower() in ("true", "false") else one.meant
    crashed = crashed_steps(one.name, truth.get(value, value), version)
    if crashed:
        steps = ", ".join(trial.step for trial in crashed)
        message = f"it ended the compile of common steps ({steps}): {crashed[0].crash}"
        advice = "compile your program with it before you use it: counterpoint predict --candidate"
        yield remark(CODE, Severity.WARNING, one, message, advice)


def _scheduler_runs(case: LintContext) -> bool:
    """Return whether the scheduler runs or may run; assumed for an unknown chip."""
    version = case.release.asked
    profile = has_profile(case)
    if flag_off(case, LHS) and false_stops_scheduler(version, profile=profile):
        return False
    needed = lhs_flag_needed(version, case.chip, profile=profile)
    return flag_on(case, LHS) or case.chip is None or not needed


@cache
def _crashes() -> Mapping[str, _Crash]:
    lines = (line for line in _FILE.read_text("utf-8").splitlines() if not line.startswith("#"))
    rows = (line.split("\t") for line in lines)
    return {name: _Crash(re.compile(value), *rest) for name, value, *rest in rows}
