"""A flag sets its default.

## What it does

Finds flags whose value is the default of this release of jaxlib.

## Why it costs time

It costs nothing as long as the default stays. But a list of flags copied from an older release
hides the few that matter, and the next release may remove one of the others: XLA aborts on an
unknown flag.

## How it is detected

The value is compared with the release's own default, read out of its binary. Flags given twice are
skipped, since the later one may revert the earlier one; so are flags that follow inherited ones
(`"$XLA_FLAGS --..."`), which they may revert, and the scheduler's flag, for which an explicit
default has a meaning of its own (FLAG302).

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS=--xla_gpu_enable_pipelined_reduce_scatter=true
```

## Fix

Remove the flag.

## Fix safety

Safe: the program stays the same.

## References

- https://github.com/openxla/xla/blob/main/xla/debug_options_flags.cc
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions import LHS

CODE: Final = "FLAG301"
NAME: Final = "default-anyway"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield a note for each setting that equals the default."""
    given = [*case.xla, *case.written.through(Channel.COMPILER_OPTIONS)]
    times = Counter(setting.name for setting in given)
    for setting in given:
        if case.inherits(setting.channel):
            continue
        flag = case.known(setting)  # not of one that is refused: that has its own remark
        if flag is None or flag.no_op or times[setting.name] > 1 or setting.name == LHS:
            continue
        if flag.is_default(setting.meant):
            yield remark(
                CODE,
                Severity.NOTE,
                setting,
                f"`{setting.meant}` is the default of jaxlib {case.release.version}",
                "remove it",
                Fix(),
            )
