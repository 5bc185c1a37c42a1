"""A flag that no release of jaxlib has had.

## What it does

Finds names in XLA_FLAGS and in compiler options that neither this release nor any other release
knows, and that no other program is known to read.

## Why it costs time

XLA aborts on an unknown flag when it first reads its options: minutes after the start of a large
job. A compiler option that does not exist makes its compile fail.

## How it is detected

The rule uses the catalogue: the flags of each release of jaxlib, read out of its library. Similar
names are looked up in the release that is checked.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_latency_hidding_scheduler=true"
```

## Fix

Write the intended name, or remove the flag.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true"
```

## Fix safety

Safe if only dashes, capitals or underscores differ. Any other name is a guess, which `--fix` lists
and leaves to you.

## References

- `counterpoint flags list --grep WORD` lists the existing flags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.flag import similar
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.lifecycle import LifecycleStatus
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark, run_together
from counterpoint.flags.parsed import Occurrence

CODE: Final = "FLAG101"
NAME: Final = "unknown-flag"
SINCE: Final = "0.1"


_LOOKED_UP: Final = 50
"""The most names that get suggestions: more are hardly misspelled, and each search takes ms."""


def check(case: LintContext) -> Iterator[Remark]:
    near: dict[str, tuple[str, ...]] = {}
    for setting in case.compiler:
        if run_together(setting):
            continue
        if case.lifecycle(setting).kind is LifecycleStatus.NEVER:
            message = f"{_nobody()} has this flag; {case.consequence(setting)}"
            if setting.name not in near and len(near) == _LOOKED_UP:
                advice = "remove it, or look up the intended name: counterpoint flags show"
                yield remark(CODE, Severity.ERROR, setting, message, advice)
                continue
            if setting.name not in near:
                near[setting.name] = similar(setting.name, case.release)
            candidates = near[setting.name]
            yield remark(
                CODE,
                Severity.ERROR,
                setting,
                message,
                _advice(candidates),
                _mend(setting, candidates),
            )


def _nobody() -> str:
    return f"no release of jaxlib since {releases()[0]}"


def _advice(candidates: tuple[str, ...]) -> str:
    return f"did you mean {' or '.join(candidates)}?" if candidates else "remove it"


def _mend(one: Occurrence, candidates: tuple[str, ...]) -> Fix | None:
    match candidates:
        case ():
            return Fix()
        case (only,):
            return Fix(((only, one.meant),), safe=_letters(one.name) == _letters(only))
        case _:
            return None


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
