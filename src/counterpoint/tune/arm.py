"""Arm: Settings to try, as what they change of the base."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from counterpoint.core.basis import Range
from counterpoint.flags import Settings

Per: TypeAlias = Literal["gpu", "node"]

BASE: Final = "base"
"""The arm that all others are compared with: the user's own settings."""


class Acts(StrEnum):
    """Where a change shows.

    What acts on the schedule only and leaves it as it was has no effect, by construction. What acts
    when the program runs may have one, and no compiler or simulator tells.
    """

    SCHEDULE = "schedule"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One choice of one dimension.

    `settings` are merged behind the base's. `per` is how the processes are dealt out, where that is
    what changes. With `profile`, a PGLE profile is measured under the arm's other settings first.
    `excludes` are dimensions that it must not stand beside.
    """

    dimension: str
    choice: str
    settings: Settings = field(default_factory=Settings)
    acts: Acts = Acts.SCHEDULE
    per: Per | None = None
    profile: bool = False
    excludes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As people say it: `all-gather threshold 512 MiB`."""
        return f"{self.dimension} {self.choice}" if self.choice != "on" else self.dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What the simulator says of an arm; `gain` is the share of the base's step that it saves.

    `program` is the hash of the scheduled program: equal hashes are equal programs. `reach` is what
    errors of each family of prices do to the step, in seconds: what two arms share of it cancels.
    """

    step_s: float
    range_s: Range
    gain: float
    gain_range: Range
    program: str
    exposed_s: float | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    fits: bool | None = None
    tied: bool = False  # with the best one
    reach: tuple[tuple[str, float, float], ...] = ()


class Origin(StrEnum):
    """Who came up with an arm."""

    BASE = "base"
    HAND = "by hand"
    RECIPE = "recipe"
    REMEDY = "remedy"  # named by a finding of the base's predicted step
    SPACE = "space"  # one change alone
    SEARCH = "search"  # several, found offline
    COMBINED = "combined"  # of arms that were faster each
    ABLATION = "ablation"  # the winner without one of its changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """`settings` are in full: the base's with all changes merged behind them, in order."""

    name: str
    settings: Settings
    changes: tuple[Change, ...] = ()
    origin: Origin = Origin.SPACE
    predicted: Predicted | None = None

    @property
    def is_base(self) -> bool:
        return self.name == BASE

    @property
    def acts(self) -> Acts:
        """RUNTIME as soon as one change does so, and for settings by hand: nobody knows theirs."""
        known = self.changes and all(it.acts is Acts.SCHEDULE for it in self.changes)
        return Acts.SCHEDULE if known else Acts.RUNTIME

    @property
    def per(self) -> Per | None:
        """The last word of its changes on how processes are dealt out."""
        said: list[Per] = [it.per for it in self.changes if it.per is not None]
        return said[-1] if said else None

    @property
    def profile(self) -> bool:
        """Whether a PGLE profile is to be measured for it first."""
        return any(it.profile for it in self.changes)


def merged(base: Settings, changes: tuple[Change, ...]) -> Settings:
    """The base with the changes, in order."""
    for it in changes:
        base = base.merged(it.settings)
    return base
