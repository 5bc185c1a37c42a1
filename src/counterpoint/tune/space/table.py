"""The dimensions that Counterpoint knows: dimensions.toml, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from counterpoint.tune.arm import Acts
from counterpoint.tune.space.draft import Draft
from counterpoint.tune.space.draft_text import read_draft
from counterpoint.tune.space.place import Place

FILE: Final = "dimensions.toml"


@dataclass(frozen=True, slots=True)
class Known:
    """All drafts by name, and the recipes that are no arms, each with why."""

    drafts: Mapping[str, Draft]
    no_arms: Mapping[str, str]

    @property
    def acts(self) -> Mapping[str, Acts]:
        """Where a flag or variable acts; runtime as soon as one dimension says so."""
        found: dict[str, Acts] = {}
        for draft in self.drafts.values():
            for name in names_of(draft):
                acts = draft.acts or Acts.RUNTIME
                found[name] = Acts.RUNTIME if found.get(name) is Acts.RUNTIME else acts
        return MappingProxyType(found)


def names_of(draft: Draft) -> frozenset[str]:
    """All flags and variables that its choices set."""
    picks = (pick.settings for several in draft.choices.values() for pick in several)
    return frozenset(name for it in picks for name, _ in (*it.xla, *it.env, *it.options))


@cache
def known() -> Known:
    """What ships."""
    document = tomllib.loads(Path(__file__).with_name(FILE).read_text("utf-8"))
    place = Place(FILE, ("dimension",))
    drafts = {
        name: read_draft(name, value, place.at(name), by_hand=False)
        for name, value in document["dimension"].items()
    }
    return Known(MappingProxyType(drafts), MappingProxyType(document["no_arms"]))
