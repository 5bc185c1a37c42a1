"""TuneRequest: what a user asks of a tune, and the checks before anything is written or run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from counterpoint.capture import named_interpreter
from counterpoint.core import CounterpointError, UsageError
from counterpoint.flags.probe import ProbeResult, RejectedFlag, probe_flags
from counterpoint.flags.settings import Settings, environment, inherited_settings
from counterpoint.hardware.target import Target
from counterpoint.tune.command_options import is_of_command, refuse_shell
from counterpoint.tune.executors.choose import NO_OPTIONS, ExecutorOptions, executor_kind
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.space.context import RunFacts
from counterpoint.workflow.prediction import PredictionOptions

Say: TypeAlias = Callable[[str], None]

_INHERITED: Final = "XLA_FLAGS of your environment"
_OURS: Final = "the base (--set, --env, --recipe)"
_UNKNOWN: Final = "unknown flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """A request to tune.

    Args:
        workload: What is predicted: a file, a directory, or file.py:function; None for the command.
        command: What is run, and lowered if there is no workload.
        target: The target of the prediction; None for no prediction.
        directory: Directory of the study.
        base: The settings that all arms change.
        plan: How the study proceeds.
        prediction: The options of the prediction, such as what prices it; None for the defaults.
        executor: One of `executors.EXECUTORS` by name; None to detect it.
        executor_options: The executors' own options.
        arms: Settings by hand, as `predict --candidate` takes them.
        confirm: Maximum number of arms found by the search that are run, in addition to those by
            hand; None for the plan's shortlist.
        program: Which program of the workload to tune, if it has several.
        measure: Whether anything is run; if not, the study is only a prediction.
        environment: What the command inherits; None for this process's environment.
        words: The command line that repeats this request.
    """

    workload: str | None = None
    command: tuple[str, ...] = ()
    target: Target | None = None
    directory: Path
    base: Settings = field(default_factory=Settings)
    plan: StudyPlan = field(default_factory=StudyPlan)
    prediction: PredictionOptions | None = None
    executor: str | None = None
    executor_options: ExecutorOptions = NO_OPTIONS
    arms: tuple[str, ...] = ()
    confirm: int | None = None
    program: str | None = None
    measure: bool = True
    environment: Mapping[str, str] | None = None
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The workload or command, for display."""
        return self.workload or shlex.join(self.command)

    @property
    def inherited(self) -> Mapping[str, str]:
        """The environment that the command starts from."""
        return os.environ if self.environment is None else self.environment

    @property
    def online_plan(self) -> StudyPlan:
        """The plan, with a shortlist of `confirm` arms and the arms given by hand."""
        if self.confirm is None:
            return self.plan
        return replace(self.plan, shortlist=self.confirm + len(self.arms))

    @property
    def predicts(self) -> bool:
        return self.target is not None


def check(request: TuneRequest) -> None:
    """Refuse what can't be tuned, before anything is written or run."""
    if request.workload is None and not request.command:
        raise UsageError(
            "nothing to tune: no command and no workload",
            next="counterpoint tune --target 8xH100 -- python train.py",
        )
    _refuse_options(request)
    if request.measure and not request.command:
        raise UsageError(
            f"{request.workload} can be predicted but not run",
            why="measuring needs a command that trains",
            next="omit --confirm",
        )
    if not request.measure and request.target is None:
        raise UsageError("a prediction requires --target", next="use --target 8xH100")
    if request.target is not None:
        (request.prediction or PredictionOptions()).refuse_those_of_others(request.target)
        _refuse_trials_on_tpus(request, request.target)
    if request.command and not _may_run_elsewhere(request):
        refuse_unknown(request.base, request.command, request.inherited)


def _refuse_options(request: TuneRequest) -> None:
    """Refuse arms of the command's options where they can't be tried."""
    changed = [arm for arm in request.arms if is_of_command(arm)]
    if not changed:
        return
    if request.target is not None or not request.command:
        raise UsageError(
            f"--arm {changed[0]} is an option of the command, and another program",
            why="a prediction is of one program; measure its options without --target",
            next="omit --target",
        )
    refuse_shell(request.command)


def _refuse_trials_on_tpus(request: TuneRequest, target: Target) -> None:
    """Refuse trials, which pass flags to GPUs only."""
    if request.measure and target.tpu is not None:
        raise UsageError(
            f"trials run on GPUs only, and {target} has TPUs",
            why="a search for TPUs predicts; measure its best settings with `counterpoint run`",
            next="use --confirm 0",
        )


def _may_run_elsewhere(request: TuneRequest) -> bool:
    """True if nodes may have another Python than the one found on this machine."""
    return executor_kind(
        request.executor, request.executor_options, request.inherited
    ).has_own_python


def refuse_unknown(base: Settings, command: Sequence[str], inherited: Mapping[str, str]) -> None:
    """Raise UsageError for flags that would end every run.

    The catalogue may be wrong about a flag, so the XLA that will run is queried itself. Flags are
    not checked if the command does not name its Python, because another may run.
    """
    variables = environment(base, inherited)
    text = variables.get("XLA_FLAGS")
    python = named_interpreter(command, variables)
    if not text or python is None:
        return
    answer = probe_flags(python, text, variables)
    if not answer.rejected:
        return
    theirs = inherited_settings(inherited).flags
    by_place: dict[str, list[RejectedFlag]] = {}
    for rejected in dict.fromkeys(answer.rejected):
        is_theirs = rejected.name in theirs and rejected.value in (None, theirs[rejected.name])
        by_place.setdefault(_INHERITED if is_theirs else _OURS, []).append(rejected)
    listed = [
        f"{place}: {', '.join(_rejections(answer, some))}" for place, some in by_place.items()
    ]
    hints = dict.fromkeys(
        f"{rejected.name}: {rejected.hint}" for some in by_place.values() for rejected in some
    )
    raise UsageError(
        "; ".join(listed),
        why="XLA aborts on such a flag. " + " ".join(hints),
        next="remove it, or use a name from `counterpoint flags list`",
    )


def _rejections(answer: ProbeResult, some: Sequence[RejectedFlag]) -> Iterator[str]:
    unknown = [rejected.name for rejected in some if rejected.reason == _UNKNOWN]
    if unknown:
        yield f"jaxlib {answer.version} does not know {', '.join(dict.fromkeys(unknown))}"
    for rejected in some:
        if rejected.reason != _UNKNOWN:
            yield f"jaxlib {answer.version} does not accept {rejected.name}={rejected.value or ''}"


def run_facts(request: TuneRequest) -> RunFacts:
    """Return what is known about the runs, from which the space is made."""
    if not request.measure:
        return RunFacts()
    return RunFacts(shape=request.plan.shape, inherited=request.inherited, command=request.command)


@contextmanager
def in_words_of_tune() -> Generator[None]:
    """Translate errors of a workload into the arguments of `tune`."""
    try:
        yield
    except CounterpointError as error:
        error.rename("--timeout", "--compile-timeout")
        if isinstance(error.next, str):
            error.next = error.next.replace("counterpoint predict ", "counterpoint tune --predict ")
        raise


def example_target(nodes: int, gpus: int = 8) -> str:
    """Return a target with that many nodes, for advice."""
    return f"{gpus}xH100" if nodes == 1 else f"{nodes}x{gpus}xH100"
