"""Plan: all that is asked of a study beside its workload, checked; and what that costs at most."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from counterpoint.tune.executors.executor import Limits, Shape
from counterpoint.tune.statistics.estimate import Rule


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent: trials, seconds, or both; None is no limit of that kind."""

    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a study goes about it.

    Args:
        budget: Of the online part.
        candidates: How many the offline part compiles.
        shortlist: How many of them are worth real time, at most.
        rule: What decides.
        confirm_rows: Rows of the confirmation; 0 for none.
        target_gain: Good enough: a share of the step; None for as much as there is.
        shape: Processes and nodes.
        limits: Of one trial.
        loss_tolerance: By how much losses may differ; None to learn it from the base's runs.
        ablate: Whether the best arm is taken apart by measurements, too.
        seed: Of all that is drawn.
        jobs: Compiles at once.
        retries: How often a trial that failed without blame is made again.
    """

    budget: Budget = field(default_factory=Budget)
    candidates: int = 100
    shortlist: int = 8
    rule: Rule = field(default_factory=Rule)
    confirm_rows: int = 4
    target_gain: float | None = None
    shape: Shape = field(default_factory=Shape)
    limits: Limits = field(default_factory=Limits)
    loss_tolerance: float | None = None
    ablate: bool = False
    seed: int = 0
    jobs: int | None = None
    retries: int = 3
    space_file: Path | None = None
