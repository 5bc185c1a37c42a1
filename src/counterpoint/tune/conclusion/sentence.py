"""The verdict of a study in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from counterpoint.core import Range
from counterpoint.tune.arm import (
    Arm,
    Origin,
    gain_text,
    several,
    share_text,
    what_text,
)
from counterpoint.tune.conclusion.caveats import NOISY
from counterpoint.tune.conclusion.conclusion import ArmRow, remedy
from counterpoint.tune.conclusion.findings import Findings, doubtful
from counterpoint.tune.plan import Plan
from counterpoint.tune.race.race import to_enter
from counterpoint.tune.statistics.estimate import Noise, Verdict, estimate_text
from counterpoint.tune.study.study import NO_BUDGET, Study
from counterpoint.tune.trial.report import Failure

FAILURES = frozenset(map(str, Failure)) | {"no profile"}
_SAME = frozenset({"no effect", "same program"})
_OUT = frozenset({"slower", "behind", "below target", "can't win"})


def measured_sentence(
    study: Study, plan: Plan, found: Findings, rows: tuple[ArmRow, ...], noise: Noise | None
) -> str:
    """Of a study with trials."""
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


def _how(study: Study, plan: Plan, found: Findings) -> str:
    if found.confirmed:
        local = study.began.executor == "local"
        return "measured, confirmed " + ("by fresh runs" if local else "in a fresh allocation")
    if not plan.confirm_rows:
        return "measured, not confirmed: no fresh runs were asked for"
    why = "that is still to come" if study.ended is None else "the budget had no room for it"
    return f"faster in the race, not confirmed: {why}"


def _refuted(found: Findings, arm: Arm) -> str:
    before, after = found.raced.get(arm.name), found.fresh[arm.name]
    if after.verdict is Verdict.SLOWER:
        said = f"slower in fresh runs, {estimate_text(after)}"
    else:
        said = f"not confirmed by fresh runs, {estimate_text(after)}"
    race = f"{gain_text(before.gain)} in the race, " if before is not None else ""
    return f"no gain is certain: {what_text(arm)}: {race}{said}"


def _without_a_winner(
    study: Study, plan: Plan, found: Findings, rows: tuple[ArmRow, ...], noise: Noise | None
) -> str:
    best = doubtful(study, plan)
    ran = [it for it in _settings(rows) if it.status not in FAILURES]
    tried = [it for it in ran if it.status != NO_BUDGET]
    judged = [it for it in tried if it.status in _SAME | _OUT]
    if not tried or not (found.raced or judged):
        return _nothing(study, rows)
    if len(judged) < len(tried):
        return "; ".join([_open(study, plan, found, best, noise), *_others(rows, best)])
    within = _within(rows)
    if all(it.status in _SAME for it in tried) and within is not None:
        return "; ".join([_no_effect(len(tried), len(ran), within), *_failed(rows)])
    return "; ".join(["no setting is faster", *_others(rows, None)])


def _no_effect(same: int, ran: int, within: float) -> str:
    """Of so many that ran; of the others the budget did not let anything be said."""
    none = "it does not change" if same == 1 else "none changes"
    said = f"tried, {none} the step by more than {share_text(within)}"
    if same == ran:
        return f"no effect: {several(ran, 'setting')} {said}"
    return f"no effect: {same} of {ran} settings {said}; {ran - same} not decided: {NO_BUDGET}"


def _open(study: Study, plan: Plan, found: Findings, best: Arm | None, noise: Noise | None) -> str:
    if best is None and (widest := _cannot_be_seen(found)) is not None:
        return f"{NOISY}: no gain was found, and an effect up to {widest} can't be seen here"
    if best is None:
        told = [it for it in found.raced.values() if it.verdict is Verdict.OPEN]
        if study.ended is None:
            return "nothing is decided yet"
        widest = max((it.range.high for it in told if isinstance(it.range, Range)), default=None)
        more = "" if widest is None else f", gains of more than {share_text(widest)} are ruled out"
        return f"no gain was found{more}; not all of it is decided"
    estimate = found.raced[best.name]
    head = f"not decided: {what_text(best)} may save {estimate_text(estimate)}"
    return head + remedy(study, plan, noise, estimate)


def _cannot_be_seen(found: Findings) -> str | None:
    """The widest reach of those that are too noisy, where there is any."""
    noisy = [it.range for it in found.raced.values() if it.why.startswith(NOISY)]
    reach = [max(abs(it.low), abs(it.high)) for it in noisy if isinstance(it, Range)]
    return share_text(max(reach)) if reach else None


def _nothing(study: Study, rows: tuple[ArmRow, ...]) -> str:
    failed = list(_failed(rows))
    if failed and study.ended is not None:
        return "; ".join(["no setting could be measured", *failed])
    if study.ended is not None:
        return f"nothing was measured: {study.ended.why}"
    return "nothing is measured yet"


def _settings(rows: tuple[ArmRow, ...]) -> list[ArmRow]:
    """What took part, but the base, and what the study made up of others."""
    made = (Origin.COMBINED, Origin.ABLATION)
    return [
        it
        for it in rows
        if not it.arm.is_base and it.arm.origin not in made and (it.trials or it.status in _OUT)
    ]


def _others(rows: tuple[ArmRow, ...], winner: Arm | None) -> Iterator[str]:
    """What became of all but the winner, in numbers."""
    parts = {str(it) for it in winner.changes} if winner is not None else set[str]()
    others = [
        it
        for it in _settings(rows)
        if winner is None
        or (it.arm.name != winner.name and not {str(x) for x in it.arm.changes} & parts)
    ]
    same = [it for it in others if it.status in _SAME]
    noun = "setting" if winner is None else "other setting"
    if same:
        within = _within(tuple(same))
        reach = f" within {share_text(within)}" if within else ""
        yield f"{several(len(same), noun)}: no effect{reach}"
    out = sum(it.status in _OUT for it in others)
    if out:
        yield f"{out} slower or too far behind"
    left = sum(it.status in (str(Verdict.OPEN), NO_BUDGET, "not tried") for it in others)
    if left:
        yield f"{left} not decided"
    yield from _failed(tuple(others))


def _failed(rows: tuple[ArmRow, ...]) -> Iterator[str]:
    kinds = [it.status for it in _settings(rows) if it.status in FAILURES]
    if kinds:
        each = ", ".join(
            f"{kind} {kinds.count(kind)}" if len(kinds) > 1 else kind
            for kind in dict.fromkeys(kinds)
        )
        yield f"{len(kinds)} failed ({each})"


def _within(rows: tuple[ArmRow, ...]) -> float | None:
    """The most that any of those without effect may change."""
    reaches = [
        it.raced.range
        for it in rows
        if it.status in _SAME and it.raced is not None and isinstance(it.raced.range, Range)
    ]
    programs = any(it.status == "same program" for it in rows)
    found = [max(abs(it.low), abs(it.high)) for it in reaches]
    return max(found, default=0.0 if programs else None)


def predicted_best(study: Study) -> Arm | None:
    """Of those worth real time the one predicted to save most, or a simpler one tied with it."""
    told = [it for it in to_enter(study) if it.predicted is not None]
    if not told or _predicted_gain(told[0]) <= 0:
        return None
    tied = [it for it in told if it.predicted and it.predicted.tied and _predicted_gain(it) > 0]
    return min((told[0], *tied), key=lambda it: len(it.changes) or math.inf)


def same_program(one: Arm, other: Arm) -> bool:
    """As predicted; an arm is one with itself."""
    if one.predicted is None or other.predicted is None:
        return one.name == other.name
    return one.predicted.program == other.predicted.program


def _predicted_gain(arm: Arm) -> float:
    return arm.predicted.gain if arm.predicted is not None else -math.inf


def predicted_sentence(study: Study) -> str:
    """Of a study that was not measured, or not yet."""
    seen = [it for it in study.candidates if not it.arm.is_base]
    if study.search is None:
        return f"nothing is known yet: {several(len(seen), 'candidate')} looked at so far"
    best = predicted_best(study)
    if best is None or best.predicted is None:
        predicted = sum(it.arm.predicted is not None for it in seen)
        if not predicted:
            return "nothing is measured yet"
        return f"none of {several(predicted, 'candidate')} is predicted to be faster than the base"
    said = best.predicted
    text = gain_text(said.gain, said.gain_range).replace(" %", " % predicted", 1)
    tied = [it for it in seen if it.arm.predicted and it.arm.predicted.tied]
    others = sum(not same_program(it.arm, best) for it in tied)
    ties = f"; tied with {several(others, 'other')}" if others else ""
    return f"{text} from {what_text(best)}{ties}; a measurement has to confirm it"
