"""A flag is appended without a blank.

## What it does

Finds flags that directly follow another one, or the value of XLA_FLAGS that the program inherits.

## Why it costs time

Two flags without a blank between them are one: of `--xla_a=1--xla_b=2`, the value of xla_a is
`1--xla_b=2`. XLA aborts on it, or, if the first one takes a text, names a file that way and never
sees the second flag. Behind an inherited value, this happens only where XLA_FLAGS is set before:
in some containers, and not on the machine where the script was tried.

## How it is detected

The rule looks for `--xla_` and `--megascale_` within a flag, and for flags directly behind
`$XLA_FLAGS`, `os.environ["XLA_FLAGS"]` and the like. `${XLA_FLAGS:+$XLA_FLAGS }` has the blank.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=3"
XLA_FLAGS+="--xla_gpu_enable_triton_gemm=false"
```

## Fix

Write a blank before the second flag.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=3"
XLA_FLAGS+=" --xla_gpu_enable_triton_gemm=false"
```

## Fix safety

Safe where XLA aborts, and behind an inherited value. If the first flag takes a text, the second one
would start to have an effect: reported only.

## References

- https://github.com/openxla/xla/blob/main/xla/parse_flags_from_env.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark, run_together
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import Pairs

CODE: Final = "FLAG212"
NAME: Final = "missing-blank"
SINCE: Final = "0.1"

_TEXTS: Final = ("string", "strings", "map")


def check(case: LintContext) -> Iterator[Remark]:
    for channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS):
        for setting in case.written.through(channel):
            parts = run_together(setting)
            if parts:
                yield _one_word(case, setting, parts)
            if setting.joined:
                message = (
                    f"no blank separates it from the earlier value of {setting.joined}: where that"
                    f" is set, its last flag and this one are one word"
                )
                fix = Fix(((setting.name, setting.meant),))
                advice = f"write a blank before {setting.text}"
                yield remark(CODE, Severity.WARNING, setting, message, advice, fix)


def _one_word(case: LintContext, one: Occurrence, parts: tuple[str, ...]) -> Remark:
    instead: Pairs = tuple(
        (name, value if equals else "true")
        for name, equals, value in (
            part[2:].partition("=") for part in (parts[0], "".join(parts[1:]))
        )
    )
    flag = case.release.flags.get(instead[0][0])
    text = one.channel is not Channel.XLA_FLAGS or (flag is not None and flag.type in _TEXTS)
    ends = "the second flag is a part of the first one's value" if text else "XLA aborts"
    message = f"no blank separates it from {parts[1]}: {ends}"
    severity = Severity.WARNING if text else Severity.ERROR
    return remark(
        CODE, severity, one, message, f"write {' '.join(parts)}", Fix(instead, safe=not text)
    )
