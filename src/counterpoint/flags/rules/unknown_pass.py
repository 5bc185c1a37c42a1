"""A disabled pass does not exist, or JAX replaces the list.

## What it does

Checks `xla_disable_hlo_passes`. XLA silently accepts every name, even if no pass has it. And before
jaxlib {-remat-off-replaces-passes}, JAX replaces the list in XLA_FLAGS by its own if
`jax_compiler_enable_remat_pass` is off; later ones add to it.

## Why it costs time

The pass keeps running, and nothing reports that.

## How it is detected

Names are compared with those of the passes in four releases' GPU compilers (`passes.txt` in this
rule's directory). A name similar to one of them is assumed to be misspelled; any other one gets a
note, since a release may have passes that those four did not have.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS=--xla_disable_hlo_passes=latency_hiding_scheduler
```

## Fix

Write the name as XLA spells it. If JAX replaces the list, disable rematerialization in it, too, and
leave `jax_compiler_enable_remat_pass` on.

## Fix safety

Reported only: disabling a pass changes the program.

## References

- https://github.com/openxla/xla/blob/main/xla/hlo/pass/hlo_pass_pipeline.cc
- https://github.com/jax-ml/jax/issues/37391
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, items, remark
from counterpoint.flags.observed import boundary, has, with_releases
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.versions import DISABLED_PASSES

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG305"
NAME: Final = "unknown-pass"
SINCE: Final = "0.1"

_REMAT: Final = "JAX_COMPILER_ENABLE_REMAT_PASS"


@cache
def passes() -> frozenset[str]:
    """Return the known names of passes."""
    file = Path(__file__).with_name("passes.txt")
    lines = file.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and line[0] != "#")


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each unknown name, and one if JAX replaces the list."""
    given = case.last(DISABLED_PASSES)
    wanted = items(case, DISABLED_PASSES)
    if given is None or not wanted:
        return
    for name in wanted:
        if name not in passes():
            yield _unknown(case, given, name)
    off = case.variables.get(_REMAT, "").lower() in ("false", "0", "no", "off", "n", "f")
    replaced = has("remat-off-replaces-passes", case.release.asked)
    if off and replaced and wanted != ("rematerialization",):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"JAX replaces this list by its own, since {_REMAT} is off (before jaxlib"
            f" {boundary('-remat-off-replaces-passes')})",
            f"remove {_REMAT}, and add rematerialization to the list",
            Fix(safe=False),
        )


def _unknown(case: LintContext, given: Occurrence, name: str) -> Remark:
    tried = name.lower().replace("_", "-")
    known = {name_of_pass.replace("_", "-"): name_of_pass for name_of_pass in passes()}
    import difflib

    near = difflib.get_close_matches(tried, known, n=2, cutoff=0.85)
    if near:
        meant = " or ".join(known[hit] for hit in near)
        return remark(
            CODE,
            Severity.WARNING,
            given,
            f"no pass is called {name}, and XLA silently accepts any name",
            f"did you mean {meant}?",
            Fix(safe=False),
        )
    return remark(
        CODE,
        Severity.NOTE,
        given,
        f"no pass called {name} is known, and XLA silently accepts any name",
        f"compare with the names that jaxlib {case.release.version} logs under"
        " TF_CPP_VMODULE=hlo_pass_pipeline=1",
    )
