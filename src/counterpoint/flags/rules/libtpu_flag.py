"""A flag or a value that libtpu refuses.

## What it does

Finds flags in LIBTPU_INIT_ARGS that libtpu does not know, values that are not of their type, flags
that a generation of TPUs refuses, and flags among compile options that only LIBTPU_INIT_ARGS takes.

## Why it costs time

libtpu ends the process on an unknown name or value, when JAX first looks for TPUs. What a
generation refuses ends the first compile of the step, minutes after the start of a large job.

## How it is detected

The rule uses the flags of five releases of libtpu, which was asked for each name; the release is
the one that `jax[tpu]` installs with the jaxlib that is checked. What a generation refuses was
seen in a compile by libtpu 0.0.50.1, and needs `--target` or `--chip`.

## Example

```sh jaxlib=0.12.0
export LIBTPU_INIT_ARGS="--xla_tpu_enable_async_collective_fusions=true"
```

## Fix

Write the intended name, or remove the flag.

```sh jaxlib=0.12.0
export LIBTPU_INIT_ARGS="--xla_tpu_enable_async_collective_fusion=true"
```

## Fix safety

Safe to remove what libtpu does not know: the process did not start. Similar names are guesses.

## References

- `counterpoint flags show NAME` shows what is known about a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.libtpu import (
    is_libtpu_name,
    libtpu_flag,
    libtpu_of,
    libtpu_span,
    similar_libtpu_flags,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions import version_number

CODE: Final = "FLAG112"
NAME: Final = "libtpu-flag"
SINCE: Final = "0.1"

_GPUS: Final = "xla_gpu_"  # FLAG107
_WHY: Final = (
    "libtpu 0.0.50.1 refuses to compile a program to which it applies (continuation fusion of"
    " all-gathers), because of the generation"
)
_REFUSED: Final = {
    "xla_tpu_enable_async_collective_fusion_fuse_all_gather": (("TPU v5p", "TPU v6e"), _WHY)
}
"""The generations that refuse it, if it is on; seen for MaxText's 32B on v5p and 8B on v6e."""
_NEEDS: Final = {
    "xla_tpu_enable_latency_hiding_layer_scheduler": (
        "xla_tpu_enable_sparse_core_collective_aggregator"
    ),
}
"""What libtpu refuses to compile unless the other is on, too."""
_ON: Final = ("true", "1", "enabled")


def check(case: LintContext) -> Iterator[Remark]:
    release = libtpu_of(case.release.asked)
    for setting in case.written.through(Channel.LIBTPU_INIT_ARGS):
        if is_libtpu_name(setting.name) and not setting.name.startswith(_GPUS):
            yield from _in_arguments(case, setting, release)
    for setting in case.written.through(Channel.COMPILER_OPTIONS):
        if not case.is_for_libtpu(setting):
            continue  # FLAG107 on a GPU
        flag = libtpu_flag(setting.name, release)
        if flag is None:
            message = f"{_unknown(setting.name, release)}; compilation fails"
            yield remark(CODE, Severity.ERROR, setting, message, "remove it", Fix())
        elif not flag.per_compile:
            message = f"libtpu {release} takes it for a whole process only; compilation fails"
            yield remark(CODE, Severity.ERROR, setting, message, "set it in LIBTPU_INIT_ARGS")
        else:
            yield from _refused(case, setting)


def _in_arguments(case: LintContext, setting: Occurrence, release: str) -> Iterator[Remark]:
    flag = libtpu_flag(setting.name, release)
    if flag is None:
        near = similar_libtpu_flags(setting.name, release)
        advice = f"did you mean {' or '.join(near)}?" if near else "remove it"
        message = f"{_unknown(setting.name, release)}; libtpu ends the process"
        fix = Fix() if not near else None
        yield remark(CODE, Severity.ERROR, setting, message, advice, fix)
    elif setting.known and not flag.accepts(setting.meant):
        message = f"it accepts {flag.takes}, not {setting.meant!r}; libtpu ends the process"
        yield remark(CODE, Severity.ERROR, setting, message, f"use {flag.takes}")
    else:
        yield from _refused(case, setting)


def _unknown(name: str, release: str) -> str:
    span = libtpu_span(name)
    if span is None:
        return "no known release of libtpu has this flag"
    if version_number(span[0]) > version_number(release):
        return f"libtpu {release} does not have it yet; {span[0]} does"
    return f"libtpu {release} has removed it; {span[1]} is the last known release with it"


def _refused(case: LintContext, setting: Occurrence) -> Iterator[Remark]:
    if setting.meant.lower() not in _ON:
        return
    chips, why = _REFUSED.get(setting.name, ((), ""))
    if case.chip in chips:
        advice = f"remove it on {case.chip}"
        yield remark(CODE, Severity.WARNING, setting, why, advice, Fix(safe=False))
    partner = _NEEDS.get(setting.name)
    given = case.last(partner) if partner else None
    if partner and (given is None or given.meant.lower() not in _ON):
        message = f"libtpu refuses to compile with it without --{partner}=true"
        yield remark(CODE, Severity.ERROR, setting, message, f"add --{partner}=true, or remove it")
