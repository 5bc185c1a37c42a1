"""Settings of this environment that the installed release does not take, or that do nothing.

## What it does

Puts `XLA_FLAGS` (also in its form as a file), `LIBTPU_INIT_ARGS` and all variables of JAX, XLA,
NCCL and CUDA before the rules of `counterpoint flags check`, for the installed jaxlib.

## Why it costs time

XLA ends the process at an unknown flag, minutes after the job was started, on all hosts. Variables
are never unknown: a misspelt one does nothing.

## How it is detected

By the FLAG rules; at the end the installed compiler's own parser is asked, unless `--no-probe`.

## Example

```sh
export XLA_FLAGS=--xla_gpu_enable_async_all_reduce=true
```

## Fix

What the rule says; `counterpoint flags check --env --fix` writes the settings anew.

## Fix safety

As the FLAG rule says of itself.

## References

- https://docs.jax.dev/en/latest/xla_flags.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import Facts, FlagRemark
from counterpoint.doctor.verdict import Status, Verdict, not_applicable, ok, unknown

CODE: Final = "DOC105"
NAME: Final = "flags"
SINCE: Final = "0.1"


def check(facts: Facts) -> Iterator[Verdict]:
    """Each remark that is not a mere note, and how many notes there are."""
    flags = facts.flags
    if flags.why_not:
        yield unknown(f"the settings could not be read: {flags.why_not}")
        return
    if not flags.settings and not flags.remarks:
        yield not_applicable("no settings of XLA, JAX or NCCL in this environment")
        return
    grave = [one for one in flags.remarks if one.severity != "note" and not _elsewhere(one, facts)]
    yield from map(_verdict, grave)
    if not grave:
        notes = len(flags.remarks)
        asked = ", and by its compiler" if flags.probed else ""
        said = f"; {notes} notes by `counterpoint flags check --env`" if notes else ""
        yield ok(f"{flags.settings} settings taken by jaxlib {flags.release}{asked}{said}")


def _elsewhere(one: FlagRemark, facts: Facts) -> bool:
    """Whether nccl-environment says the same, knowing more of the host."""
    return facts.has_driver and one.name in ("NCCL_P2P_DISABLE", "NCCL_DEBUG")


def _verdict(one: FlagRemark) -> Verdict:
    return Verdict(
        status=Status.ERROR if one.severity == "error" else Status.WARNING,
        found=f"{one.name}: {one.message}" if one.name else one.message,
        wanted=one.advice,
        why=f"{one.code}: counterpoint explain-code {one.code}",
        remedy="counterpoint flags check --env --fix",
        source=one.code,
    )
