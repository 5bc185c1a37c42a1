"""A study from its start, or from where it stopped, to its conclusion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from counterpoint.core.scratch import scratch_directory
from counterpoint.tune.conclusion.caveats import foreign_devices
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.dryrun import DryRun, plan_study
from counterpoint.tune.executors.choose import choose_executor
from counterpoint.tune.executors.executor import Executor
from counterpoint.tune.first_record import changed_files_note, first_record
from counterpoint.tune.named_arms import list_arms
from counterpoint.tune.race.tuner import run_study
from counterpoint.tune.recalibrate import fit_model
from counterpoint.tune.request import Say, TuneRequest
from counterpoint.tune.search.search import search
from counterpoint.tune.search_inputs import prepare_search, start_scalars
from counterpoint.tune.study.directory import open_study, plan_of, read_study
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import Paused, StudyEnded
from counterpoint.tune.study.study import Study
from counterpoint.tune.target import resolve_target

Stopped: TypeAlias = Callable[[], bool]
Opened: TypeAlias = Callable[[TuneRequest, Study], None]


def tune(
    request: TuneRequest,
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
    request = resolve_target(request, say)
    executor = _executor(request, say, stopped)
    first = first_record(request, executor.name if executor else None, Path.cwd())
    with open_study(request.directory, first) as ledger:
        opened(request, ledger.study)
        if (note := changed_files_note(ledger.study.began, first)) is not None:
            say(note)
        if ledger.study.ended is None:
            _go_on(request, ledger, executor, say, stopped)
        conclusion = conclude(ledger.study, request.plan)
        return conclusion if note is None else replace(conclusion, notes=(note, *conclusion.notes))


def dry_run(request: TuneRequest, say: Say = lambda _: None) -> DryRun:
    """Return what a study would try, and its maximum cost."""
    return plan_study(resolve_target(request, say), say)


def conclusion_of(directory: Path) -> Conclusion:
    """Return a study's conclusion so far, even while another process works on it."""
    study = read_study(directory)
    return conclude(study, plan_of(study))


def _executor(request: TuneRequest, say: Say, stopped: Stopped) -> Executor | None:
    if not request.measure:
        return None
    return choose_executor(
        request.executor,
        request.plan.shape,
        request.executor_options,
        environ=request.inherited,
        say=say,
        stopped=stopped,
    )


def _go_on(
    request: TuneRequest, ledger: Ledger, executor: Executor | None, say: Say, stopped: Stopped
) -> None:
    if ledger.study.search is None:
        if request.predicts:
            predict_arms(request, ledger, say, stopped)
        else:
            list_arms(request, ledger)
    if ledger.study.search is None:
        ledger.add(Paused(why="stopped", at=stamp()))
        return
    if executor is None:
        ledger.add(StudyEnded(why=ledger.study.search.why, at=stamp()))
        return
    run_study(ledger, request.online_plan, executor, request.directory, say, stopped)
    if request.target is None or ledger.study.ended is None:
        return
    if foreign_devices(ledger.study) is None:
        say("fitting the cost model to the measurements")
        ledger.add(
            fit_model(ledger.study, request.directory, request.target, start_scalars(request))
        )


def predict_arms(
    request: TuneRequest, ledger: Ledger, say: Say, stopped: Callable[[], bool]
) -> None:
    """Search, and record the shortlist in the study."""
    with scratch_directory("tune") as scratch:
        inputs = prepare_search(request, scratch, say)
        search(
            inputs.work,
            inputs.space,
            request.plan,
            ledger,
            say,
            stopped,
            base_forecast=inputs.base_forecast,
            confirm=request.confirm,
            keep=request.directory,
        )
