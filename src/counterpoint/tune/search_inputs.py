"""The inputs of a search: the lowered workload, its base as compiled, and the space of changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from counterpoint.compile.interpreter import require_compiler
from counterpoint.core import InputError
from counterpoint.cost.scalars import Scalars, default_scalars, read_scalars
from counterpoint.flags.jaxlib import installed_version
from counterpoint.hardware.target import Target
from counterpoint.tune.request import Say, TuneRequest, in_words_of_tune, run_facts
from counterpoint.tune.search.grid import with_seed_choices
from counterpoint.tune.space.make import make_space, refuse_wrong_names
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


@dataclass(frozen=True, slots=True)
class SearchInputs:
    """The inputs of a search: the compiled workload, and the space of its changes."""

    work: PredictionInputs
    space: Space
    base_forecast: (
        ForecastBatch | None
    )  # the base's prediction; None if the user's file changes the base


def prepare_search(request: TuneRequest, scratch: Path, say: Say) -> SearchInputs:
    """Lower the workload, compile it under the base's settings, and make the space."""
    if request.target is None:
        raise ValueError("a prediction is for a target")
    tpus = request.target.tpu is not None
    require_compiler(tpus=tpus)
    space_file = None if request.plan.space_file is None else read_space(request.plan.space_file)
    refuse_wrong_names(installed_version(), request.target, space_file, request.arms)
    with in_words_of_tune():
        subject = _subject(request, request.target, scratch, say)
    if subject.workload is None:
        raise InputError(
            f"{subject.origin} is already scheduled, so no setting can change it",
            why="XLA can't compile a scheduled program again",
            next="pass the program from before XLA's passes: JAX_DUMP_IR_TO=ir, or -- CMD",
        )
    check_devices(subject, request.target)
    pricing, options = _pricing(request, request.target), _prediction_options(request)
    work = PredictionInputs(subject, pricing, options, say)
    predicted = forecasts(work)  # of the base alone
    compiled = predicted.base.compiled
    space = make_space(
        predicted.base.settings,
        target=request.target,
        program=predicted.base.program,
        version=compiled.versions.get("jaxlib") if compiled else None,
        space_file=space_file,
        run_facts=run_facts(request),
        arms=request.arms,
    )
    same = space.base == predicted.base.settings
    return SearchInputs(work, with_seed_choices(space), predicted if same else None)


def _subject(request: TuneRequest, target: Target, scratch: Path, say: Say) -> PredictionSubject:
    options = request.prediction or PredictionOptions()
    devices = options.devices or target.devices
    if request.workload is None:
        say(f"lowering {request.name}")
        return run_subject(
            request.command,
            target=target,
            devices=options.devices,
            directory=scratch,
            program=request.program,
            timeout_s=options.timeout_s,
            say=say,
        )
    if is_function(request.workload):
        say(f"lowering {request.workload}")
        return lower_subject(
            request.workload,
            target=target,
            devices=devices,
            directory=scratch,
            timeout_s=options.timeout_s,
        )
    return find_subject(request.workload, request.program, tpus=target.tpu is not None)


def _prediction_options(request: TuneRequest) -> PredictionOptions:
    options = request.prediction or PredictionOptions()
    return replace(options, settings=request.base, candidates=(), jobs=request.plan.jobs)


def start_scalars(request: TuneRequest) -> Scalars | None:
    """Return the scalars of the user's calibration; None for the defaults."""
    options = request.prediction or PredictionOptions()
    if options.calibration is None or request.target is None:
        return None
    return read_scalars(options.calibration).over(
        default_scalars(request.target.gpu), request.target.gpu
    )


def _pricing(request: TuneRequest, target: Target) -> PricingContext:
    options = request.prediction or PredictionOptions()
    return PricingContext(
        target=target,
        scalars=start_scalars(request),
        tables=read_tables(options.nccl_table, options.gemm_table, options.kernel_table),
    )
