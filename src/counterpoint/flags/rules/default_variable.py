"""A variable sets its default.

## What it does

Finds environment variables and options of JAX whose value is their reader's default.

## Why it costs time

It costs nothing. But a copied list of variables hides the few that matter: `NCCL_LL_BUFFSIZE=-2`,
which many recipes have, means "use NCCL's default".

## How it is detected

JAX's defaults are known for each release; those of NCCL, CUDA and XLA's client are in the
catalogue, from their sources. Variables given twice are skipped. RCCL, which reads NCCL's variables
on AMD's GPUs, has defaults of its own: there it looks at no variable of NCCL, and at
`NCCL_PXN_DISABLE` and `NCCL_P2P_NET_CHUNKSIZE`, which RCCL sets by the number of ranks, only if the
chip is known to be another.

## Example

```sh jaxlib=0.10.2
export NCCL_LL_BUFFSIZE=-2
```

## Fix

Remove it.

## Fix safety

Safe, unless the machine's own environment or /etc/nccl.conf sets the variable: then this line
overrides it.

## References

- https://github.com/NVIDIA/nccl/blob/master/src/init.cc
- https://github.com/ROCm/rccl/blob/develop/src/rccl_wrap.cc
- https://docs.jax.dev/en/latest/config_options.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    chip_is,
    is_no,
    is_yes,
    may_be_amd,
    quoted_for_jax,
    remark,
)
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions import ChipFamily

CODE: Final = "FLAG504"
NAME: Final = "default-variable"
SINCE: Final = "0.1"

_OF_RCCL: Final = ("NCCL_PXN_DISABLE", "NCCL_P2P_NET_CHUNKSIZE")


def check(case: LintContext) -> Iterator[Remark]:
    """Yield a note for each variable that equals the default."""
    places = (Channel.ENVIRONMENT, Channel.JAX_CONFIG)
    given = [setting for setting in case.written.given if setting.channel in places]
    times = Counter(setting.name.upper() for setting in given)
    for setting in given:
        if times[setting.name.upper()] == 1 and setting.meant and _is_default(case, setting):
            text = f"`{setting.meant}` is the default"
            yield remark(CODE, Severity.NOTE, setting, text, "remove it", Fix())


def _is_default(case: LintContext, one: Occurrence) -> bool:
    name = one.name.upper()
    default = case.release.jax.get(name)
    if default is not None:
        if quoted_for_jax(one) and (default in ("true", "false") or default.isdecimal()):
            return False
        if default in ("true", "false"):
            return is_yes(one.meant) if default == "true" else is_no(one.meant)
        return default == one.meant
    if one.name.startswith("NCCL_") and (
        chip_is(case, ChipFamily.AMD) or (one.name in _OF_RCCL and may_be_amd(case))
    ):
        return False
    known = variables().get(one.name)
    return known is not None and known.type != "none" and known.is_default(one.meant)
