"""Plan: the options of a study, apart from its workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from counterpoint.core.field import Field
from counterpoint.tune.executors.executor import ProcessShape, TrialLimits
from counterpoint.tune.statistics.estimate import DecisionRule


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit on trials, seconds, or both; None means no limit."""

    trials: Annotated[int | None, Field("runs; null: no limit of that kind")] = None
    seconds: Annotated[float | None, Field("time; null: no limit of that kind")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """The options of a study.

    Args:
        budget: Limit on the measurements.
        candidates: Number of candidates that the search compiles.
        shortlist: Maximum number of candidates to measure.
        rule: The decision rule.
        confirm_rows: Rows of the confirmation; 0 for none.
        target_gain: The gain, as a share of the step, at which the race stops; None for no target.
        shape: Number of processes and nodes.
        limits: Limits of one trial.
        loss_tolerance: How much losses may differ; None to learn it from the base's runs.
        ablate: Whether to measure the best arm without each of its changes.
        seed: Seed for all random choices.
        jobs: Number of parallel compiles.
        retries: How often a trial is repeated that failed through no fault of the arm.
        space_file: The user's description of the search space; None for the default space.
    """

    budget: Budget = field(default_factory=Budget)
    candidates: int = 100
    shortlist: int = 8
    rule: DecisionRule = field(default_factory=DecisionRule)
    confirm_rows: int = 4
    target_gain: float | None = None
    shape: ProcessShape = field(default_factory=ProcessShape)
    limits: TrialLimits = field(default_factory=TrialLimits)
    loss_tolerance: float | None = None
    ablate: bool = False
    seed: int = 0
    jobs: int | None = None
    retries: int = 3
    space_file: Path | None = None
