"""Settings in the environment that the installed release rejects or ignores.

## What it does

Checks `XLA_FLAGS` (also in its file form), `LIBTPU_INIT_ARGS` and all variables of JAX, XLA, NCCL
and CUDA with the rules of `counterpoint flags check`, for the installed jaxlib.

## Why it costs time

XLA aborts on an unknown flag, minutes after the start of the job, on all hosts. An unknown variable
is never reported: a misspelled one has no effect.

## How it is detected

The check applies the FLAG rules, and then the parser of the installed compiler, unless `--no-probe`
is given. Flags in `LIBTPU_INIT_ARGS` are compared with those of the libtpu that belongs to the
jaxlib (FLAG112); of names that do not begin as libtpu's do, only libtpu knows.

## Example

```sh
export XLA_FLAGS=--xla_gpu_enable_async_all_reduce=true
```

## Fix

Follow the rule's advice; `counterpoint flags check FILE --fix` fixes the file that sets them.

## Fix safety

As stated in the FLAG rule.

## References

- https://docs.jax.dev/en/latest/xla_flags.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.printable import counted_noun, some
from counterpoint.doctor.facts import FlagRemark, HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC105"
NAME: Final = "flags"
SINCE: Final = "0.1"

_NAMED: Final = 4


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield a verdict for each remark that is more than a note, and the number of notes."""
    flags = facts.flags
    if flags.why_not:
        yield unknown(f"the settings could not be read: {flags.why_not}")
        return
    if not flags.names and not flags.libtpu and not flags.remarks:
        yield not_applicable("no settings of XLA, JAX or NCCL in the environment")
        return
    grave = [
        remark
        for remark in flags.remarks
        if remark.severity != "note" and not _elsewhere(remark, facts)
    ]
    yield from map(_verdict, grave)
    if flags.libtpu:
        yield unknown(f"only libtpu knows whether it accepts {some(flags.libtpu, _NAMED)}")
    if flags.names and not grave:
        notes = len(flags.remarks)
        by_compiler = ", nor by its compiler" if flags.probed else ""
        note_count = (
            f"; {counted_noun(notes, 'note')} by `counterpoint flags check --env`" if notes else ""
        )
        yield ok(
            f"nothing against {counted_noun(len(flags.names), 'setting')} by the rules for jaxlib"
            f" {flags.release}{by_compiler}: {some(flags.names, _NAMED)}{note_count}"
        )


def _elsewhere(remark: FlagRemark, facts: HostFacts) -> bool:
    """Return whether the nccl-environment check, which knows more of the host, reports it."""
    return facts.has_driver and remark.name in ("NCCL_P2P_DISABLE", "NCCL_DEBUG")


def _verdict(remark: FlagRemark) -> CheckResult:
    return CheckResult(
        status=Status.ERROR if remark.severity == "error" else Status.WARNING,
        found=f"{remark.name}: {remark.message}" if remark.name else remark.message,
        wanted=remark.advice,
        why=f"{remark.why} ({remark.code})" if remark.why else remark.code,
        remedy="counterpoint flags check --env",
        source=remark.source or f"counterpoint explain-code {remark.code}",
    )
