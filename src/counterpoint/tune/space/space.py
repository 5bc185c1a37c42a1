"""Space: dimensions with their choices, what keeps them apart, and what the user fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from counterpoint.flags import Settings
from counterpoint.tune.arm import Acts, Arm, Change

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing that can be set, with the choices worth a try beside the base's own.

    Args:
        name: A short word for people: `all-gather threshold`.
        choices: What may be chosen; leaving the dimension alone is always possible, too.
        acts: Where its choices show.
        why: Why it may matter for this program.
        source: Who says so: a recipe, the program, a file of the user's.
        needs: Only with these choices of other dimensions: by dimension, `on` for any choice.
        excludes: Not together with these dimensions.
    """

    name: str
    choices: tuple[Change, ...]
    acts: Acts = Acts.SCHEDULE
    why: str = ""
    source: str = ""
    needs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dimension or an arm that is not tried, and why; `named`: the user asked for that arm."""

    name: str
    why: str
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All that may be tried on top of the base.

    `version` is jaxlib's and `chip` as hardware names it; None where nobody knows. `notes` are what
    the user should know of the space as a whole.
    """

    base: Settings
    dimensions: tuple[Dimension, ...] = ()
    seeds: tuple[Arm, ...] = ()  # recipes, and arms by hand: tried first
    left_out: tuple[LeftOut, ...] = ()
    version: str | None = None
    chip: str | None = None
    notes: tuple[str, ...] = ()
