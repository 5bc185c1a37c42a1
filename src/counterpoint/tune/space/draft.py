"""Draft: a dimension as it is written down, before anybody asked whether it exists here.

dimensions.toml, a user's file ──► Drafts ──release, chip, program──► Dimensions, or why not
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from counterpoint.flags import Settings
from counterpoint.flags.advice.condition import Condition
from counterpoint.tune.arm import Acts, Per

ANY = "any"
"""Of kinds: whatever collective there is."""

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """One way to write a choice: the first whose condition holds is taken.

    `undo` takes back what the base sets, and is no choice elsewhere. `most_trips`: only where no
    loop runs more often.
    """

    settings: Settings = field(default_factory=Settings)
    condition: Condition = field(default_factory=Condition)
    undo: bool = False
    profile: bool = False
    per: Per | None = None
    most_trips: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A dimension with all its choices, and when it can matter.

    Args:
        name: For people.
        choices: By name, each in one or several ways of writing it.
        acts: Where its choices show; None for what is known of their settings.
        kinds: The collectives that it is about; `any` for all, none for no collectives.
        loop: Only what is in a loop.
        combine: The kind of collectives whose break points replace the choices.
        by_hand: Whether a user wrote it.
    """

    name: str
    choices: Mapping[str, tuple[Pick, ...]]
    acts: Acts | None = None
    why: str = ""
    source: str = ""
    kinds: tuple[str, ...] = ()
    loop: bool = False
    combine: str = ""
    condition: Condition = field(default_factory=Condition)
    needs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    excludes: tuple[str, ...] = ()
    by_hand: bool = False
