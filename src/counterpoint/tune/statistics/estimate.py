"""Estimate: what measurements say of one arm against the base, and what may be concluded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import geometric_mean

from counterpoint.core.basis import Range, Unknown


@dataclass(frozen=True, slots=True)
class Observation:
    """The median step of one run, and where it stood: its arm and its row.

    A row is one pass through the base and the arms; rows are of one allocation each.
    """

    arm: str
    row: int
    seconds: float


class Verdict(StrEnum):
    """What may be said of an arm."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no effect"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Pair:
    """The steps of an arm and of the base in one row; of several runs their geometric mean."""

    row: int
    seconds: float
    base_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`gain` is the share of the base's step that the arm saves: 0.03 is 3 % faster.

    It is made of `pairs` alone: 1 - `step_s` / `base_s`, their geometric means, which is the mean
    of the logarithms of their ratios.

    `range` holds with the study's confidence for all arms and looks together. `rows` counts the
    pairs. `p` is adjusted in the same way. An arm that never met the base has a gain of
    NaN, and its range says why. `why` is a few words on the verdict, empty where it needs none.
    """

    arm: str
    gain: float
    range: Range | Unknown
    p: float | None
    rows: int
    verdict: Verdict
    decided: bool  # whether more rows are not worth their time
    why: str = ""
    hopeless: bool = False  # no gain that counts is to be expected; claims nothing
    pairs: tuple[Pair, ...] = ()

    @property
    def step_s(self) -> float | None:
        """The arm's step, over the pairs."""
        return geometric_mean(it.seconds for it in self.pairs) if self.pairs else None

    @property
    def base_s(self) -> float | None:
        """The base's step in the same rows."""
        return geometric_mean(it.base_seconds for it in self.pairs) if self.pairs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What decides.

    Args:
        confidence: Of the study as a whole: 1 - its rate of false positives.
        indifferent: A gain or loss within this share is none that counts.
        cap: Rows at most.
        looks: After which numbers of rows it is looked at; the last is the cap.
        arms: How many arms share the confidence.
    """

    confidence: float = 0.95
    indifferent: float = 0.005
    cap: int = 6
    looks: tuple[int, ...] = (2, 4, 6)
    arms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """By how much identical runs of this study differ: sigma of the log ratio of two of them."""

    sigma: float | Unknown
    freedom: int
    floor: float  # a change within it is no change that this machine can show
