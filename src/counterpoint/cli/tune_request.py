"""The request that the options of `tune` form: its parts and its plan, checked in advance."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.cli.tune_options import PlaceOptions, RaceOptions, SearchOptions, TriedOptions
from counterpoint.core import InputError, UsageError, refuse_url, unused_path
from counterpoint.core.bounds import check_number, read_share
from counterpoint.core.notebook import as_typed
from counterpoint.tune.plan import Budget

if TYPE_CHECKING:
    from counterpoint.flags.settings import Settings
    from counterpoint.hardware.target import Target
    from counterpoint.tune.executors import ProcessShape
    from counterpoint.tune.plan import StudyPlan
    from counterpoint.tune.request import TuneRequest
    from counterpoint.tune.statistics import DecisionRule
    from counterpoint.workflow.prediction import PredictionOptions


_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS: Final = {
    word: unit
    for unit, words in {
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "trials": "trial trials",
    }.items()
    for word in words.split()
}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)\s*([a-z]+)")
_EXAMPLE: Final = "use --budget '20 trials, 2h'"
_USUAL_BUDGET: Final = "2h"
"""Nobody expects a command to run for days; a study that it ends says so, and can be continued."""


def read_budget(text: str | None) -> Budget:
    """Parse `2h`, `2 hours`, `1h30m`, `20 trials`, `20 trials, 2h`; each unit may occur once."""
    if text is None:
        return Budget()
    rest = re.sub(r"[\s,]+|\band\b", " ", text.strip().lower()).strip()
    amounts: dict[str, str] = {}
    while rest:
        part = _PART.match(rest)
        unit = _UNITS.get(part[2]) if part else None
        if part is None or unit is None:
            raise _bad_budget(text)
        if unit in amounts:
            twice = f"{amounts[unit]} {unit} and {part[1]} {unit}"
            raise _bad_budget(text, f"the unit occurs twice: {twice}")
        amounts[unit] = part[1]
        rest = rest[part.end() :].strip()
    trials = amounts.pop("trials", None)
    seconds = sum(float(number) * _SECONDS[unit] for unit, number in amounts.items())
    if (trials is None and not amounts) or (amounts and not seconds):
        raise _bad_budget(text)
    if trials is not None and (not trials.isdecimal() or int(trials) == 0):
        raise _bad_budget(text)
    return Budget(trials=None if trials is None else int(trials), seconds=seconds or None)


def _bad_budget(text: str, why: str | None = None) -> UsageError:
    if why is None and re.fullmatch(r"\s*[0-9]+(\.[0-9]+)?\s*", text):
        why = f"{text.strip()} has no unit; quote a value that contains a space"
    return UsageError(
        f"--budget takes a time, a number of trials, or both, not {text!r}", why=why, next=_EXAMPLE
    )


_WITH_TARGET: Final = "use --target 8xH100, with the name of your GPUs"
HOME: Final = Path("counterpoint-studies")
_LEAST_CAP: Final = 2
_MOST_COMPILES: Final = 24
"""Of a search for TPUs, unless requested otherwise: libtpu takes minutes for each."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """All options, by group."""

    tried: TriedOptions
    search: SearchOptions
    race: RaceOptions
    place: PlaceOptions


def read_request(command: Sequence[str], given: TuneOptions, out: Path | None) -> TuneRequest:
    """Return the request that the options form; conflicts between options are rejected."""
    from counterpoint.hardware.targets import parse_target
    from counterpoint.tune.command_options import varied
    from counterpoint.tune.executors import runs_here
    from counterpoint.tune.request import TuneRequest

    words, predict = tuple(command), given.search.predict
    if len(words) == 1 and shutil.which(words[0]) is None:  # it is no program to run
        if predict == ():
            words, predict = (), words  # `tune step.mlir.gz --predict`
        elif predict is None:
            _refuse_workload(words[0], given.search.target)
    workload = _workload(predict, words)
    measure = _measures(workload, words, given)
    _refuse_idle(given, predicts=given.search.target is not None, measure=measure)
    lowered = workload is None and given.search.target is not None
    here = runs_here(given.place.executor) and not given.place.own.given
    if words and here and (lowered or measure):
        _refuse_missing(words)
    if out is not None:
        refuse_url(out)
    named = given.search.target
    target = parse_target(named, tpus=True) if named is not None else None
    base = _base(words, given.tried, target)
    plan = _plan(given, target, measure=measure)
    _refuse_unreadable(given.tried.arm, given.tried.space)
    of_options = [arm for text in given.tried.vary for arm in varied(text, words)]
    return TuneRequest(
        workload=workload,
        command=words,
        target=target,
        directory=out or _directory(workload, words),
        base=base,
        plan=plan,
        prediction=_prediction(given, base) if target is not None else None,
        executor=given.place.executor,
        executor_options=given.place.own,
        arms=(*given.tried.arm, *of_options),
        confirm=given.race.confirm,
        program=given.search.program,
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


def _measures(workload: str | None, command: tuple[str, ...], given: TuneOptions) -> bool:
    """Return whether trials run: with a command, unless --predict is alone or --confirm is 0."""
    if not command:
        return given.race.confirm is not None and given.race.confirm > 0
    alone = given.search.predict is not None and workload is None
    if alone and given.race.confirm:
        raise UsageError(
            f"--predict alone runs nothing, but --confirm {given.race.confirm} requests runs",
            next="omit --predict",
        )
    return not alone and given.race.confirm != 0


_OF_SEARCH: Final = ("profile", "nccl_table", "gemm_table", "kernel_table", "calibration")


def _refuse_idle(given: TuneOptions, *, predicts: bool, measure: bool) -> None:
    """Refuse options without any effect: they are a misunderstanding."""
    search, race = given.search, given.race
    if not predicts:
        idle = [option for option in (*_OF_SEARCH, "devices", "program") if getattr(search, option)]
        if search.predict is not None or idle:
            word = "predict" if search.predict is not None else idle[0].replace("_", "-")
            raise UsageError(f"--{word} requires --target", next=_WITH_TARGET)
        if race.confirm is not None:
            raise UsageError(
                "--confirm requires --target: it limits how many predicted arms are run",
                next="omit --confirm" if given.tried.arm else _WITH_TARGET,
            )
    if not measure:
        spent = ("budget", "target_gain", "steps", "timeout", "hang_after", "ablate")
        for option in (*spent, "loss_tolerance"):
            if getattr(race, option):
                raise UsageError(
                    f"--{option.replace('_', '-')} applies to trials, but none are run",
                    next="counterpoint tune --target 8xH100 -- python train.py",
                )


def _refuse_workload(word: str, target: str | None) -> None:
    """Refuse a workload that is given as a command: a function, or a file that no one runs."""
    from counterpoint.compile.inputs.function_process import names_function

    is_data = Path(word).exists() and not word.endswith((".py", ".sh"))
    if names_function(word) or is_data:
        raise UsageError(
            f"{word} is a workload, which requires --predict",
            why="without --predict, the words are a command that trains",
            next="omit --confirm, use --predict" + ("" if target else " --target 8xH100"),
        )


def _refuse_missing(command: tuple[str, ...]) -> None:
    """Refuse a missing program or script; for other machines this can't be checked."""
    from counterpoint.capture import refuse_missing

    if re.fullmatch(r"s[how]{2,4}", command[0]) and shutil.which(command[0]) is None:
        raise UsageError(
            f"{command[0]} was not found",
            why="the words after `--` are the command that is run",
            next=f"counterpoint tune show {shlex.join(command[1:2]) or 'STUDY'}",
        )
    refuse_missing(command, os.environ, "counterpoint tune ...")


def _base(command: tuple[str, ...], tried: TriedOptions, target: Target | None) -> Settings:
    """Return the base settings; a command also inherits the shell's XLA_FLAGS."""
    from counterpoint.capture import find_interpreter
    from counterpoint.flags.settings import Settings, inherited_settings
    from counterpoint.workflow import base_settings

    python = find_interpreter(command, os.environ) if command and tried.recipe else None
    settings = base_settings(
        tried.recipe,
        tried.set_,
        tried.env,
        version=python.versions.get("jaxlib") if python else None,
        chip=target.gpu if target is not None else None,
    )
    inherited = inherited_settings(os.environ) if command else Settings()
    return inherited.merged(settings) if inherited.xla else settings


_SWITCHES: Final = ("--ablate", "--dry-run", "--json", "--schedule-only")
"""Words behind `--arm` that were hardly meant as options of the program."""


def _refuse_unreadable(arms: tuple[str, ...], space: Path | None) -> None:
    """Refuse arms that can't be parsed; names from the study's space are checked later."""
    from counterpoint.flags.settings import Settings
    from counterpoint.tune.command_options import is_of_command
    from counterpoint.tune.space import SpaceFile, drafts_for, is_label, read_space
    from counterpoint.workflow import candidate

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


def _plan(given: TuneOptions, target: Target | None, *, measure: bool) -> StudyPlan:
    from counterpoint.tune.executors import TrialLimits
    from counterpoint.tune.plan import StudyPlan

    search, race = given.search, given.race
    slow = target is not None and target.tpu is not None and not search.schedule_only
    check_number("--candidates", search.candidates, 1)
    check_number("--shortlist", search.shortlist, 1)
    check_number("--jobs", search.jobs, 1)
    check_number("--confirm", race.confirm, 0)
    check_number("--confirm-rows", race.confirm_rows, 0)
    _refuse_few(race.steps)
    check_number("--timeout", race.timeout, 0.001)
    check_number("--hang-after", race.hang_after, 0.001)
    return StudyPlan(
        budget=read_budget(_USUAL_BUDGET if measure and race.budget is None else race.budget),
        candidates=search.candidates or (_MOST_COMPILES if slow else StudyPlan().candidates),
        shortlist=search.shortlist,
        rule=_rule(race),
        confirm_rows=race.confirm_rows,
        target_gain=_share("--target-gain", race.target_gain, "2%", "the step"),
        shape=_shape(given.place, target),
        limits=TrialLimits(timeout_s=race.timeout, hang_after_s=race.hang_after, steps=race.steps),
        loss_tolerance=_share("--loss-tolerance", race.loss_tolerance, "0.1%", "the loss"),
        ablate=race.ablate,
        seed=given.tried.seed,
        jobs=search.jobs,
        space_file=_there("--space", given.tried.space),
    )


def _refuse_few(steps: int | None) -> None:
    """Refuse a number of steps at which every trial would run but give no figure."""
    from counterpoint.runs.steady import ENOUGH, FEWEST

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


def _rule(race: RaceOptions) -> DecisionRule:
    from counterpoint.tune.statistics import DecisionRule

    check_number("--cap", race.cap, _LEAST_CAP)
    looks = (*range(_LEAST_CAP, race.cap, 2), race.cap)
    indifferent = read_share("--indifferent", race.indifferent, example="0.5%")
    return DecisionRule(indifferent=indifferent, cap=race.cap, looks=looks)


def _shape(place: PlaceOptions, target: Target | None) -> ProcessShape:
    from counterpoint.tune.executors import ProcessShape, executor_kind

    check_number("--nodes", place.nodes, 1)
    check_number("--ranks-per-node", place.ranks_per_node, 1)
    kind = executor_kind(place.executor, place.own)
    wanted = 1 if target is None or kind.is_here else target.hosts
    nodes = place.nodes or kind.nodes_around(os.environ) or wanted
    return ProcessShape(nodes=nodes, per=place.per, ranks_per_node=place.ranks_per_node)


def _prediction(given: TuneOptions, base: Settings) -> PredictionOptions:
    from counterpoint.workflow.prediction import PredictionOptions

    search = given.search
    check_number("--devices", search.devices, 1)
    check_number("--compile-timeout", search.compile_timeout, 0.001)
    return PredictionOptions(
        settings=base,
        recipes=given.tried.recipe,
        profile=None if search.profile is None else str(search.profile),
        nccl_table=search.nccl_table,
        gemm_table=search.gemm_table,
        kernel_table=search.kernel_table,
        calibration=search.calibration,
        inherited=dict(os.environ),
        devices=search.devices,
        jobs=search.jobs,
        timeout_s=search.compile_timeout,
        schedule_only=search.schedule_only,
    )


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
