"""Two settings contradict each other.

## What it does

Finds pairs of settings of which one disables the other.

## Why it costs time

One of the two has no effect, and XLA seldom reports which. If both names of JAX's memory fraction
are set, the program fails.

## How it is detected

- the scheduler is enabled and its pass disabled: it does not run
- a collective is both pipelined and synchronous: it starts in the previous iteration, and is waited
  for there
- a loop is both double-buffered and fully unrolled: XLA unrolls it, and logs a warning
- a loop is double-buffered and excluded from unrolling: XLA double-buffers it
- `xla_gpu_enable_pipelined_collectives` (before 0.6, which removed it) beside a flag that disables
  one kind: the first enables all kinds, that one, too
- `XLA_CLIENT_MEM_FRACTION` and `XLA_PYTHON_CLIENT_MEM_FRACTION`: JAX raises a ValueError

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true
  --xla_disable_hlo_passes=latency-hiding-scheduler"
```

## Fix

Keep the intended one.

## Fix safety

Reported only: the intended one is not known. Of the two names of the memory fraction, the old one
is removed if both have the same value.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_compiler.cc (AddDoubleBufferingPasses)
- https://github.com/openxla/xla/blob/main/xla/python/xla_client.py
"""  # noqa: E501 - a URL

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    PIPELINED,
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_off,
    flag_on,
    items,
    pipelining,
    remark,
    since,
)
from counterpoint.flags.versions import DISABLED_PASSES, LHS, SCHEDULER, SYNCHRONOUS

CODE: Final = "FLAG407"
NAME: Final = "contradiction"
SINCE: Final = "0.1"

_ALL: Final = "xla_gpu_enable_pipelined_collectives"
_DOUBLE: Final = "xla_gpu_enable_while_loop_double_buffering"
_UNROLL: Final = "xla_gpu_enable_while_loop_unrolling"
_SHARE: Final = "XLA_CLIENT_MEM_FRACTION"
_OLD_SHARE: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_KNOWS_BOTH: Final = "0.4.33"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each pair."""
    yield from _scheduler(case)
    yield from _pipelined(case)
    yield from _all_pipelined(case)
    yield from _loops(case)
    yield from _shares(case)


def _scheduler(case: LintContext) -> Iterator[Remark]:
    given = case.last(LHS)
    if given and flag_on(case, LHS) and SCHEDULER in items(case, DISABLED_PASSES):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"the scheduler does not run: {DISABLED_PASSES} contains {SCHEDULER}",
            "remove one of the two",
        )


def _pipelined(case: LintContext) -> Iterator[Remark]:
    blocked = {item.lower().replace("_", "") for item in items(case, SYNCHRONOUS)}
    for kind in PIPELINED:
        given = pipelining(case, kind)
        if given and blocked & {kind.replace("_", ""), "allcollectives"}:
            yield remark(
                CODE,
                Severity.WARNING,
                given,
                f"it starts an iteration early and is waited for at once ({SYNCHRONOUS})",
                "remove one of the two",
            )


def _all_pipelined(case: LintContext) -> Iterator[Remark]:
    if _ALL not in case.release.flags or not flag_on(case, _ALL):
        return
    for kind in (*PIPELINED, "p2p"):
        name = f"xla_gpu_enable_pipelined_{kind}"
        given = case.last(name)
        if given and flag_off(case, name):
            text = f"it is pipelined nevertheless: {_ALL} enables all kinds"
            yield remark(CODE, Severity.WARNING, given, text, "remove one of the two")


def _loops(case: LintContext) -> Iterator[Remark]:
    given = case.last(_DOUBLE)
    how = case.flags.get(_UNROLL, "").upper()
    if not given or not flag_on(case, _DOUBLE):
        return
    if how.endswith("FULL_UNROLL"):
        text = f"{_UNROLL} unrolls the whole loop instead"
    elif how.endswith("NO_UNROLL"):
        text = f"the loop is double-buffered although {_UNROLL} disables unrolling"
    else:
        return
    yield remark(CODE, Severity.WARNING, given, text, "remove one of the two")


def _shares(case: LintContext) -> Iterator[Remark]:
    new, old = case.variables.get(_SHARE), case.variables.get(_OLD_SHARE)
    given = case.last(_OLD_SHARE)
    if new and old and given and since(case, _KNOWS_BOTH):
        yield remark(
            CODE,
            Severity.ERROR,
            given,
            f"JAX raises a ValueError if {_SHARE} is also set",
            "remove it",
            Fix(safe=new == old),
        )
