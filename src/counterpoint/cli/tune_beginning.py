"""The first lines of `tune`: which parts run, and whether it goes on where it was."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.core.errors import CounterpointError
from counterpoint.report.tune_words import duration, several
from counterpoint.tune.asked import Asked, began
from counterpoint.tune.study.directory import is_study, read_study

if TYPE_CHECKING:
    from counterpoint.tune.plan import Budget
    from counterpoint.tune.study.study import Study


def beginning(asked: Asked) -> Iterator[str]:
    """Where the study lies, and what will be done; nothing where it is another one."""
    place = shlex.quote(str(asked.directory))
    study = _earlier(asked)
    if study is None:
        yield f"study {place}"
    elif (now := began(asked, study.began.executor, Path.cwd())).question != study.began.question:
        return  # refused when it is opened
    elif study.ended is not None and study.options == now.options:
        yield f"{place} is done ({study.ended.why}): nothing is run"
        return
    else:
        yield f"going on with {place}: {_done(asked, study)}"
    if asked.predicts:
        then = "; then the best of them are run in turns" if asked.measure else "; nothing is run"
        yield (
            f"at most {several(asked.plan.candidates, 'candidate')} are compiled for"
            f" {asked.target} and simulated{then}"
        )
    else:
        yield "no --target: nothing is predicted, the base and your arms are run in turns"


def _earlier(asked: Asked) -> Study | None:
    """What an earlier sitting left there."""
    if not is_study(asked.directory):
        return None
    try:
        return read_study(asked.directory)
    except CounterpointError:
        return None  # it is said when the study is opened


def _done(asked: Asked, study: Study) -> str:
    """How far it came."""
    if asked.measure and (study.search is not None or study.trials):
        ended = sum(it.report is not None for it in study.trials)
        return f"{_of_budget(ended, asked.plan.budget)} done"
    return f"{several(len(study.candidates), 'candidate')} predicted"


def _of_budget(ended: int, budget: Budget) -> str:
    if budget.trials is not None:
        return f"{ended} of at most {several(budget.trials, 'trial')}"
    limit = f" of what {duration(budget.seconds)} allow" if budget.seconds is not None else ""
    return f"{several(ended, 'trial')}{limit}"
