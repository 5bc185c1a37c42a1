"""The first lines of `tune`: which parts run, and whether it goes on where it was."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from counterpoint.report.tune_words import budget_text, end_text, several
from counterpoint.tune.asked import Asked
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Failure


def beginning(asked: Asked, study: Study) -> Iterator[str]:
    """Where the study lies, and what will be done; `study` is what was found there, or begun."""
    place = shlex.quote(str(asked.directory))
    if study.ended is not None:
        yield f"{place} is done ({end_text(study.ended.why)}): nothing is run"
        return
    is_new = study == Study(began=study.began)
    yield f"study {place}" if is_new else f"going on with {place}: {_done(asked, study)}"
    if asked.predicts:
        then = "; then the best of them are run in turns" if asked.measure else "; nothing is run"
        yield (
            f"at most {several(asked.plan.candidates, 'candidate')} are compiled for"
            f" {asked.target} and simulated{then}"
        )
    else:
        yield "no --target: nothing is predicted, the base and your arms are run in turns"
    if asked.measure and (budget := budget_text(asked.plan.budget)):
        yield f"budget: {budget}"


def _done(asked: Asked, study: Study) -> str:
    """How far it came."""
    if asked.measure and (study.search is not None or study.trials):
        cut_off = sum(it.failure is Failure.INTERRUPTED or it.report is None for it in study.trials)
        more = f", {cut_off} interrupted" if cut_off else ""
        return f"{several(len(study.trials) - cut_off, 'trial')} done{more}"
    return f"{several(len(study.candidates), 'candidate')} predicted"
