"""The names that jaxlib accepts in XLA_FLAGS, with their types, for hints on misspelled ones.

Only a compiler can decide whether it accepts a name (see probe.py); this list is for hints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from counterpoint.flags.catalogue.lookup import facts_at, release, releases, states
from counterpoint.flags.catalogue.similar import similar as similar_flags

LIBTPU: Final = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "megascale_")
"""Prefixes of flags that libtpu reads, from LIBTPU_INIT_ARGS."""


@dataclass(frozen=True, slots=True)
class FlagName:
    """One flag. `first` is the oldest known release that has it; empty: the oldest of all."""

    name: str
    type: str  # bool, int32, int64, float, string, enum; lists: enums, strings, map
    first: str = ""
    values: tuple[str, ...] = ()


@cache
def names() -> dict[str, FlagName]:
    """Return all flags of the newest known jaxlib."""
    return {
        name: FlagName(name, facts["type"], _first(name), tuple(facts.get("values", ())))
        for name, facts in facts_at(releases()[-1]).items()
        if facts.get("xla_flags", True)
    }


def _first(name: str) -> str:
    for since, facts in states(name):
        if facts is not None and facts.get("xla_flags", True):
            return "" if since == releases()[0] else since
    return ""


def similar(name: str, count: int = 2) -> tuple[str, ...]:
    """Return known names that are similar to a misspelled one."""
    return similar_flags(name, release(), count)
