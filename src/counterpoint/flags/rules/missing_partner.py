"""A flag has no effect without another one, which is not set.

## What it does

Finds flags that XLA reads only if another flag enables something.

## Why it costs time

The flag has no effect, and nothing reports that.

## How it is detected

The rule uses the table `partners.json` in this rule's directory: each entry has the flag, the
releases, the required condition, and the place in XLA's source. A condition is evaluated with the
given value, or else the release's default.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS=--xla_gpu_collective_permute_decomposer_threshold=1024
```

## Fix

Set the other flag too, or remove this one.

## Fix safety

Removing it is safe, since it has no effect. The other flag changes the program: it is reported
only.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_compiler.cc
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_value,
    remark,
    since,
)
from counterpoint.flags.observed import release_of, with_releases
from counterpoint.flags.versions import ChipFamily, chip_family

CODE: Final = "FLAG303"
NAME: Final = "missing-partner"
SINCE: Final = "0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partner:
    """The needs of a flag: one condition of `any`, written `name=value` or `name!=value`.

    `chips` are the families to which it applies; `unless` are values of the flag itself that need
    nothing.
    """

    flag: str
    any: tuple[str, ...]
    why: str
    advice: str
    source: str
    since: str = "0"
    until: str | None = None
    chips: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


@cache
def partners() -> tuple[Partner, ...]:
    """Return the table. It is JSON, since importing a TOML parser is slower than all rules."""
    file = Path(__file__).with_name("partners.json")
    return tuple(_partner(entry) for entry in json.loads(file.read_text("utf-8")))


def _partner(entry: Mapping[str, Any]) -> Partner:
    fields: dict[str, Any] = {**entry, "why": with_releases(entry["why"])}
    fields |= {name: release_of(entry[name]) for name in ("since", "until") if name in entry}
    fields |= {name: tuple(entry.get(name, ())) for name in ("any", "chips", "unless")}
    return Partner(**fields)


def check(case: LintContext) -> Iterator[Remark]:
    """Yield a warning for each flag that lacks a flag it needs."""
    for partner in partners():
        given = case.last(partner.flag)
        flag = case.release.flags.get(partner.flag)
        if given is None or flag is None or given.meant in partner.unless:
            continue
        if flag.is_default(given.meant) or not _concerns(partner, case):
            continue
        if not any(_holds(condition, case) for condition in partner.any):
            yield remark(
                CODE, Severity.WARNING, given, partner.why, partner.advice, Fix(safe=False)
            )


def _concerns(partner: Partner, case: LintContext) -> bool:
    if not since(case, partner.since) or (partner.until and since(case, partner.until)):
        return False
    known = chip_family(case.chip)
    if known is ChipFamily.TPU:
        return False
    return not partner.chips or known is None or known.value in partner.chips


def _holds(condition: str, case: LintContext) -> bool:
    """Evaluate `name=value` or `name!=value`; `$NAME` is a variable. False for unknown flags."""
    name, _, wanted = condition.partition("=")
    differs = name.endswith("!")
    name = name.removesuffix("!")
    held = _variable(case.variables, name) if name[0] == "$" else flag_value(case, name)
    if held is None:
        return False
    flag = case.release.flags.get(name)
    if flag is not None:
        same = flag.is_default(held) if flag.is_default(wanted) else _same(held, wanted)
    else:
        same = _same(held, wanted)
    return same is not differs


def _variable(variables: Mapping[str, str], name: str) -> str | None:
    return variables.get(name[1:])


def _same(held: str, wanted: str) -> bool:
    return held.lower() == wanted.lower() or held.lower().endswith(f"_{wanted.lower()}")
