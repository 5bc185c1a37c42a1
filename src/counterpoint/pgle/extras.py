"""Names of a profile that no lookup of a program finds, and what was probably meant.

Tools that read profilers write a collective as `all-gather.3` or by its done; XLA looks for its
start and for nothing else, so the costs that matter most are lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hlo import Program
from counterpoint.pgle.needed import Lookup, asked_name, base_name
from counterpoint.pgle.profile import Cost

_STAGE: Final = re.compile(r"-(start|done)(?=$|\.)")


class Why(StrEnum):
    """Why nothing looks a name up."""

    OTHER_MODULE = "of another module"
    COLLECTIVE = "a collective not named by its start"
    RENAMED = "a name that XLA gave after it had asked"
    ABSENT = "not in the program"
    NOT_ASKED = "in the program, but XLA asks no cost of it"


@dataclass(frozen=True, slots=True)
class Extra:
    """A cost that goes unused; `meant` is the name under which XLA would find it."""

    name: str
    us: float
    why: Why
    meant: str | None = None


def extras(costs: Iterable[Cost], program: Program, lookups: Iterable[Lookup]) -> tuple[Extra, ...]:
    """Every name that is there in vain, once."""
    found = list(lookups)
    asked = {name for it in found for name in it.names}
    starts = {it.names[0]: _core(it.names[0]) for it in found if it.collective}
    seen: dict[tuple[str, str | None], Extra] = {}
    for cost in costs:
        extra = _extra(cost, program, asked, starts)
        if extra is not None:
            seen[cost.name, cost.fingerprint] = extra
    return tuple(seen.values())


def _extra(
    cost: Cost, program: Program, asked: set[str], starts: Mapping[str, str]
) -> Extra | None:
    base = base_name(cost.name)
    if cost.fingerprint not in (None, program.fingerprint):
        return Extra(cost.name, cost.us, Why.OTHER_MODULE)
    if base in asked:
        return None
    meant = next(_starts_meant(cost.name, starts), None)
    if meant is not None:
        return Extra(cost.name, cost.us, Why.COLLECTIVE, meant)
    known = program.instruction(cost.name) or program.instruction(base)
    if known is None:
        return Extra(cost.name, cost.us, Why.ABSENT)
    before = asked_name(known)
    if before in asked:
        return Extra(cost.name, cost.us, Why.RENAMED, before)
    return Extra(cost.name, cost.us, Why.NOT_ASKED)


def _starts_meant(name: str, starts: Mapping[str, str]) -> Iterator[str]:
    core = _core(name)
    return (start for start, its_core in starts.items() if its_core == core and start != name)


def _core(name: str) -> str:
    """`all-gather.3` of `all-gather-start.3`, `all-gather-done.3` and itself."""
    return _STAGE.sub("", name)
