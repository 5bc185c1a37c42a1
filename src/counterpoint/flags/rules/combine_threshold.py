"""A combine threshold is ineffective, or disables the compiler's own choice.

## What it does

Checks `xla_gpu_{all_gather,all_reduce,reduce_scatter}_combine_threshold_bytes`, the size up to
which XLA merges collectives of one kind into one. The default is 30 MiB (in every release from
0.4.35 to 0.12; some guides say 256).

## Why it costs time

Small messages don't saturate the links; a merged one waits for its last part. Any explicit value,
larger or smaller, also disables a rule: without the flag, XLA merges collectives that are
pipelined, or synchronous anyway, as far as memory allows, and applies 30 MiB only to the others.

## How it is detected

The rule reports a value above the memory of the chip, one below the default, and one combined with
pipelining of the same collective, unless it is too large to be a limit. The sizes of the
collectives in the program are not considered here; `counterpoint flags thresholds` considers them
and lists the values at which anything changes.
Collectives of different iterations of a `lax.scan` never merge, whatever the threshold.

## Example

```sh jaxlib=0.10.2 chip=H100
export XLA_FLAGS=--xla_gpu_all_gather_combine_threshold_bytes=256
```

## Fix

Remove it, or use a value from `counterpoint flags thresholds`.

## Fix safety

Reported only: the value may have been measured.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/transforms/collectives/all_reduce_combiner.cc
- https://github.com/openxla/xla/issues/21966
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    PIPELINED,
    Fix,
    LintContext,
    Remark,
    Severity,
    pipelining,
    remark,
    since,
    threshold,
)
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.versions import ChipFamily, chip_family

CODE: Final = "FLAG304"
NAME: Final = "combine-threshold"
SINCE: Final = "0.1"

DEFAULT: Final = 30 * 1024 * 1024 + 7
_GIB: Final = 1 << 30
_ENDLESS: Final = 4 * _GIB
"""More than a step has of collectives that can merge, so that only memory is a limit."""
_MEMORY: Final = {
    ChipFamily.AMPERE: 80,
    ChipFamily.ADA: 48,
    ChipFamily.HOPPER: 144,
    ChipFamily.BLACKWELL: 288,
}
"""GiB of the largest chip of a family, from NVIDIA's data sheets."""


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark for each kind of collective."""
    for kind in PIPELINED:
        name = f"xla_gpu_{kind}_combine_threshold_bytes"
        given, value = case.last(name), threshold(case, name)
        if given is None or value is None or value == DEFAULT:
            continue
        verdict = _judged(case, kind, value)
        if verdict:
            yield _remark(given, *verdict)


def _judged(case: LintContext, kind: str, value: int) -> tuple[Severity, str, str] | None:
    known = chip_family(case.chip)
    most = _MEMORY.get(known) if known else None
    look = "see `counterpoint flags thresholds`"
    if most is not None and value > most * _GIB:
        text = f"{value / _GIB:,.0f} GiB exceeds the memory of {case.chip}: everything is merged"
        return Severity.WARNING, text, look
    if value < DEFAULT:
        text = f"merges less than the default (30 MiB): at most {_size(value)} at a time"
        return (Severity.WARNING if value < 1 << 20 else Severity.NOTE), text, look
    if value < _ENDLESS and pipelining(case, kind) and since(case, "0.6"):
        text = "XLA merges pipelined collectives up to this size only, not as far as memory allows"
        return Severity.NOTE, text, f"compare with a run without it, or {look}"
    return None


def _size(value: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= factor:
            return f"{value / factor:,.0f} {unit}"
    return f"{value:,} bytes"


def _remark(given: Occurrence, severity: Severity, message: str, advice: str) -> Remark:
    return remark(CODE, severity, given, message, advice, Fix(safe=False))
