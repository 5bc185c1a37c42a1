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
from counterpoint.tune.first_record import began, edited
from counterpoint.tune.named_arms import list_arms
from counterpoint.tune.race.tuner import run_study
from counterpoint.tune.recalibrate import fitted
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
