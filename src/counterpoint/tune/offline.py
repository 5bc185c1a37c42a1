"""The offline part of a study: its workload is lowered, its space made, and the space searched."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from counterpoint.compile import require_compiler
from counterpoint.core.errors import CounterpointError, InputError
from counterpoint.cost.scalar_file import read_scalars
from counterpoint.cost.scalars import Scalars, default_scalars
from counterpoint.flags.source import installed_jaxlib
from counterpoint.hardware import Target
from counterpoint.tune.asked import Asked, running
from counterpoint.tune.search.offline import search
from counterpoint.tune.space.make import make_space, refuse_odd
from counterpoint.tune.space.space import Space
from counterpoint.tune.space.space_file import read_space
from counterpoint.tune.study.ledger import Ledger
from counterpoint.workflow.prediction.forecast import Bench
from counterpoint.workflow.prediction.predict import check_devices
from counterpoint.workflow.prediction.question import Question
from counterpoint.workflow.prediction.subject import (
    Subject,
    find_subject,
    is_function,
    lower_subject,
    run_subject,
)
from counterpoint.workflow.prediction.tables import read_tables
from counterpoint.workflow.prediction.trials import Made, Work, forecasts

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """What a search stands on: the workload as it is compiled, and what may be changed about it."""

    work: Work
    space: Space
    made: Made | None  # the base, predicted


def predict_arms(asked: Asked, ledger: Ledger, say: Say, stopped: Callable[[], bool]) -> None:
    """Search, and leave in the study what is worth real time."""
    with tempfile.TemporaryDirectory(prefix="counterpoint-tune-") as scratch:
        ground = break_ground(asked, Path(scratch), say)
        search(
            ground.work,
            ground.space,
            asked.plan,
            ledger,
            say,
            stopped,
            made=ground.made,
            confirm=asked.confirm,
        )


def break_ground(asked: Asked, scratch: Path, say: Say) -> Ground:
    """Lower the workload, compile it under the base's settings, and see what may be changed."""
    if asked.target is None:
        raise ValueError("a prediction is for a target")
    require_compiler()
    space_file = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    refuse_odd(installed_jaxlib(), asked.target, space_file, asked.arms)
    subject = _lowered(asked, asked.target, scratch, say)
    if subject.workload is None:
        raise InputError(
            f"{subject.origin} is scheduled already, so no setting changes it",
            why="XLA can't compile one of those again",
            next="give the program before XLA's passes: JAX_DUMP_IR_TO=ir, or -- python train.py",
        )
    check_devices(subject, asked.target)
    work = Work(subject, _bench(asked, asked.target), _question(asked), say)
    made = forecasts(work)  # of the base alone
    compiled = made.base.compiled
    space = make_space(
        made.base.settings,
        target=asked.target,
        program=made.base.program,
        version=compiled.versions.get("jaxlib") if compiled else None,
        asked=space_file,
        running=running(asked),
        arms=asked.arms,
    )
    same = space.base == made.base.settings  # the user's file may fix some of it
    return Ground(work, space, made if same else None)


def _lowered(asked: Asked, target: Target, scratch: Path, say: Say) -> Subject:
    """Errors say what to give to this command."""
    try:
        return _subject(asked, target, scratch, say)
    except CounterpointError as error:
        if error.next is not None:
            ours = error.next.replace("counterpoint predict ", "counterpoint tune --predict ")
            error.next = re.sub(r"(?<!\S)--timeout\b", "--compile-timeout", ours)
        raise


def _subject(asked: Asked, target: Target, scratch: Path, say: Say) -> Subject:
    question = asked.question or Question()
    devices = question.devices or target.devices
    if asked.workload is None:
        say(f"lowering {asked.name}")
        return run_subject(
            asked.command,
            devices=devices,
            directory=scratch,
            program=asked.program,
            timeout_s=question.timeout_s,
            say=say,
        )
    if is_function(asked.workload):
        say(f"lowering {asked.workload}")
        return lower_subject(
            asked.workload, devices=devices, directory=scratch, timeout_s=question.timeout_s
        )
    return find_subject(asked.workload, asked.program)


def _question(asked: Asked) -> Question:
    question = asked.question or Question()
    return replace(question, settings=asked.base, candidates=(), jobs=asked.plan.jobs)


def start_scalars(asked: Asked) -> Scalars | None:
    """Those of the user's calibration; None for the usual ones."""
    question = asked.question or Question()
    if question.calibration is None or asked.target is None:
        return None
    return read_scalars(question.calibration).over(
        default_scalars(asked.target.gpu), asked.target.gpu
    )


def _bench(asked: Asked, target: Target) -> Bench:
    question = asked.question or Question()
    return Bench(
        target=target,
        scalars=start_scalars(asked),
        tables=read_tables(question.nccl_tables, question.gemm_table, question.kernel_table),
    )
