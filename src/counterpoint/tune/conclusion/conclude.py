"""`conclude`: the conclusion of a study, done or not, from its records alone.

If there is a confirmation, a gain is claimed from it alone; otherwise from the race, whose rate of
false positives is shared among all arms and looks. The conclusion then says that the gain is not
confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun as several
from counterpoint.tune.arm import Arm
from counterpoint.tune.conclusion.caveats import caveats
from counterpoint.tune.conclusion.conclusion import (
    NOT_LOOKED_AT,
    NOT_PREDICTABLE,
    ArmRow,
    Conclusion,
    arm_rows,
    spent,
)
from counterpoint.tune.conclusion.results import (
    StudyResults,
    measured_ablation,
    study_results,
    without_unproven_no_effect,
)
from counterpoint.tune.conclusion.sentence import (
    measured_sentence,
    predicted_best,
    predicted_sentence,
)
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.rows import CONFIRM, RACE
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.space.space import LeftOut
from counterpoint.tune.statistics.estimate import (
    RunNoise,
)
from counterpoint.tune.study.records import Ablated
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import TrialFailure

BY_USER: Final = frozenset({"stopped", "interrupted"})
"""Reasons for a pause that the user requested."""


def conclude(study: Study, plan: StudyPlan) -> Conclusion:
    """Return the conclusion at this point of a study."""
    state = RaceState(study, plan)
    if not any(trial.report is not None for trial in study.trials):
        return _predicted(state)
    found = without_unproven_no_effect(study_results(state))
    noise = _noise(state)
    rows = arm_rows(state, found)
    claim = found.claimed
    return Conclusion(
        sentence=measured_sentence(state, found, rows, noise),
        basis="measured",
        state=_state(study),
        winner=found.winner,
        verdict=claim.verdict if claim is not None else None,
        confirmed=found.confirmed,
        gain=claim.gain if claim is not None else None,
        range=claim.range if claim is not None and isinstance(claim.range, Range) else None,
        rows=rows,
        noise=noise,
        spent=spent(state),
        ablation=(*measured_ablation(state, found), *_predicted_ablation(study, found.winner)),
        notes=caveats(state, found, noise),
        left_out=_left_out(study),
    )


def _predicted(state: RaceState) -> Conclusion:
    study = state.study
    best = predicted_best(state)
    prediction = best.predicted if best is not None else None
    rows = arm_rows(state, StudyResults(raced={}, fresh={}))
    return Conclusion(
        sentence=predicted_sentence(state),
        basis="predicted",
        state=_state(study),
        winner=best,
        gain=prediction.gain if prediction is not None else None,
        range=prediction.gain_range if prediction is not None else None,
        rows=rows,
        spent=spent(state) if study.trials else None,
        ablation=tuple(_predicted_ablation(study, best)),
        notes=tuple(_never_predicted(rows)),
        left_out=_left_out(study),
    )


def _left_out(study: Study) -> tuple[LeftOut, ...]:
    """Return what the user named that has no row in the table."""
    return () if study.space is None else tuple(item for item in study.space.left_out if item.named)


def _predicted_ablation(study: Study, best: Arm | None) -> Iterator[Ablated]:
    """Return the predicted ablation of the recommended arm only."""
    return (ablated for ablated in study.ablation if best is not None and ablated.arm == best.name)


def _never_predicted(rows: tuple[ArmRow, ...]) -> Iterator[str]:
    """Report the arms that were never predicted, and say how to include them."""
    statuses = [row.status for row in rows]
    left, silent = statuses.count(NOT_LOOKED_AT), statuses.count(NOT_PREDICTABLE)
    if left:
        yield f"{several(left, 'arm')} not examined: raise --candidates"
    if silent:
        yield (
            f"{several(silent, 'arm')} not predictable, and not on the list: raise --shortlist, or"
            " name those to be run with --arm"
        )


def _noise(state: RaceState) -> RunNoise | None:
    from counterpoint.tune.statistics.fit import noise

    found = state.rows.observations(RACE | CONFIRM)
    return noise(found, indifferent=state.plan.rule.indifferent) if len(found) > 1 else None


def _state(study: Study) -> str:
    if study.ended is not None:
        return "done"
    if study.paused is not None:
        return "interrupted" if study.paused.why in BY_USER else "paused"
    last = study.trials[-1] if study.trials else None
    if last is not None and last.failure is TrialFailure.INTERRUPTED:
        return "interrupted"
    return "running"
