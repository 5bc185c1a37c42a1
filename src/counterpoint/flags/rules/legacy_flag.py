"""A flag has an old name, or is deprecated.

## What it does

Finds flags that set another flag's field, and flags that XLA's own description calls deprecated.

## Why it costs time

A later release will remove the old name, and XLA will then abort on it. An old bool that sets a new
level can't express all levels: from {+pipelining-levels} on
`xla_gpu_enable_pipelined_reduce_scatter=false` sets the level `default`, and the default is to
pipeline. It no longer disables anything.

## How it is detected

The rule uses the catalogue: each flag was set in each release, and the resulting change was read.
Deprecation is stated in XLA's description of its options.

## Example

```sh jaxlib=0.12.0.1
export XLA_FLAGS="--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix

Write the new name.

```sh jaxlib=0.12.0.1
export XLA_FLAGS="--xla_gpu_pipeline_all_gather=on"
```

## Fix safety

Safe if the new name with the new value sets what the old one set. Unsafe for `=false`, which sets
`default`, while `off` is what it expresses: the program may change.

## References

- XLA's change of the pipelining flags: https://github.com/openxla/xla/pull/45836
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.lifecycle import replacement_of
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark
from counterpoint.flags.observed import with_releases
from counterpoint.flags.parsed import Occurrence

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG105"
NAME: Final = "legacy-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        flag = case.known(setting)
        if flag is None or flag.no_op:
            continue
        if flag.alias_of:
            yield _alias(case, setting, flag.alias_of)
        elif flag.deprecated:
            yield _deprecated(setting, flag)


def _alias(case: LintContext, one: Occurrence, target: str) -> Remark:
    heirs = replacement_of(one, case.release)
    new = case.release.flags.get(target)
    blunt = new is not None and new.type == "enum" and one.meant.lower() in ("false", "0")
    message = f"an old name that sets {target}"
    if blunt:
        message += "=default, not off: it no longer disables anything"
    advice = advice_of(heirs, one.channel) if heirs else f"write {target}"
    fix = Fix(heirs, safe=not blunt) if heirs else None
    return remark(CODE, Severity.WARNING, one, message, advice, fix)


def _deprecated(one: Occurrence, flag: Flag) -> Remark:
    message = f"XLA's description of its options calls {flag.name} deprecated"
    return remark(CODE, Severity.WARNING, one, message, "remove it before a later release does")
