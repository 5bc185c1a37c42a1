"""Conclusion: what a study says, done or not. The report draws this, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.core.basis import Range
from counterpoint.core.display import drawn
from counterpoint.tune.arm import Arm
from counterpoint.tune.journal.records import Ablated
from counterpoint.tune.space.space import LeftOut
from counterpoint.tune.statistics.estimate import Estimate, Noise, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm of the table.

    `status` is a word or two: winner, faster, slower, no effect, not decided, same program, out of
    memory, other numbers, hang, ... `median_s` is over all its runs. `raced` is from the race,
    `confirmed` from the fresh runs; `prediction_off` is measured over predicted step, less one.
    """

    arm: Arm
    status: str
    why: str = ""
    trials: int = 0
    failures: int = 0
    median_s: float | None = None
    raced: Estimate | None = None
    confirmed: Estimate | None = None
    prediction_off: float | None = None
    program: str | None = None
    peak_bytes: int | None = None

    @property
    def told(self) -> Estimate | None:
        """Of the fresh runs where there were any, else of the race."""
        return self.confirmed or self.raced

    @property
    def step_s(self) -> float | None:
        """The step that the gain is made of; of the base, and without a gain, of all its runs."""
        told = self.told.step_s if self.told is not None else None
        return self.median_s if told is None else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What it took so far, and what is left of the budget; None where there is no limit.

    `why_left` says why a study that is done did not use all of it.
    """

    trials: int
    seconds: float
    node_seconds: float
    trials_left: int | None = None
    seconds_left: float | None = None
    why_left: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """`sentence` is the verdict; `basis` says whether it is measured, or predicted only.

    `winner` is the arm to take, None where the base is. `gain` and `range` are of the winner:
    from the fresh runs alone where it was confirmed. `left_out` are arms that the user named and
    that take no part.
    """

    sentence: str
    basis: str
    state: str  # running, paused, interrupted, done
    winner: Arm | None = None
    verdict: Verdict | None = None
    confirmed: bool = False
    gain: float | None = None
    range: Range | None = None
    rows: tuple[ArmRow, ...] = ()
    noise: Noise | None = None
    spent: Spent | None = None
    ablation: tuple[Ablated, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __repr__(self) -> str:
        return f"<Conclusion ({self.basis}, {self.state}): {self.sentence}>"

    def _repr_html_(self) -> str | None:
        return drawn(self)
