"""Dry run: what a study would try, and what that costs. Nothing is run, and nothing is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeAlias

from counterpoint.core.basis import Unknown
from counterpoint.tune.arm import Arm, Origin
from counterpoint.tune.asked import Asked
from counterpoint.tune.by_hand import named_arms
from counterpoint.tune.executors.choose import choose_executor
from counterpoint.tune.offline import Ground, break_ground
from counterpoint.tune.online.budget import Cost, cost, refuse_small
from counterpoint.tune.search.shows import shows
from counterpoint.tune.space.equals import distinct
from counterpoint.tune.space.point import arm_of, single_points
from counterpoint.tune.space.space import Space
from counterpoint.tune.study.directory import is_study, read_study
from counterpoint.workflow.prediction.trials import forecasts

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What would be tried.

    Args:
        workload: For people.
        target: What it is predicted for; None: nothing is predicted.
        executor: Where it runs; None: nothing is run.
        space: Dimensions with their choices, seeds, and what was left out and why.
        arms: All that are known beforehand: seeds, and single choices. A search finds more.
        compiles: At most so many.
        cost: Of the online part; None where nothing is run.
        trial_s: How long a trial takes, as an earlier sitting measured it.
        nodes: That a trial takes.
        base_step_s: Predicted.
    """

    workload: str
    target: str | None
    executor: str | None
    space: Space
    arms: tuple[Arm, ...]
    compiles: int
    cost: Cost | None
    trial_s: float | Unknown
    nodes: int
    base_step_s: float | None = None

    @property
    def node_hours(self) -> float | Unknown:
        """Expected; within the budget."""
        if self.cost is None or self.cost.expected_seconds is None:
            return Unknown("how long a trial takes is not known before the first one")
        return self.cost.expected_seconds * self.nodes / 3600


def plan_study(asked: Asked, say: Say) -> DryRun:
    """Look at all of it; a workload is lowered and its base compiled, as the space asks for."""
    base_step_s = None
    executor = _executor(asked)  # what can't be is refused before the work
    if asked.predicts:
        with tempfile.TemporaryDirectory(prefix="counterpoint-tune-") as scratch:
            ground = break_ground(asked, Path(scratch), say)
            base_step_s = _base_step_s(ground)
        space = ground.space
        alone = (arm_of(space, it, Origin.SPACE) for it in single_points(space))
        arms = tuple(distinct(space.base, (*space.seeds, *alone)))
    else:
        space, arms = named_arms(asked)
    trial_s = _trial_s(asked.directory)
    return DryRun(
        workload=asked.name,
        target=str(asked.target) if asked.predicts else None,
        executor=executor,
        space=space,
        arms=arms,
        compiles=_compiles(asked, arms),
        cost=_cost(asked, arms, trial_s),
        trial_s=trial_s,
        nodes=asked.plan.shape.nodes,
        base_step_s=base_step_s,
    )


def _base_step_s(ground: Ground) -> float:
    """Also where the user's file fixes some of the base: then it is compiled once more."""
    made = ground.made
    if made is None:
        asked = replace(ground.work.question, settings=ground.space.base, candidates=())
        made = forecasts(replace(ground.work, question=asked))
    return made.base.step_s


def _executor(asked: Asked) -> str | None:
    if not asked.measure:
        return None
    options, environ = asked.executor_options, asked.inherited
    return choose_executor(asked.executor, asked.plan.shape, options, environ=environ).describe()


def _compiles(asked: Asked, arms: tuple[Arm, ...]) -> int:
    """What acts at run time only is the same program, and compiled once for all."""
    if not asked.predicts:
        return 0
    compiled = [it for it in arms if shows(it)]
    return asked.plan.candidates if len(compiled) > 1 else len(compiled) + 1


def _cost(asked: Asked, arms: tuple[Arm, ...], trial_s: float | Unknown) -> Cost | None:
    if not asked.measure:
        return None
    plan = asked.online_plan
    refuse_small(plan)
    return cost(arms, plan, None if isinstance(trial_s, Unknown) else trial_s)


def _trial_s(directory: Path) -> float | Unknown:
    if is_study(directory):
        took = [it.wall_s for it in read_study(directory).trials if it.counts and it.wall_s]
        if took:
            return median(took)
    return Unknown("it is known when the base has run once")
