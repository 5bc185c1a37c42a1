"""Arm: Settings to try, expressed as changes to the base, and the words in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from counterpoint.core import Range, Unknown
from counterpoint.flags.settings import Settings

Per: TypeAlias = Literal["gpu", "node"]

BASE: Final = "base"
"""Name of the arm that all others are compared with: the user's own settings."""


class Acts(StrEnum):
    """The time at which a change takes effect.

    A change that acts only on the schedule and leaves the schedule unchanged has no effect by
    construction. A change that acts at run time may have an effect that neither the compiler nor
    the simulator can predict.
    """

    SCHEDULE = "schedule"
    RUNTIME = "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChange:
    """One choice of one dimension.

    `settings` are merged after the base's. `per` is set if the change is in how processes are
    distributed, and `words` if it is an option of the command, with its values. With `profile`, a
    PGLE profile is measured first, under the arm's other settings.
    `excludes` names dimensions that can't be combined with this one.
    """

    dimension: str
    choice: str
    settings: Settings = field(default_factory=Settings)
    acts: Acts = Acts.SCHEDULE
    per: Per | None = None
    profile: bool = False
    excludes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a short description: `all-gather threshold 512 MiB`."""
        return f"{self.dimension} {self.choice}" if self.choice != "on" else self.dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """The simulator's prediction for an arm; `gain` is the share of the base's step that it saves.

    `program` is the hash of the scheduled program: equal hashes are equal programs. `reach` holds
    the effect on the step, in seconds, of errors in each family of prices; errors that two arms
    share cancel when they are compared.
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
    tied: bool = False  # with the best arm
    reach: tuple[tuple[str, float, float], ...] = ()


class ArmOrigin(StrEnum):
    """The source of an arm."""

    BASE = "base"
    HAND = "by hand"
    RECIPE = "recipe"
    REMEDY = "remedy"  # named by a finding in the base's predicted step
    SPACE = "space"  # one change alone
    SEARCH = "search"  # several changes, found offline
    COMBINED = "combined"  # from arms that were each faster
    ABLATION = "ablation"  # the winner without one of its changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Settings that compete in a study.

    `settings` are complete: the base's, with all changes merged in order.
    """

    name: str
    settings: Settings
    changes: tuple[ArmChange, ...] = ()
    origin: ArmOrigin = ArmOrigin.SPACE
    predicted: Predicted | None = None

    @property
    def is_base(self) -> bool:
        return self.name == BASE

    @property
    def acts(self) -> Acts:
        """RUNTIME if any change acts at run time or is unknown, as for settings given by hand."""
        known = self.changes and all(change.acts is Acts.SCHEDULE for change in self.changes)
        return Acts.SCHEDULE if known else Acts.RUNTIME

    @property
    def is_worth_compiling(self) -> bool:
        """True if a change acts on the schedule, or sets flags by hand: worth compiling.

        The run-time effect of other flags is unknown, but their effect on the schedule can be seen.
        """
        if not self.changes or any(change.acts is Acts.SCHEDULE for change in self.changes):
            return True
        flags = any(change.settings.xla or change.settings.options for change in self.changes)
        return self.origin is ArmOrigin.HAND and flags

    @property
    def per(self) -> Per | None:
        """The distribution of processes, by the last change that sets it."""
        layouts: list[Per] = [change.per for change in self.changes if change.per is not None]
        return layouts[-1] if layouts else None

    @property
    def options(self) -> tuple[tuple[str, ...], ...]:
        """The options of the command that it changes, each with its values."""
        return tuple(change.words for change in self.changes if change.words)

    @property
    def profile(self) -> bool:
        """True if a PGLE profile must be measured before the arm runs."""
        return any(change.profile for change in self.changes)


def merged(base: Settings, changes: tuple[ArmChange, ...]) -> Settings:
    """Return the base with the changes merged in order."""
    for change in changes:
        base = base.merged(change.settings)
    return base


def gain_text(gain: float, reach: Range | Unknown | None = None) -> str:
    """Format a gain with its range: `+3.1% [+2.3%, +3.9%]`."""
    text = f"{100 * gain:+.1f}%"
    if not isinstance(reach, Range):
        return text
    return f"{text} [{gain_text(reach.low)}, {gain_text(reach.high)}]"


def share_text(share: float) -> str:
    """Format a share, rounded up: `0.6%`."""
    return f"{100 * share + 0.04999:.1f}%"


def possible_effects_text(reaches: Sequence[Range]) -> str:
    """Describe the effects that ranges leave possible; a gain is at most the whole step."""
    gain = min(max(reach.high for reach in reaches), 1.0)
    loss = max(-reach.low for reach in reaches)
    parts = [f"gains up to {share_text(gain)}"] if gain > 0 else []
    parts += [f"losses up to {share_text(loss)}"] if loss > 0 else []
    return " and ".join(parts) or "effects"


def changes_text(arm: Arm) -> str:
    """Describe what an arm changes: `all-gather threshold 512 MiB + pipelined all-gather`."""
    if arm.origin is ArmOrigin.HAND:
        return arm.name
    return " + ".join(map(str, arm.changes)) or arm.name
