"""The verdict of a study in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from counterpoint.core import Range
from counterpoint.tune.arm import (
    Arm,
    ArmOrigin,
    gain_text,
    several,
    share_text,
    what_text,
)
from counterpoint.tune.conclusion.caveats import NOISY
from counterpoint.tune.conclusion.conclusion import ArmRow, remedy
from counterpoint.tune.conclusion.findings import StudyResults, doubtful
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.race import to_enter
from counterpoint.tune.statistics.estimate import ArmVerdict, RunNoise, estimate_text
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import TrialFailure

FAILURES = frozenset(map(str, TrialFailure)) | {"no profile"}
_SAME = frozenset({"no effect", "same program"})
_OUT = frozenset({"slower", "behind", "below target", "can't win"})


def measured_sentence(
    study: Study,
    plan: StudyPlan,
    found: StudyResults,
    rows: tuple[ArmRow, ...],
    noise: RunNoise | None,
) -> str:
    """Return the verdict of a study with trials."""
    ended = study.ended.why if study.ended is not None else ""
    if "the base itself fails" in ended:
        return f"nothing could be measured: {ended}"
    others = _others(rows, found.winner or found.refuted)
    claim = found.claimed
    if found.winner is not None and claim is not None:
        head = f"{estimate_text(claim)} from {what_text(found.winner)}"
        return "; ".join([f"{head} ({_how(study, plan, found)})", *others])
    if found.refuted is not None:
        return "; ".join([_refuted(found, found.refuted), *others])
    return _without_a_winner(study, plan, found, rows, noise)


def _how(study: Study, plan: StudyPlan, found: StudyResults) -> str:
    if found.confirmed:
        local = study.began.executor == "local"
        return "measured, confirmed " + ("by fresh runs" if local else "in a fresh allocation")
    if not plan.confirm_rows:
        return "measured, not confirmed: no fresh runs were asked for"
    why = "that is still to come" if study.ended is None else "the budget had no room for it"
    return f"faster in the race, not confirmed: {why}"


def _refuted(found: StudyResults, arm: Arm) -> str:
    before, after = found.raced.get(arm.name), found.fresh[arm.name]
    if after.verdict is ArmVerdict.SLOWER:
        outcome = f"slower in fresh runs, {estimate_text(after)}"
    else:
        outcome = f"not confirmed by fresh runs, {estimate_text(after)}"
    race = f"{gain_text(before.gain)} in the race, " if before is not None else ""
    return f"no gain is certain: {what_text(arm)}: {race}{outcome}"


def _without_a_winner(
    study: Study,
    plan: StudyPlan,
    found: StudyResults,
    rows: tuple[ArmRow, ...],
    noise: RunNoise | None,
) -> str:
    best = doubtful(study, plan)
    ran = [row for row in _settings(rows) if row.status not in FAILURES]
    tried = [row for row in ran if row.status != NO_BUDGET]
    judged = [row for row in tried if row.status in _SAME | _OUT]
    if not tried or not (found.raced or judged):
        return _nothing(study, rows)
    if len(judged) < len(tried):
        return "; ".join([_open(study, plan, found, best, noise), *_others(rows, best)])
    within = _within(rows)
    if all(row.status in _SAME for row in tried) and within is not None:
        return "; ".join([_no_effect(len(tried), len(ran), within), *_failed(rows)])
    return "; ".join(["no setting is faster", *_others(rows, None)])


def _no_effect(same: int, ran: int, within: float) -> str:
    """Return the verdict of no effect, with the number of arms left undecided by the budget."""
    none = "it does not change" if same == 1 else "none changes"
    verdict = f"tried, {none} the step by more than {share_text(within)}"
    if same == ran:
        return f"no effect: {several(ran, 'setting')} {verdict}"
    return f"no effect: {same} of {ran} settings {verdict}; {ran - same} not decided: {NO_BUDGET}"


def _open(
    study: Study, plan: StudyPlan, found: StudyResults, best: Arm | None, noise: RunNoise | None
) -> str:
    if best is None and (widest := _cannot_be_seen(found)) is not None:
        return f"{NOISY}: no gain was found, and an effect up to {widest} can't be seen here"
    if best is None:
        undecided = [
            estimate for estimate in found.raced.values() if estimate.verdict is ArmVerdict.OPEN
        ]
        if study.ended is None:
            return "nothing is decided yet"
        widest = max(
            (estimate.range.high for estimate in undecided if isinstance(estimate.range, Range)),
            default=None,
        )
        more = "" if widest is None else f", gains of more than {share_text(widest)} are ruled out"
        return f"no gain was found{more}; not all of it is decided"
    estimate = found.raced[best.name]
    head = f"not decided: {what_text(best)} may save {estimate_text(estimate)}"
    return head + remedy(study, plan, noise, estimate)


def _cannot_be_seen(found: StudyResults) -> str | None:
    """Return the largest effect that the noise may hide, if any arm was too noisy."""
    noisy = [estimate.range for estimate in found.raced.values() if estimate.why.startswith(NOISY)]
    reach = [max(abs(span.low), abs(span.high)) for span in noisy if isinstance(span, Range)]
    return share_text(max(reach)) if reach else None


def _nothing(study: Study, rows: tuple[ArmRow, ...]) -> str:
    failed = list(_failed(rows))
    if failed and study.ended is not None:
        return "; ".join(["no setting could be measured", *failed])
    if study.ended is not None:
        return f"nothing was measured: {study.ended.why}"
    return "nothing is measured yet"


def _settings(rows: tuple[ArmRow, ...]) -> list[ArmRow]:
    """Return the arms that took part, without the base, combinations and ablations."""
    derived = (ArmOrigin.COMBINED, ArmOrigin.ABLATION)
    return [
        row
        for row in rows
        if not row.arm.is_base
        and row.arm.origin not in derived
        and (row.trials or row.status in _OUT)
    ]


def _others(rows: tuple[ArmRow, ...], winner: Arm | None) -> Iterator[str]:
    """Count the outcomes of all arms but the winner."""
    parts = {str(change) for change in winner.changes} if winner is not None else set[str]()
    others = [
        row
        for row in _settings(rows)
        if winner is None
        or (row.arm.name != winner.name and not {str(change) for change in row.arm.changes} & parts)
    ]
    same = [row for row in others if row.status in _SAME]
    noun = "setting" if winner is None else "other setting"
    if same:
        within = _within(tuple(same))
        reach = f" within {share_text(within)}" if within else ""
        yield f"{several(len(same), noun)}: no effect{reach}"
    out = sum(row.status in _OUT for row in others)
    if out:
        yield f"{out} slower or too far behind"
    left = sum(row.status in (str(ArmVerdict.OPEN), NO_BUDGET, "not tried") for row in others)
    if left:
        yield f"{left} not decided"
    yield from _failed(tuple(others))


def _failed(rows: tuple[ArmRow, ...]) -> Iterator[str]:
    kinds = [row.status for row in _settings(rows) if row.status in FAILURES]
    if kinds:
        each = ", ".join(
            f"{kind} {kinds.count(kind)}" if len(kinds) > 1 else kind
            for kind in dict.fromkeys(kinds)
        )
        yield f"{len(kinds)} failed ({each})"


def _within(rows: tuple[ArmRow, ...]) -> float | None:
    """Return the largest change that arms without effect may have."""
    reaches = [
        row.raced.range
        for row in rows
        if row.status in _SAME and row.raced is not None and isinstance(row.raced.range, Range)
    ]
    programs = any(row.status == "same program" for row in rows)
    found = [max(abs(reach.low), abs(reach.high)) for reach in reaches]
    return max(found, default=0.0 if programs else None)


def predicted_best(study: Study) -> Arm | None:
    """Return the listed arm with the largest predicted gain, or a simpler one tied with it."""
    predicted = [arm for arm in to_enter(study) if arm.predicted is not None]
    if not predicted or _predicted_gain(predicted[0]) <= 0:
        return None
    tied = [
        arm
        for arm in predicted
        if arm.predicted and arm.predicted.tied and _predicted_gain(arm) > 0
    ]
    return min((predicted[0], *tied), key=lambda arm: len(arm.changes) or math.inf)


def same_program(one: Arm, other: Arm) -> bool:
    """Return whether two arms are predicted to have the same program; an arm equals itself."""
    if one.predicted is None or other.predicted is None:
        return one.name == other.name
    return one.predicted.program == other.predicted.program


def _predicted_gain(arm: Arm) -> float:
    return arm.predicted.gain if arm.predicted is not None else -math.inf


def predicted_sentence(study: Study) -> str:
    """Return the verdict of a study without measurements."""
    candidates = [candidate for candidate in study.candidates if not candidate.arm.is_base]
    if study.search is None:
        return f"nothing is known yet: {several(len(candidates), 'candidate')} looked at so far"
    best = predicted_best(study)
    if best is None or best.predicted is None:
        predicted = sum(candidate.arm.predicted is not None for candidate in candidates)
        if not predicted:
            return "nothing is measured yet"
        return f"none of {several(predicted, 'candidate')} is predicted to be faster than the base"
    figures = best.predicted
    text = gain_text(figures.gain, figures.gain_range).replace(" %", " % predicted", 1)
    tied = [
        candidate
        for candidate in candidates
        if candidate.arm.predicted and candidate.arm.predicted.tied
    ]
    others = sum(not same_program(candidate.arm, best) for candidate in tied)
    ties = f"; tied with {several(others, 'other')}" if others else ""
    return f"{text} from {what_text(best)}{ties}; a measurement has to confirm it"
