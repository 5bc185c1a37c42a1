"""A study from its start, or from where it stopped, to its conclusion."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

from counterpoint.compile import require_compiler
from counterpoint.core import CounterpointError, InputError, Unknown, UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.frozen import frozen
from counterpoint.core.scratch import scratch_directory
from counterpoint.cost import Scalars, default_scalars, read_scalars
from counterpoint.flags.jaxlib import installed_version
from counterpoint.hardware import Target, find_described, find_gpu
from counterpoint.hardware.targets import parse_target
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.conclusion.results import foreign_devices
from counterpoint.tune.executors.choose import choose_executor, executor_kind, named_here
from counterpoint.tune.executors.executor import Executor, PlaceRequest
from counterpoint.tune.race.budget import StudyCost, cost, refuse_small
from counterpoint.tune.race.tuner import run_study
from counterpoint.tune.recalibrate import fitted
from counterpoint.tune.request import (
    TuneRequest,
    began,
    check,
    edited,
    example_target,
    list_arms,
    named_arms,
    running,
)
from counterpoint.tune.search.proposer import with_seed_choices
from counterpoint.tune.search.search import search
from counterpoint.tune.space.make import make_space, refuse_odd
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from counterpoint.tune.space.space_file import read_space
from counterpoint.tune.study.directory import is_study, open_study, plan_of, read_study
from counterpoint.tune.study.records import Paused, StudyEnded
from counterpoint.tune.study.study import Ledger, Study, stamp
from counterpoint.workflow import (
    PredictionSubject,
    find_subject,
    is_function,
    lower_subject,
    require_source,
    run_subject,
)
from counterpoint.workflow.forecast import (
    ForecastBatch,
    PredictionInputs,
    PricingContext,
    forecasts,
    read_tables,
)
from counterpoint.workflow.prediction import PredictionOptions, check_devices

_SECONDS: Final = 60


def own_gpus(environ: Mapping[str, str]) -> Target | None:
    """Return this machine's visible GPUs as a target; None if unknown or of several kinds."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return None
    try:
        listed = subprocess.run(  # noqa: S603
            [tool, "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = [line.strip() for line in listed.stdout.splitlines() if line.strip()]
    return target_of(names, environ.get("CUDA_VISIBLE_DEVICES"))


def target_of(names: list[str], shown: str | None) -> Target | None:
    """Return the target for GPUs with these names."""
    kinds = {
        gpu.name
        for name in names
        if (gpu := find_described(name) or find_gpu(name.removeprefix("NVIDIA ")))
    }
    if len(kinds) != 1 or len(set(names)) != 1:
        return None
    count = len(names)
    if shown is not None:
        count = min(count, len([device for device in shown.split(",") if device.strip()]))
    # The machine may have more GPUs than any that is sold.
    return replace(parse_target(f"1x{kinds.pop()}"), gpus_per_host=count) if count else None


@frozen
class SearchInputs:
    """The inputs of a search: the compiled workload, and the space of its changes."""

    work: PredictionInputs
    space: Space
    made: ForecastBatch | None  # the base's prediction


def predict_arms(asked: TuneRequest, ledger: Ledger, say: Say, stopped: Callable[[], bool]) -> None:
    """Search, and record the shortlist in the study."""
    with scratch_directory("tune") as scratch:
        ground = prepare_search(asked, scratch, say)
        search(
            ground.work,
            ground.space,
            asked.plan,
            ledger,
            say,
            stopped,
            made=ground.made,
            confirm=asked.confirm,
            keep=asked.directory,
        )


def prepare_search(asked: TuneRequest, scratch: Path, say: Say) -> SearchInputs:
    """Lower the workload, compile it under the base's settings, and make the space."""
    if asked.target is None:
        raise ValueError("a prediction is for a target")
    tpus = asked.target.tpu is not None
    require_compiler(tpus=tpus)
    space_file = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    refuse_odd(installed_version(), asked.target, space_file, asked.arms)
    with _in_own_words():
        subject = _subject(asked, asked.target, scratch, say)
    if subject.workload is None:
        raise InputError(
            f"{subject.origin} is already scheduled, so no setting can change it",
            why="XLA can't compile a scheduled program again",
            next="pass the program from before XLA's passes: JAX_DUMP_IR_TO=ir, or -- CMD",
        )
    check_devices(subject, asked.target)
    work = PredictionInputs(subject, _pricing(asked, asked.target), _question(asked), say)
    predicted = forecasts(work)  # of the base alone
    compiled = predicted.base.compiled
    space = make_space(
        predicted.base.settings,
        target=asked.target,
        program=predicted.base.program,
        version=compiled.versions.get("jaxlib") if compiled else None,
        asked=space_file,
        running=running(asked),
        arms=asked.arms,
    )
    same = space.base == predicted.base.settings  # the user's file may fix some settings
    return SearchInputs(work, with_seed_choices(space), predicted if same else None)


@contextmanager
def _in_own_words() -> Generator[None]:
    """Translate errors of a workload into the arguments of `tune`."""
    try:
        yield
    except CounterpointError as error:
        error.rename({"timeout": "compile_timeout"})
        if isinstance(error.next, str):
            error.next = error.next.replace("counterpoint predict ", "counterpoint tune --predict ")
        raise


def _subject(asked: TuneRequest, target: Target, scratch: Path, say: Say) -> PredictionSubject:
    question = asked.question or PredictionOptions()
    devices = question.devices or target.devices
    if asked.workload is None:
        say(f"lowering {asked.name}")
        return run_subject(
            asked.command,
            target=target,
            devices=question.devices,
            directory=scratch,
            program=asked.program,
            timeout_s=question.timeout_s,
            say=say,
        )
    if is_function(asked.workload):
        say(f"lowering {asked.workload}")
        return lower_subject(
            asked.workload,
            devices=devices,
            directory=scratch,
            timeout_s=question.timeout_s,
            tpus=target.tpu is not None,
        )
    return find_subject(asked.workload, asked.program, tpus=target.tpu is not None)


def _question(asked: TuneRequest) -> PredictionOptions:
    question = asked.question or PredictionOptions()
    return replace(question, settings=asked.base, candidates=(), jobs=asked.plan.jobs)


def start_scalars(asked: TuneRequest) -> Scalars | None:
    """Return the scalars of the user's calibration; None for the defaults."""
    question = asked.question or PredictionOptions()
    if question.calibration is None or asked.target is None:
        return None
    return read_scalars(question.calibration).over(
        default_scalars(asked.target.gpu), asked.target.gpu
    )


def _pricing(asked: TuneRequest, target: Target) -> PricingContext:
    question = asked.question or PredictionOptions()
    return PricingContext(
        target=target,
        scalars=start_scalars(asked),
        tables=read_tables(question.nccl_tables, question.gemm_table, question.kernel_table),
    )


@frozen(kw_only=True)
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


def plan_study(asked: TuneRequest, say: Say) -> DryRun:
    """Plan a study without running it; a workload is lowered and its base compiled."""
    base_step_s = None
    executor = _dry_executor(asked)  # refuse a wrong executor before any work
    if asked.predicts:
        with scratch_directory("tune") as scratch:
            ground = prepare_search(asked, scratch, say)
            base_step_s = _base_step_s(ground)
        space = ground.space
        alone = (arm_of(space, point, ArmOrigin.SPACE) for point in single_points(space))
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


def _base_step_s(ground: SearchInputs) -> float:
    """Compile the base again if the user's file fixes some of its settings."""
    predicted = ground.made
    if predicted is None:
        question = replace(ground.work.question, settings=ground.space.base, candidates=())
        predicted = forecasts(replace(ground.work, question=question))
    return predicted.base.step_s


def _dry_executor(asked: TuneRequest) -> str | None:
    if not asked.measure:
        return None
    options, environ = asked.executor_options, asked.inherited
    return choose_executor(asked.executor, asked.plan.shape, options, environ=environ).describe()


def _compiles(asked: TuneRequest, arms: tuple[Arm, ...]) -> int:
    """Count compiles; changes that act only at run time share one."""
    if not asked.predicts:
        return 0
    compiled = [arm for arm in arms if arm.shows]
    return asked.plan.candidates if len(compiled) > 1 else len(compiled) + 1


def _cost(asked: TuneRequest, arms: tuple[Arm, ...], trial_s: float | Unknown) -> StudyCost | None:
    if not asked.measure:
        return None
    return cost(arms, asked.online_plan, None if isinstance(trial_s, Unknown) else trial_s)


def _trial_s(directory: Path) -> float | Unknown:
    if is_study(directory):
        took = [
            trial.wall_s for trial in read_study(directory).trials if trial.counts and trial.wall_s
        ]
        if took:
            return median(took)
    return Unknown("measured once the base has run")


Say: TypeAlias = Callable[[str], None]
Stopped: TypeAlias = Callable[[], bool]
Opened: TypeAlias = Callable[[TuneRequest, Study], None]


def tune(
    asked: TuneRequest,
    say: Say = lambda _: None,
    stopped: Stopped = lambda: False,
    opened: Opened = lambda _request, _study: None,
) -> Conclusion:
    """Start a study, or continue it, until it is decided, the budget is spent, or it is stopped.

    `say` receives progress, one line at a time. `stopped` is polled often and ends the study in
    order once it returns true. `opened` is called with the request, including its target, and the
    study as found, once its journal is locked. Each part looks in the study for what is done
    already, so starting and continuing are the same code.
    """
    asked = resolve_target(asked, say)
    executor = _executor(asked, say, stopped)
    first = began(asked, executor.name if executor else None, Path.cwd())
    with open_study(asked.directory, first) as ledger:
        opened(asked, ledger.study)
        if (note := edited(ledger.study.began, first)) is not None:
            say(note)
        if ledger.study.ended is None:
            _go_on(asked, ledger, executor, say, stopped)
        conclusion = conclude(ledger.study, asked.plan)
        return conclusion if note is None else replace(conclusion, notes=(note, *conclusion.notes))


def dry_run(asked: TuneRequest, say: Say = lambda _: None) -> DryRun:
    """Return what a study would try, and its maximum cost."""
    return plan_study(resolve_target(asked, say), say)


def conclusion_of(directory: Path) -> Conclusion:
    """Return a study's conclusion so far, even while another process works on it."""
    study = read_study(directory)
    return conclude(study, plan_of(study))


def resolve_target(asked: TuneRequest, say: Say) -> TuneRequest:
    """Check the request; set the target to this machine's GPUs if nothing else was named."""
    check(asked)
    if asked.workload is not None:
        with _in_own_words():
            require_source(asked.workload)
    if asked.measure:
        refuse_small(asked.online_plan)
    elsewhere = _gpus_elsewhere(asked)
    by_hand = asked.arms or asked.plan.space_file is not None
    if elsewhere is not None and asked.target is None and not by_hand:
        raise _nothing_for_the_cluster(asked.plan.shape.nodes, elsewhere)
    if asked.target is not None or by_hand or not named_here(asked.executor):
        return asked
    gpus = own_gpus(asked.inherited)
    if gpus is None:
        raise UsageError(
            "nothing to try: neither settings nor a target were given",
            why="this machine has no GPUs that Counterpoint knows, and there is no `arm=`",
            next=Retry({"target": example_target(asked.plan.shape.nodes)}),
        )
    say(f"using this machine's GPUs as the target: {gpus}")
    return replace(asked, target=gpus)


def _gpus_elsewhere(asked: TuneRequest) -> int | None:
    """Check the options of the place; return the GPUs of a node if trials do not run on these."""
    if not asked.measure:
        return None
    options, environ = asked.executor_options, asked.inherited
    kind = executor_kind(asked.executor, options, environ)
    shape, study = asked.plan.shape, asked.directory
    return kind.gpus_elsewhere(
        PlaceRequest(shape=shape, options=options, environ=environ, study=study)
    )


def _nothing_for_the_cluster(nodes: int, gpus: int) -> UsageError:
    """Return the error for trials elsewhere: this machine does not tell what they run on."""
    return UsageError(
        "nothing to try: neither settings nor a target were given",
        why="the GPUs of the cluster are not known here, and there is no `arm=`",
        next=Retry({"target": example_target(nodes, gpus)}, remark="with the name of your GPUs")
        if gpus
        else Retry({"arm": "FLAGS"}, remark="flags or variables to try"),
    )


def _executor(asked: TuneRequest, say: Say, stopped: Stopped) -> Executor | None:
    if not asked.measure:
        return None
    return choose_executor(
        asked.executor,
        asked.plan.shape,
        asked.executor_options,
        environ=asked.inherited,
        say=say,
        stopped=stopped,
    )


def _go_on(
    asked: TuneRequest, ledger: Ledger, executor: Executor | None, say: Say, stopped: Stopped
) -> None:
    if ledger.study.search is None:
        if asked.predicts:
            predict_arms(asked, ledger, say, stopped)
        else:
            list_arms(asked, ledger)
    if ledger.study.search is None:
        ledger.add(Paused(why="stopped", at=stamp()))
        return
    if executor is None:
        ledger.add(StudyEnded(why=ledger.study.search.why, at=stamp()))
        return
    run_study(ledger, asked.online_plan, executor, asked.directory, say, stopped)
    if asked.target is None or ledger.study.ended is None:
        return
    if foreign_devices(ledger.study) is None:
        say("fitting the cost model to the measurements")
        ledger.add(fitted(ledger.study, asked.directory, asked.target, start_scalars(asked)))
