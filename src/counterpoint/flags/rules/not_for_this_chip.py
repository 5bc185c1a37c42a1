"""A flag has no effect on this chip.

## What it does

Finds flags that XLA reads only for other chips.

## Why it costs time

The flag has no effect; and a recipe for another chip may be the wrong one altogether.

## How it is detected

The rule uses the table `chips.toml` in this rule's directory, which lists for each flag the chips
on which it works, and the place in XLA's source. Without a chip (`--target`) nothing is reported.
Flags of GPUs on a TPU, and of libtpu on a GPU, are FLAG107.

## Example

```sh jaxlib=0.6.2 chip=A100
export XLA_FLAGS=--xla_gpu_enable_analytical_sol_latency_estimator=true
```

## Fix

Remove it.

## Fix safety

Safe on this chip; reported only, since the same file may serve other chips.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/model/sol_latency_estimator.cc
- https://github.com/openxla/xla/blob/main/xla/backends/gpu/autotuner/cudnn.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.lint import FALSE, Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.versions import ChipFamily, chip_family

CODE: Final = "FLAG306"
NAME: Final = "not-for-this-chip"
SINCE: Final = "0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suited:
    """The chips for flags whose names match `flags`, with one of `values` (empty: with any)."""

    flags: re.Pattern[str]
    chips: frozenset[ChipFamily]
    why: str
    source: str
    values: tuple[str, ...] = ()


@cache
def suited() -> tuple[Suited, ...]:
    """Return the table of chips."""
    import tomllib

    file = Path(__file__).with_name("chips.toml")
    return tuple(
        Suited(
            flags=re.compile(entry["flags"]),
            chips=frozenset(ChipFamily(chip) for chip in entry["chips"]),
            why=entry["why"],
            source=entry["source"],
            values=tuple(entry.get("values", ())),
        )
        for entry in tomllib.loads(file.read_text("utf-8"))["suited"]
    )


def check(case: LintContext) -> Iterator[Remark]:
    """Yield a warning for each flag that this chip's compiler does not read."""
    chip = chip_family(case.chip)
    if chip is None or chip is ChipFamily.TPU:
        return
    for name, value in case.flags.items():
        given, flag = case.last(name), case.release.flags.get(name)
        if given is None or flag is None or flag.is_default(value):
            continue
        for entry in suited():
            if chip not in entry.chips and _concerns(entry, name, value):
                yield remark(
                    CODE,
                    Severity.WARNING,
                    given,
                    f"{entry.why}, not for {case.chip}",
                    "remove it",
                    Fix(safe=False),
                )
                break


def _concerns(entry: Suited, name: str, value: str) -> bool:
    if not entry.flags.fullmatch(name):
        return False
    return value in entry.values if entry.values else value.lower() not in FALSE
