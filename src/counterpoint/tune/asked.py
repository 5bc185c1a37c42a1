"""Asked: what a user wants tuned, and what of it must stay the same when a study goes on."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from counterpoint import __version__
from counterpoint.core.errors import UsageError
from counterpoint.flags import Settings
from counterpoint.hardware import Target
from counterpoint.tune.base_flags import refuse_unknown
from counterpoint.tune.edited import file_parts
from counterpoint.tune.journal.codec import to_plain
from counterpoint.tune.journal.records import FORMAT, StudyBegan
from counterpoint.tune.plan import Plan
from counterpoint.tune.space.situation import Running
from counterpoint.tune.study.ledger import stamp
from counterpoint.tune.study.plan_text import options_of
from counterpoint.workflow.prediction.question import Question

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All of it.

    Args:
        workload: What is predicted: a file, a directory, or file.py:function; None for the command.
        command: What is run, and lowered where there is no workload.
        target: What it is predicted for; None for no prediction.
        directory: Where the study lies.
        base: The settings that all arms change.
        plan: How the study goes about it.
        question: What prices a prediction.
        executor: local, slurm, slurm-batch or ray; None for what is around us.
        executor_options: Its own: gpus, cpus, slurm, ray-address and the like.
        arms: Settings by hand, as `predict --candidate` takes them.
        confirm: How many of the arms that were found are run, at most, beside those by hand; None
            for the plan's shortlist.
        program: Of several programs of the workload this one.
        measure: Whether anything is run; else the study is a prediction.
        environment: What the command inherits; None for ours.
        words: The command line that asks all of it, to be typed again.
    """

    workload: str | None = None
    command: tuple[str, ...] = ()
    target: Target | None = None
    directory: Path
    base: Settings = field(default_factory=Settings)
    plan: Plan = field(default_factory=Plan)
    question: Question | None = None
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
        """For people."""
        return self.workload or shlex.join(self.command)

    @property
    def inherited(self) -> Mapping[str, str]:
        """The environment that the command starts from."""
        return os.environ if self.environment is None else self.environment

    @property
    def online_plan(self) -> Plan:
        """The plan, with as many arms as are to be confirmed, and those by hand."""
        if self.confirm is None:
            return self.plan
        return replace(self.plan, shortlist=self.confirm + len(self.arms))

    @property
    def predicts(self) -> bool:
        return self.target is not None


def check(asked: Asked) -> None:
    """Refuse what can't be tuned, before anything is written or run."""
    if asked.workload is None and not asked.command:
        raise UsageError(
            "nothing to tune: no command and no workload",
            next="counterpoint tune --target 8xH100 -- python train.py",
        )
    if asked.measure and not asked.command:
        raise UsageError(
            f"{asked.workload} can be predicted, not run",
            why="what is measured is a command that trains",
            next="leave --confirm out",
        )
    if not asked.measure and asked.target is None:
        raise UsageError(
            "--target is missing: which GPUs, and how many?",
            why="a prediction is for a target",
            next="--target 8xH100",
        )
    if asked.command and not _may_run_elsewhere(asked):
        refuse_unknown(asked.base, asked.command, asked.inherited)


def _may_run_elsewhere(asked: Asked) -> bool:
    """Nodes of a cluster of Ray may have another Python than the one that is found here."""
    if asked.executor is not None:
        return asked.executor == "ray"
    return "ray-address" in asked.executor_options or "RAY_ADDRESS" in asked.inherited


def running(asked: Asked) -> Running:
    """What is known of the runs, for whoever makes the space."""
    if not asked.measure:
        return Running()
    return Running(shape=asked.plan.shape, inherited=asked.inherited)


def began(asked: Asked, executor: str | None, cwd: Path) -> StudyBegan:
    """The first record of its journal."""
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


def _said(asked: Asked) -> dict[str, str]:
    said = {f"executor {name}": it for name, it in asked.executor_options.items()}
    if asked.confirm is not None:
        said["confirm"] = str(asked.confirm)
    return said


def _question(asked: Asked, target: str | None, executor: str | None, cwd: Path) -> str:
    """A hash of what makes measurements comparable, and the search the same.

    Budgets, limits of time, and how many arms are tried may change from one sitting to the next.
    """
    plan, priced = asked.plan, asked.question or Question()
    told: dict[str, Any] = {
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
        "prices": [_content(it) for it in _price_files(priced)],
    }
    return _hash(told)[:16]


def _parts(asked: Asked) -> tuple[tuple[str, str], ...]:
    """What of the question is not to be read in the first record as it stands, hashed part by part.

    In the words of the command line, so that whoever is told of a difference knows what to change.
    """
    plan = asked.plan
    told: dict[str, object] = {
        "the program (--program)": asked.program,
        "the command": asked.command,
        "whether anything is measured": asked.measure,
        "the arms by hand (--arm)": asked.arms,
        "what the space file says (--space)": _content(plan.space_file),
        "how processes are dealt out (--nodes, --per, --ranks-per-node)": to_plain(plan.shape),
        "the length of a trial (--steps)": plan.limits.steps,
        "what prices the prediction (tables, --profile, --calibration)": [
            _content(it) for it in _price_files(asked.question or Question())
        ],
    }
    files = file_parts(asked.command) if asked.measure else ()
    return (*((name, _hash(it)[:8]) for name, it in told.items()), *files)


def _hash(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _price_files(question: Question) -> list[Path | str | None]:
    return [
        *question.nccl_tables,
        question.gemm_table,
        question.kernel_table,
        question.calibration,
        question.profile,
    ]


def _content(path: Path | str | None) -> str | None:
    """What a file says, not where it lies; a directory by its name."""
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return str(path)
