"""The names that jaxlib takes in XLA_FLAGS, each with its type: what a misspelt one is held to.

A compiler always has the last word on a name (probe.py asks it); this list serves hints.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

LIBTPU: Final = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "megascale_")
"""How flags begin that libtpu reads, from LIBTPU_INIT_ARGS."""


@dataclass(frozen=True, slots=True)
class Name:
    """One flag. `first` is the oldest release looked at that has it; empty: older than all."""

    name: str
    type: str  # bool, int32, int64, float, string, enum; lists: enums, strings, map
    first: str = ""
    values: tuple[str, ...] = ()


@cache
def names() -> dict[str, Name]:
    """All flags of the newest jaxlib that was looked at."""
    text = resources.files("counterpoint.flags").joinpath("names.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {row[0]: _name(*row) for row in rows}


def _name(name: str, kind: str, first: str = "", values: str = "") -> Name:
    return Name(name, kind, first, tuple(values.split(",")) if values else ())


def similar(name: str, count: int = 2) -> tuple[str, ...]:
    """Known names that this one may have been meant to be."""
    tried = name.lstrip("-").lower().replace("-", "_")
    if tried in names():
        return (tried,)
    return tuple(difflib.get_close_matches(tried, names(), n=count, cutoff=0.85))
