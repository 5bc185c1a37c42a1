"""The request that the options of `tune` form: its parts and its plan, checked in advance."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Final

from counterpoint.capture import find_interpreter, refuse_missing
from counterpoint.compile.inputs.function_process import names_function
from counterpoint.core import InputError, UsageError, refuse_url, unused_path
from counterpoint.core.arguments import option_of
from counterpoint.core.bounds import check_number, read_share
from counterpoint.core.notebook import as_typed
from counterpoint.flags.settings import Settings, inherited_settings
from counterpoint.hardware.target import Target
from counterpoint.runs.steady import ENOUGH, FEWEST
from counterpoint.tune.budget import USUAL, read_budget
from counterpoint.tune.command_options import is_of_command, varied
from counterpoint.tune.executors.choose import executor_kind, runs_here
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.options import RaceOptions, TuneOptions, given
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.request import TuneRequest, in_words_of_tune
from counterpoint.tune.space import SpaceFile, drafts_for, is_label, read_space
from counterpoint.tune.statistics import DecisionRule
from counterpoint.workflow.prediction import ForecastOptions, PredictionOptions
from counterpoint.workflow.variant import BaseSettings, candidate

_WITH_TARGET: Final = "use --target 8xH100, with the name of your GPUs"
HOME: Final = Path("counterpoint-studies")
_LEAST_CAP: Final = 2
_MOST_COMPILES: Final = 24
"""Of a search for TPUs, unless requested otherwise: libtpu takes minutes for each."""


def read_request(
    command: Sequence[str],
    options: TuneOptions,
    out: Path | None = None,
    predict: tuple[str, ...] | None = None,
) -> TuneRequest:
    """Return the request that the options form; conflicts between options are rejected.

    `predict` are the words of --predict; None if it is not given.
    """
    words, where = tuple(command), options.where
    if len(words) == 1 and shutil.which(words[0]) is None:  # it is no program to run
        if predict == ():
            words, predict = (), words  # `tune step.mlir.gz --predict`
        elif predict is None:
            _refuse_workload(words[0], where.target)
    workload = _workload(predict, words)
    alone = predict is not None and workload is None
    measure = _measures(words, options.search.confirm, alone=alone)
    _refuse_idle(options, predict is not None, measure=measure)
    lowered = workload is None and where.target is not None
    here = runs_here(options.executor) and not options.place.own.given
    if words and here and (lowered or measure):
        _refuse_missing(words)
    if out is not None:
        refuse_url(out)
    target = where.read()
    base = _base(words, options.tried.base, target)
    plan = _plan(options, target, measure=measure)
    _refuse_unreadable(options.tried.arm, options.tried.space)
    of_options = [arm for text in options.tried.vary for arm in varied(text, words)]
    return TuneRequest(
        workload=workload,
        command=words,
        target=target,
        directory=out or _directory(workload, words),
        base=base,
        plan=plan,
        prediction=_prediction(options, base) if target is not None else None,
        executor=options.executor,
        executor_options=options.place.own,
        arms=(*options.tried.arm, *of_options),
        confirm=options.search.confirm,
        program=where.program,
        measure=measure,
    )


def _workload(predict: tuple[str, ...] | None, command: tuple[str, ...]) -> str | None:
    if predict is None or (not predict and command):
        return None
    if len(predict) != 1:
        raise UsageError(
            "--predict takes one workload" + (f", not {shlex.join(predict)}" if predict else ""),
            why="a file, a directory or file.py:function; alone, it lowers the command after `--`",
            next="counterpoint tune --predict step.py:make_step --target 8xH100",
        )
    return predict[0]


def _measures(command: tuple[str, ...], confirm: int | None, *, alone: bool) -> bool:
    """Return whether trials run: with a command, unless --predict is alone or --confirm is 0."""
    if not command:
        return confirm is not None and confirm > 0
    if alone and confirm:
        raise UsageError(
            f"--predict alone runs nothing, but --confirm {confirm} requests runs",
            next="omit --predict",
        )
    return not alone and confirm != 0


def _refuse_idle(options: TuneOptions, has_workload: bool, *, measure: bool) -> None:
    """Refuse options without any effect: they are a misunderstanding."""
    if options.where.target is None:
        idle = ["predict"] if has_workload else [*given(options.forecast), *given(options.where)]
        if idle:
            raise UsageError(f"{option_of(idle[0])} requires --target", next=_WITH_TARGET)
        if options.search.confirm is not None:
            raise UsageError(
                "--confirm requires --target: it limits how many predicted arms are run",
                next="omit --confirm" if options.tried.arm else _WITH_TARGET,
            )
    idle = [] if measure else given(options.race)
    if idle:
        raise UsageError(
            f"{option_of(idle[0])} applies to trials, but none are run",
            next="counterpoint tune --target 8xH100 -- python train.py",
        )


def _refuse_workload(word: str, target: str | None) -> None:
    """Refuse a workload that is given as a command: a function, or a file that no one runs."""
    is_data = Path(word).exists() and not word.endswith((".py", ".sh"))
    if names_function(word) or is_data:
        raise UsageError(
            f"{word} is a workload, which requires --predict",
            why="without --predict, the words are a command that trains",
            next="omit --confirm, use --predict" + ("" if target else " --target 8xH100"),
        )


def _refuse_missing(command: tuple[str, ...]) -> None:
    """Refuse a missing program or script; for other machines this can't be checked."""
    if re.fullmatch(r"s[how]{2,4}", command[0]) and shutil.which(command[0]) is None:
        raise UsageError(
            f"{command[0]} was not found",
            why="the words after `--` are the command that is run",
            next=f"counterpoint tune show {shlex.join(command[1:2]) or 'STUDY'}",
        )
    refuse_missing(command, os.environ, "counterpoint tune ...")


def _base(command: tuple[str, ...], base: BaseSettings, target: Target | None) -> Settings:
    """Return the base settings; a command also inherits the shell's XLA_FLAGS."""
    python = find_interpreter(command, os.environ) if command and base.recipe else None
    settings = base.read(
        version=python.versions.get("jaxlib") if python else None,
        chip=target.gpu if target is not None else None,
    )
    inherited = inherited_settings(os.environ) if command else Settings()
    return inherited.merged(settings) if inherited.xla else settings


_SWITCHES: Final = (
    *("--dry-run", "--json"),
    *(
        option_of(option.name)
        for group in (RaceOptions, ForecastOptions)
        for option in fields(group)
        if option.default is False
    ),
)
"""Words behind `--arm` that were hardly meant as options of the program."""


def _refuse_unreadable(arms: tuple[str, ...], space: Path | None) -> None:
    """Refuse arms that can't be parsed; names from the study's space are checked later."""
    if not arms:
        return
    drafts = drafts_for(read_space(space) if space is not None else SpaceFile(file=""))
    for text in arms:
        if text in _SWITCHES:
            raise UsageError(
                f"--arm needs a value, and {text} is a switch of tune",
                next="counterpoint tune --arm '--xla_gpu_enable_triton_gemm=false' -- CMD",
            )
        if is_label(text, drafts) or is_of_command(text):
            continue
        try:
            candidate(text, Settings())
        except UsageError as error:
            error.rename("--candidate", "--arm")
            if "--arm " not in error.what:
                error.what = f"--arm {error.what}"
            raise


def _plan(options: TuneOptions, target: Target | None, *, measure: bool) -> StudyPlan:
    search, race, limits = options.search, options.race, options.race.limits
    libtpu = target is not None and target.tpu is not None and not options.forecast.schedule_only
    check_number("--candidates", search.candidates, 1)
    check_number("--shortlist", search.shortlist, 1)
    check_number("--confirm", search.confirm, 0)
    check_number("--confirm-rows", race.confirm_rows, 0)
    _refuse_few(limits.steps)
    check_number("--timeout", limits.timeout_s, 0.001)
    check_number("--hang-after", limits.hang_after_s, 0.001)
    return StudyPlan(
        budget=read_budget(USUAL if measure and race.budget is None else race.budget),
        candidates=search.candidates or (_MOST_COMPILES if libtpu else StudyPlan().candidates),
        shortlist=search.shortlist,
        rule=_rule(race.cap, options.indifferent),
        confirm_rows=race.confirm_rows,
        target_gain=_share("--target-gain", race.target_gain, "2%", "the step"),
        shape=_shape(options, target),
        limits=limits,
        loss_tolerance=_share("--loss-tolerance", race.loss_tolerance, "0.1%", "the loss"),
        ablate=race.ablate,
        seed=options.tried.seed,
        jobs=options.forecast.jobs,
        space_file=_there("--space", options.tried.space),
    )


def _refuse_few(steps: int | None) -> None:
    """Refuse a number of steps at which every trial would run but give no figure."""
    check_number("--steps", steps, 1)
    if steps is not None and steps < FEWEST:
        raise UsageError(
            f"--steps {steps} is too few",
            why=f"a step time needs {FEWEST} undisturbed steps, and the first steps are warm-up",
            next=f"use --steps {2 * ENOUGH}",
        )


def _share(option: str, text: str | None, example: str, of: str) -> float | None:
    return None if text is None else read_share(option, text, example=example, of=of)


def _there(option: str, path: Path | None) -> Path | None:
    if path is not None and path.is_dir():
        raise UsageError(f"{option} {path}: is a directory", why="it takes a TOML or JSON file")
    if path is not None and not path.exists():
        raise InputError(
            f"{option} {path}: no such file", next=f"ls {shlex.quote(str(path.parent))}"
        )
    return path


def _rule(cap: int, indifferent: str) -> DecisionRule:
    check_number("--cap", cap, _LEAST_CAP)
    share = read_share("--indifferent", indifferent, example="0.5%")
    return DecisionRule(indifferent=share, cap=cap, looks=(*range(_LEAST_CAP, cap, 2), cap))


def _shape(options: TuneOptions, target: Target | None) -> ProcessShape:
    place = options.place
    check_number("--nodes", place.nodes, 1)
    check_number("--ranks-per-node", place.ranks_per_node, 1)
    kind = executor_kind(options.executor, place.own)
    wanted = 1 if target is None or kind.is_here else target.hosts
    nodes = place.nodes or kind.nodes_around(os.environ) or wanted
    return ProcessShape(nodes=nodes, per=place.per, ranks_per_node=place.ranks_per_node)


def _prediction(options: TuneOptions, base: Settings) -> PredictionOptions:
    prediction = PredictionOptions(
        **vars(options.forecast),
        settings=base,
        recipes=options.tried.base.recipe,
        inherited=dict(os.environ),
        timeout_s=options.compile_timeout_s,
    )
    with in_words_of_tune():
        prediction.check()
    return prediction


def _directory(workload: str | None, command: tuple[str, ...]) -> Path:
    """Return a new directory, named by date and workload."""
    stem = HOME / f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{_name(workload, command)}"
    return unused_path(stem) if stem.exists() else stem


def _name(workload: str | None, command: tuple[str, ...]) -> str:
    if workload is not None:
        stem = Path(workload.partition(":")[0] or workload).stem
    else:
        words = [word for word in as_typed(command) if not word.startswith("-")]
        stem = next(
            (word for word in words if word.endswith((".py", ".sh", ".ipynb"))),
            words[0] if words else "",
        )
        stem = Path(stem).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60] or "study"
