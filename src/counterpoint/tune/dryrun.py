"""Dry run: what a study would try, and what it costs at most. No trial is run, nothing is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from counterpoint.core import Unknown
from counterpoint.core.scratch import scratch_directory
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.executors.choose import choose_executor
from counterpoint.tune.named_arms import named_arms
from counterpoint.tune.race.budget import StudyCost, cost
from counterpoint.tune.request import Say, TuneRequest
from counterpoint.tune.search_inputs import SearchInputs, prepare_search
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from counterpoint.tune.study.directory import is_study, read_study
from counterpoint.workflow.forecast import forecasts


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The plan of a study that is not run.

    Args:
        workload: For display.
        target: The target of the prediction; None if nothing is predicted.
        executor: Where trials run; None if nothing is run.
        space: Dimensions with their choices, seeds, and what was left out and why.
        arms: All arms known in advance: seeds and single choices. A search finds more.
        compiles: Maximum number of compiles.
        cost: Cost of the measurements; None if nothing is run.
        trial_s: Duration of a trial, as measured in an earlier session.
        nodes: Nodes per trial.
        base_step_s: Predicted step of the base.
    """

    workload: str
    target: str | None
    executor: str | None
    space: Space
    arms: tuple[Arm, ...]
    compiles: int
    cost: StudyCost | None
    trial_s: float | Unknown
    nodes: int
    base_step_s: float | None = None

    @property
    def node_hours(self) -> float | Unknown:
        """Expected node hours, within the budget."""
        if self.cost is None or self.cost.expected_seconds is None:
            return Unknown("the duration of a trial is unknown before the first one")
        return self.cost.expected_seconds * self.nodes / 3600


def plan_study(request: TuneRequest, say: Say) -> DryRun:
    """Plan a study without running it; a workload is lowered and its base compiled."""
    base_step_s = None
    executor = _dry_executor(request)  # refuse a wrong executor before any work
    if request.predicts:
        with scratch_directory("tune") as scratch:
            inputs = prepare_search(request, scratch, say)
            base_step_s = _base_step_s(inputs)
        space = inputs.space
        alone = (arm_of(space, point, ArmOrigin.SPACE) for point in single_points(space))
        arms = tuple(distinct(space.base, (*space.seeds, *alone)))
    else:
        space, arms = named_arms(request)
    trial_s = _trial_s(request.directory)
    return DryRun(
        workload=request.name,
        target=str(request.target) if request.predicts else None,
        executor=executor,
        space=space,
        arms=arms,
        compiles=_compiles(request, arms),
        cost=_cost(request, arms, trial_s),
        trial_s=trial_s,
        nodes=request.plan.shape.nodes,
        base_step_s=base_step_s,
    )


def _base_step_s(inputs: SearchInputs) -> float:
    """Compile the base again if the user's file fixes some of its settings."""
    predicted = inputs.base_forecast
    if predicted is None:
        question = replace(inputs.work.question, settings=inputs.space.base, candidates=())
        predicted = forecasts(replace(inputs.work, question=question))
    return predicted.base.step_s


def _dry_executor(request: TuneRequest) -> str | None:
    if not request.measure:
        return None
    options, environ = request.executor_options, request.inherited
    return choose_executor(
        request.executor, request.plan.shape, options, environ=environ
    ).describe()


def _compiles(request: TuneRequest, arms: tuple[Arm, ...]) -> int:
    """Count compiles; changes that act only at run time share one."""
    if not request.predicts:
        return 0
    compiled = [arm for arm in arms if arm.is_worth_compiling]
    return request.plan.candidates if len(compiled) > 1 else len(compiled) + 1


def _cost(
    request: TuneRequest, arms: tuple[Arm, ...], trial_s: float | Unknown
) -> StudyCost | None:
    if not request.measure:
        return None
    return cost(arms, request.online_plan, None if isinstance(trial_s, Unknown) else trial_s)


def _trial_s(directory: Path) -> float | Unknown:
    if is_study(directory):
        took = [
            trial.wall_s for trial in read_study(directory).trials if trial.counts and trial.wall_s
        ]
        if took:
            return median(took)
    return Unknown("measured once the base has run")
