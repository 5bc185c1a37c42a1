"""Asked: a request to tune, and which parts of it must not change when a study continues."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from counterpoint import __version__
from counterpoint.capture import find_interpreter, named_interpreter
from counterpoint.core import UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.frozen import frozen
from counterpoint.core.records import to_plain
from counterpoint.flags import Settings, environment, inherited_settings
from counterpoint.flags.probe import ProbeResult, RejectedFlag, probe_flags
from counterpoint.hardware import Target
from counterpoint.tune.arm import BASE, Arm, ArmOrigin
from counterpoint.tune.executors.choose import executor_kind
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.space.hand_arms import AS_THE_BASE
from counterpoint.tune.space.make import make_space
from counterpoint.tune.space.situation import RunFacts
from counterpoint.tune.space.space import Space, arm_of, distinct, single_points
from counterpoint.tune.space.space_file import SpaceFile, read_space
from counterpoint.tune.study.directory import options_of
from counterpoint.tune.study.records import (
    FORMAT,
    CandidateSeen,
    SearchEnded,
    SpaceMade,
    StudyBegan,
)
from counterpoint.tune.study.study import Ledger, stamp
from counterpoint.workflow.prediction import PredictionOptions

_FILE: Final = "the file "
_WRITTEN: Final = (".py", ".sh", ".yaml", ".yml", ".toml", ".gin")
"""Suffixes of files that people write. Other files may be written by the program itself."""


def file_parts(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each file named in the command, with a hash of its content."""
    for word in dict.fromkeys(command):
        path = Path(word)
        with suppress(OSError, ValueError):
            if path.suffix in _WRITTEN and path.is_file():
                yield f"{_FILE}{word}", hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def edited(first: StudyBegan, now: StudyBegan) -> str | None:
    """Return a note that names the files that were changed; None if none was.

    This is not an error: a study is identified by its command, and the change may be harmless.
    """
    before = dict(first.parts)
    names = [
        name.removeprefix(_FILE)
        for name, digest in now.parts
        if name.startswith(_FILE) and before.get(name, digest) != digest
    ]
    if not names:
        return None
    return (
        f"{', '.join(names)} changed since the study began: earlier measurements are of another"
        " program; use `out=ANOTHER` for a new study"
    )


_INHERITED: Final = "XLA_FLAGS of your environment"
_OURS: Final = "the base (`set=`, `env=`, `recipe=`)"
_UNKNOWN: Final = "unknown flag"


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


_NONE: Mapping[str, str] = MappingProxyType({})


@frozen(kw_only=True)
class TuneRequest:
    """A request to tune.

    Args:
        workload: What is predicted: a file, a directory, or file.py:function; None for the command.
        command: What is run, and lowered if there is no workload.
        target: The target of the prediction; None for no prediction.
        directory: Directory of the study.
        base: The settings that all arms change.
        plan: How the study proceeds.
        question: What prices a prediction.
        executor: One of `executors.EXECUTORS` by name; None to detect it.
        executor_options: The executor's own options, in the user's words.
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
    question: PredictionOptions | None = None
    executor: str | None = None
    executor_options: Mapping[str, str] = field(default_factory=lambda: _NONE)
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


def check(asked: TuneRequest) -> None:
    """Refuse what can't be tuned, before anything is written or run."""
    if asked.workload is None and not asked.command:
        raise UsageError(
            "nothing to tune: no command and no workload",
            next="counterpoint tune --target 8xH100 -- python train.py",
        )
    if asked.measure and not asked.command:
        raise UsageError(
            f"{asked.workload} can be predicted but not run",
            why="measuring needs a command that trains",
            next=Retry(without=("confirm",)),
        )
    if not asked.measure and asked.target is None:
        raise UsageError("a prediction requires `target=`", next=Retry({"target": "8xH100"}))
    if asked.target is not None:
        (asked.question or PredictionOptions()).refuse_those_of_others(asked.target)
        _refuse_trials_on_tpus(asked, asked.target)
    if asked.command and not _may_run_elsewhere(asked):
        refuse_unknown(asked.base, asked.command, asked.inherited)


def _refuse_trials_on_tpus(asked: TuneRequest, target: Target) -> None:
    """Refuse trials, which pass flags to GPUs only."""
    if asked.measure and target.tpu is not None:
        raise UsageError(
            f"trials run on GPUs only, and {target} has TPUs",
            why="a search for TPUs predicts; measure its best settings with `counterpoint run`",
            next=Retry({"confirm": 0}),
        )


def _may_run_elsewhere(asked: TuneRequest) -> bool:
    """True if nodes may have another Python than the one found on this machine."""
    return executor_kind(asked.executor, asked.executor_options, asked.inherited).has_own_python


def running(asked: TuneRequest) -> RunFacts:
    """Return what is known about the runs, from which the space is made."""
    if not asked.measure:
        return RunFacts()
    return RunFacts(shape=asked.plan.shape, inherited=asked.inherited)


def began(asked: TuneRequest, executor: str | None, cwd: Path) -> StudyBegan:
    """Return the first record of the journal."""
    target = None if asked.target is None else str(asked.target)
    return StudyBegan(
        format=FORMAT,
        version=__version__,
        question=_question(asked, target, executor, cwd),
        workload=asked.name,
        command=asked.command if asked.measure else (),
        target=target,
        executor=executor,
        base=asked.base,
        options=options_of(asked.plan, _said(asked)),
        at=stamp(),
        cwd=str(cwd),
        words=asked.words,
        parts=_parts(asked),
    )


def _said(asked: TuneRequest) -> dict[str, str]:
    options = {f"executor {name}": value for name, value in asked.executor_options.items()}
    if asked.confirm is not None:
        options["confirm"] = str(asked.confirm)
    return options


def _question(asked: TuneRequest, target: str | None, executor: str | None, cwd: Path) -> str:
    """Return a hash of what makes measurements comparable, and the search the same.

    Budgets, time limits and the number of arms may change from one session to the next.
    """
    plan, priced = asked.plan, asked.question or PredictionOptions()
    question: dict[str, Any] = {
        "workload": asked.workload,
        "program": asked.program,
        "command": asked.command,
        "cwd": str(cwd),
        "target": target,
        "executor": executor,
        "measure": asked.measure,
        "base": to_plain(asked.base),
        "arms": asked.arms,
        "space": _content(plan.space_file),
        "shape": to_plain(plan.shape),
        "steps": plan.limits.steps,
        "prices": [_content(path) for path in _price_files(priced)],
        **({"schedule_only": True} if priced.schedule_only else {}),
    }
    return _hash(question)[:16]


def _parts(asked: TuneRequest) -> tuple[tuple[str, str], ...]:
    """Return hashes of the parts of the question that the first record does not contain in full.

    Each names its arguments, so that a report of a difference says what to change.
    """
    plan, priced = asked.plan, asked.question or PredictionOptions()
    parts: dict[str, object] = {
        "the program (`program=`)": asked.program,
        "the command": asked.command,
        "whether anything is measured": asked.measure,
        "the arms (`arm=`)": asked.arms,
        "the space file (`space=`)": _content(plan.space_file),
        "the process layout (`nodes=`, `per=`, `ranks_per_node=`)": to_plain(plan.shape),
        "the length of a trial (`steps=`)": plan.limits.steps,
        "the prices of the prediction (tables, `profile=`, `calibration=`)": [
            _content(path) for path in _price_files(priced)
        ],
        "how far libtpu compiles (`schedule_only=`)": priced.schedule_only,
    }
    files = file_parts(asked.command) if asked.measure else ()
    return (*((name, _hash(part)[:8]) for name, part in parts.items()), *files)


def _hash(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _price_files(question: PredictionOptions) -> list[Path | str | None]:
    return [
        *question.nccl_tables,
        question.gemm_table,
        question.kernel_table,
        question.calibration,
        question.profile,
    ]


def _content(path: Path | str | None) -> str | None:
    """Return a hash of a file's content, independent of its path; for a directory, its name."""
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return str(path)


def list_arms(asked: TuneRequest, ledger: Ledger) -> None:
    """Record the base and all named arms; raise UsageError if there are none."""
    space, arms = named_arms(asked)
    ledger.add(SpaceMade.of(space, stamp()))
    base = Arm(name=BASE, settings=space.base, origin=ArmOrigin.BASE)
    for arm in (base, *arms):
        ledger.add(CandidateSeen(arm=arm, at=stamp()))
    names = tuple(arm.name for arm in arms)
    ledger.add(SearchEnded(why="named by hand", shortlist=names, seconds=0.0, at=stamp()))


def named_arms(asked: TuneRequest) -> tuple[Space, tuple[Arm, ...]]:
    """Return arms by hand, and each choice of the dimensions that the user's file names."""
    space_file = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    found = find_interpreter(asked.command, asked.inherited)
    space = make_space(
        asked.base,
        version=found.versions.get("jaxlib") if found else None,
        asked=space_file,
        running=running(asked),
        arms=asked.arms,
    )
    by_hand = [arm for arm in space.seeds if arm.origin is ArmOrigin.HAND]
    spoken_of = _spoken_of(space_file) if space_file else frozenset[str]()
    alone = [
        arm_of(space, point, ArmOrigin.SPACE)
        for point in single_points(space)
        if spoken_of.issuperset(point)
    ]
    arms = tuple(distinct(space.base, (*by_hand, *alone)))
    if not arms:
        spoken_of = _spoken_of(space_file) if space_file else frozenset[str]()
        raise _nothing(space, spoken_of, asked.plan.shape.nodes)
    return space, arms


def example_target(nodes: int, gpus: int = 8) -> str:
    """Return a target with that many nodes, for advice."""
    return f"{gpus}xH100" if nodes == 1 else f"{nodes}x{gpus}xH100"


def _nothing(space: Space, spoken_of: frozenset[str], nodes: int) -> UsageError:
    """Return the error that says why each named arm was left out."""
    out = [item for item in space.left_out if item.name in spoken_of or item.why == AS_THE_BASE]
    why = "; ".join(f"{item.name}: {item.why}" for item in out)
    same = bool(out) and all(item.why == AS_THE_BASE for item in out)
    return UsageError(
        "nothing to try: none of the named settings remains",
        why=why or "without `target=` there is no search: name arms with `arm=`",
        next="name an arm that differs from the base (`set=`, `env=`, your environment)"
        if same
        else Retry({"target": example_target(nodes)}),
    )


def _spoken_of(wishes: SpaceFile) -> frozenset[str]:
    return frozenset(
        {*(draft.name for draft in wishes.drafts), *(wishes.only or ()), *wishes.choices}
    )
