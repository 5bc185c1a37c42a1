"""The names that jaxlib takes in XLA_FLAGS, each with its type: what a misspelt one is held to.

A compiler always has the last word on a name (probe.py asks it); this list serves hints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from counterpoint.flags.catalogue.lookup import facts_at, release, releases, states
from counterpoint.flags.catalogue.similar import similar as similar_flags

LIBTPU: Final = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "megascale_")
"""How flags begin that libtpu reads, from LIBTPU_INIT_ARGS."""


@dataclass(frozen=True, slots=True)
class Name:
    """One flag. `first` is the oldest known release that has it; empty: the oldest of all has."""

    name: str
    type: str  # bool, int32, int64, float, string, enum; lists: enums, strings, map
    first: str = ""
    values: tuple[str, ...] = ()


@cache
def names() -> dict[str, Name]:
    """All flags of the newest jaxlib that is known."""
    return {
        name: Name(name, facts["type"], _first(name), tuple(facts.get("values", ())))
        for name, facts in facts_at(releases()[-1]).items()
        if facts.get("xla_flags", True)
    }


def _first(name: str) -> str:
    for since, facts in states(name):
        if facts is not None and facts.get("xla_flags", True):
            return "" if since == releases()[0] else since
    return ""


def similar(name: str, count: int = 2) -> tuple[str, ...]:
    """Known names that this one may have been meant to be."""
    return similar_flags(name, release(), count)
