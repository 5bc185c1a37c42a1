"""Sitting: a study from its beginning, or from where it was, to what it concludes.

    Asked ──► open_study ──► predict_arms ──► run_study ──► conclude
               (journal)      (offline)        (online)

Each part looks at the study for what is done already, so going on is the same as beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from counterpoint.core.errors import UsageError
from counterpoint.tune.asked import Asked, began, check
from counterpoint.tune.by_hand import list_arms
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.conclusion.foreign import foreign_devices
from counterpoint.tune.dry import DryRun, plan_study
from counterpoint.tune.edited import edited
from counterpoint.tune.executors.choose import choose_executor
from counterpoint.tune.executors.executor import Executor
from counterpoint.tune.here import own_gpus
from counterpoint.tune.journal.records import Paused, StudyEnded
from counterpoint.tune.offline import predict_arms, start_scalars
from counterpoint.tune.online.budget import refuse_small
from counterpoint.tune.online.tuner import run_study
from counterpoint.tune.recalibrate import fitted
from counterpoint.tune.study.directory import open_study, read_study
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.plan_text import plan_of
from counterpoint.tune.study.study import Study

Say: TypeAlias = Callable[[str], None]
Stopped: TypeAlias = Callable[[], bool]
Opened: TypeAlias = Callable[[Study], None]


def tune(
    asked: Asked,
    say: Say = lambda _: None,
    stopped: Stopped = lambda: False,
    opened: Opened = lambda _: None,
) -> Conclusion:
    """Begin a study, or go on with it, until it is decided, the budget is spent, or it is stopped.

    `say` hears one line at a time of what goes on; `stopped` is asked often, and ends it in order
    as soon as it is true. `opened` is told of the study as it was found, once it is ours.
    """
    asked = grounded(asked, say)
    if asked.measure:
        refuse_small(asked.online_plan)
    executor = _executor(asked, say, stopped)
    first = began(asked, executor.name if executor else None, Path.cwd())
    with open_study(asked.directory, first) as ledger:
        opened(ledger.study)
        if (note := edited(ledger.study.began, first)) is not None:
            say(note)
        if ledger.study.ended is None:
            _go_on(asked, ledger, executor, say, stopped)
        made = conclude(ledger.study, asked.plan)
        return made if note is None else replace(made, notes=(note, *made.notes))


def dry_run(asked: Asked, say: Say = lambda _: None) -> DryRun:
    """What a study would try, and what that costs at most."""
    return plan_study(grounded(asked, say), say)


def conclusion_of(directory: Path) -> Conclusion:
    """What a study says so far, also while somebody works at it."""
    study = read_study(directory)
    return conclude(study, plan_of(study))


def grounded(asked: Asked, say: Say) -> Asked:
    """Checked; and predicted for the GPUs of this machine, where nobody named any settings."""
    check(asked)
    by_hand = asked.arms or asked.plan.space_file is not None
    if asked.target is not None or by_hand or asked.executor not in (None, "local"):
        return asked
    here = own_gpus(asked.inherited)
    if here is None:
        raise UsageError(
            "nothing to try: no settings were named, and no target to find some for",
            why="this machine has no GPUs that Counterpoint knows, and no --arm names settings",
            next="--target 8xH100",
        )
    say(f"these GPUs are the target: {here}")
    return replace(asked, target=here)


def _executor(asked: Asked, say: Say, stopped: Stopped) -> Executor | None:
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
    asked: Asked, ledger: Ledger, executor: Executor | None, say: Say, stopped: Stopped
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
        say("fitting the cost model to what was measured")
        ledger.add(fitted(ledger.study, asked.directory, asked.target, start_scalars(asked)))
