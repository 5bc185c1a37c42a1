"""The inputs of a search: the lowered workload, its base as compiled, and the space of changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from counterpoint.compile import require_compiler
from counterpoint.core import InputError
from counterpoint.core.frozen import frozen
from counterpoint.cost import Scalars, default_scalars, read_scalars
from counterpoint.flags.jaxlib import installed_version
from counterpoint.hardware import Target
from counterpoint.tune.request import Say, TuneRequest, in_words_of_tune, running
from counterpoint.tune.search.grid import with_seed_choices
from counterpoint.tune.space.make import make_space, refuse_odd
from counterpoint.tune.space.space import Space
from counterpoint.tune.space.space_file import read_space
from counterpoint.workflow import (
    PredictionSubject,
    find_subject,
    is_function,
    lower_subject,
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


@frozen
class SearchInputs:
    """The inputs of a search: the compiled workload, and the space of its changes."""

    work: PredictionInputs
    space: Space
    made: ForecastBatch | None  # the base's prediction


def prepare_search(asked: TuneRequest, scratch: Path, say: Say) -> SearchInputs:
    """Lower the workload, compile it under the base's settings, and make the space."""
    if asked.target is None:
        raise ValueError("a prediction is for a target")
    tpus = asked.target.tpu is not None
    require_compiler(tpus=tpus)
    space_file = None if asked.plan.space_file is None else read_space(asked.plan.space_file)
    refuse_odd(installed_version(), asked.target, space_file, asked.arms)
    with in_words_of_tune():
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
