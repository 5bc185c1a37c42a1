"""The verdict of a study in one sentence, with the advice that follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun as several
from counterpoint.tune.arm import (
    Arm,
    ArmOrigin,
    changes_text,
    gain_text,
    possible_effects_text,
    share_text,
)
from counterpoint.tune.conclusion.conclusion import (
    NOT_TRIED,
    ArmRow,
)
from counterpoint.tune.conclusion.results import (
    NOISY,
    StudyResults,
)
from counterpoint.tune.executors.choose import runs_here
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.race import SPENT
from counterpoint.tune.race.rows import RACE
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    GainEstimate,
    RunNoise,
    estimate_text,
    rows_needed,
)
from counterpoint.tune.study.records import StudyEnded
from counterpoint.tune.study.study import BASE_FAILS, NO_BUDGET
from counterpoint.tune.trial.report import TrialFailure

_ANOTHER_PROGRAM = {str(TrialFailure.OTHER_NUMBERS), str(TrialFailure.FEWER_STEPS)}
FAILURES = frozenset(map(str, TrialFailure)) | {"no profile"}
_SAME = frozenset({"no effect", "same program"})
_UNTRIED = frozenset({NO_BUDGET, NOT_TRIED})
_OUT = frozenset({"slower", "behind", "below target", "can't win"})


def measured_sentence(
    state: RaceState, found: StudyResults, rows: tuple[ArmRow, ...], noise: RunNoise | None
) -> str:
    """Return the verdict of a study with trials."""
    ended = state.study.ended.why if state.study.ended is not None else ""
    if ended.startswith(BASE_FAILS):
        if not any(estimate.rows for estimate in found.raced.values()):
            return f"nothing could be measured: {ended}"
        return f"{_of_the_arms(state, found, rows, noise)}; the study ended early: {ended}"
    return _of_the_arms(state, found, rows, noise)


def _of_the_arms(
    state: RaceState, found: StudyResults, rows: tuple[ArmRow, ...], noise: RunNoise | None
) -> str:
    others = [*_others(rows, found.winner or found.refuted), *_not_run(state, rows)]
    claim = found.claimed
    if found.winner is not None and claim is not None:
        head = f"{estimate_text(claim)} from {changes_text(found.winner)}"
        return "; ".join([f"{head} ({_how(state, found)})", *others])
    if found.refuted is not None:
        return "; ".join([_refuted(state, found, found.refuted, noise), *others])
    if (lost := _faster_until_it_failed(rows)) is not None:
        return "; ".join([_lost(lost), *_others(rows, lost.arm), *_not_run(state, rows)])
    return _without_a_winner(state, found, rows, noise)


def _faster_until_it_failed(rows: tuple[ArmRow, ...]) -> ArmRow | None:
    """Return the arm that was fastest before its runs failed, if any was faster than the base."""
    lost = [
        row
        for row in _settings(rows)
        if row.status in FAILURES - _ANOTHER_PROGRAM
        and row.raced is not None
        and row.raced.verdict is ArmVerdict.FASTER
    ]
    return max(lost, key=lambda row: row.raced.gain if row.raced else 0.0, default=None)


def _lost(row: ArmRow) -> str:
    gain = estimate_text(row.raced) if row.raced is not None else ""
    head = f"not decided: {changes_text(row.arm)} saved {gain} in the race"
    return f"{head}, but its later runs failed ({row.status})"


def _how(state: RaceState, found: StudyResults) -> str:
    if found.confirmed:
        local = runs_here(state.study.began.executor)
        return "measured, confirmed " + ("by fresh runs" if local else "in a fresh allocation")
    if not state.plan.confirm_rows:
        return "measured, not confirmed: no fresh runs were requested"
    why = "the budget had no room for fresh runs"
    if state.study.ended is None:
        why = "fresh runs are still to come"
    elif state.study.ended.why.startswith(BASE_FAILS):
        why = "the study ended before fresh runs"
    return f"faster in the race, not confirmed: {why}"


def _refuted(state: RaceState, found: StudyResults, arm: Arm, noise: RunNoise | None) -> str:
    before, after = found.raced.get(arm.name), found.fresh[arm.name]
    slower = after.verdict is ArmVerdict.SLOWER
    outcome = f"{'slower in' if slower else 'not confirmed by'} fresh runs, {estimate_text(after)}"
    if after.gain > state.plan.rule.indifferent:  # then its range is too wide to tell
        outcome += rows_advice(state, noise, after, looks=state.looks(arm.name) + 1)
    race = f"{gain_text(before.gain)} in the race, " if before is not None else ""
    return f"no gain is certain: {changes_text(arm)}: {race}{outcome}"


def _without_a_winner(
    state: RaceState, found: StudyResults, rows: tuple[ArmRow, ...], noise: RunNoise | None
) -> str:
    best = next(iter(state.finalists), None)
    ran = [row for row in _settings(rows) if row.status not in FAILURES]
    tried = [row for row in ran if row.status != NO_BUDGET]
    judged = [row for row in tried if row.status in _SAME | _OUT]
    if not tried or not (found.raced or judged):
        return _nothing(state.study.ended, rows)
    silent = list(_not_run(state, rows))
    if len(judged) < len(tried):
        return "; ".join([_open(state, found, rows, best, noise), *_others(rows, best), *silent])
    within = _within(rows)
    if all(row.status in _SAME for row in tried) and within is not None:
        return "; ".join([_no_effect(len(tried), len(ran), within), *_failed(rows), *silent])
    head = "no setting that ran is faster" if silent else "no setting is faster"
    return "; ".join([head, *_others(rows, None), *silent])


def _no_effect(same: int, ran: int, within: float) -> str:
    """Return the verdict of no effect, with the number of arms left undecided by the budget."""
    none = "it does not change" if same == 1 else "none changes"
    verdict = f"tried, {none} the step by more than {share_text(within)}"
    if same == ran:
        return f"no effect: {several(ran, 'setting')} {verdict}"
    return f"no effect: {same} of {ran} settings {verdict}; {ran - same} not decided: {NO_BUDGET}"


def _open(
    state: RaceState,
    found: StudyResults,
    rows: tuple[ArmRow, ...],
    best: Arm | None,
    noise: RunNoise | None,
) -> str:
    if best is None and (hidden := _cannot_be_seen(found)) is not None:
        return f"{NOISY}: no gain was found, but {hidden} can't be seen here"
    if best is None:
        if state.study.ended is None:
            return "nothing is decided yet"
        return f"inconclusive: no gain was found{_ruled_out(found, rows)}"
    estimate = found.raced[best.name]
    head = f"not decided: {changes_text(best)} may save {estimate_text(estimate)}"
    return head + rows_advice(state, noise, estimate)


def _ruled_out(found: StudyResults, rows: tuple[ArmRow, ...]) -> str:
    """Return which gains the undecided arms can't have, and for how many arms that is known."""
    undecided = [it.range for it in found.raced.values() if it.verdict is ArmVerdict.OPEN]
    widest = max((reach.high for reach in undecided if isinstance(reach, Range)), default=None)
    if widest is None:
        return ""
    ran = [row for row in _settings(rows) if row.status not in FAILURES]
    settings = ran + _never_ran(rows)
    reaches = [row.raced.range for row in settings if row.raced is not None]
    within = sum(isinstance(reach, Range) and reach.high <= widest for reach in reaches)
    within += sum(row.raced is None and row.status == "same program" for row in settings)
    whose = (
        "" if within == len(settings) else f" for {within} of {several(len(settings), 'setting')}"
    )
    return f", gains of more than {share_text(widest)} are ruled out{whose}"


def _cannot_be_seen(found: StudyResults) -> str | None:
    """Return the largest effects that the noise may hide, if any arm was too noisy."""
    noisy = [estimate.range for estimate in found.raced.values() if estimate.why.startswith(NOISY)]
    reaches = [reach for reach in noisy if isinstance(reach, Range)]
    return possible_effects_text(reaches) if reaches else None


def _nothing(ended: StudyEnded | None, rows: tuple[ArmRow, ...]) -> str:
    failed = list(_failed(rows))
    if failed and ended is not None:
        return "; ".join(["no setting could be measured", *failed])
    if ended is not None:
        return f"nothing was measured: {ended.why}"
    return "nothing is measured yet"


def _settings(rows: tuple[ArmRow, ...]) -> list[ArmRow]:
    """Return the arms that took part, without the base, combinations and ablations."""
    return [row for row in rows if _is_setting(row) and (row.trials or row.status in _OUT)]


def _is_setting(row: ArmRow) -> bool:
    derived = (ArmOrigin.COMBINED, ArmOrigin.ABLATION)
    return not row.arm.is_base and row.arm.origin not in derived


def _never_ran(rows: tuple[ArmRow, ...]) -> list[ArmRow]:
    return [it for it in rows if _is_setting(it) and not it.trials and it.status in _UNTRIED]


def _not_run(state: RaceState, rows: tuple[ArmRow, ...]) -> Iterator[str]:
    """Count the arms that a finished study never ran: its verdict says nothing of them."""
    left = len(_never_ran(rows))
    if left and state.study.ended is not None:
        yield f"{left} not run"


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
    left = sum(row.status in (str(ArmVerdict.OPEN), NO_BUDGET, NOT_TRIED) for row in others)
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


def predicted_best(state: RaceState) -> Arm | None:
    """Return the listed arm with the largest predicted gain, or a simpler one tied with it.

    The simpler one gives up no more of the gain than `indifferent`, as among measured arms.
    """
    predicted = [arm for arm in state.to_enter if arm.predicted is not None]
    if state.study.search is None:  # one that is not over has listed none yet
        room = [arm for arm in predicted if arm.predicted and arm.predicted.fits is not False]
        predicted = sorted(room, key=_predicted_gain, reverse=True)
    if not predicted or _predicted_gain(predicted[0]) <= 0:
        return None
    tied = [
        arm
        for arm in predicted
        if arm.predicted and arm.predicted.tied and _predicted_gain(arm) > 0
        if _predicted_gain(predicted[0]) - _predicted_gain(arm) <= state.plan.rule.indifferent
    ]
    return min((predicted[0], *tied), key=lambda arm: len(arm.changes) or math.inf)


def have_same_program(one: Arm, other: Arm) -> bool:
    """Return whether two arms are predicted to have the same program; an arm equals itself."""
    if one.predicted is None or other.predicted is None:
        return one.name == other.name
    return one.predicted.program == other.predicted.program


def _predicted_gain(arm: Arm) -> float:
    return arm.predicted.gain if arm.predicted is not None else -math.inf


def predicted_sentence(state: RaceState) -> str:
    """Return the verdict of a study without measurements."""
    study = state.study
    candidates = [candidate for candidate in study.candidates if not candidate.arm.is_base]
    if study.search is None and not candidates:
        return "nothing is known yet"
    if study.search is None:
        examined = several(len(candidates), "candidate")
        return f"the search is not over: {examined} examined so far"
    best = predicted_best(state)
    start = next((seen.arm.predicted for seen in study.candidates if seen.arm.is_base), None)
    large = start is not None and start.fits is False
    if best is None or best.predicted is None:
        predicted = sum(candidate.arm.predicted is not None for candidate in candidates)
        if not predicted:
            return "nothing is measured yet"
        least, found = share_text(state.plan.rule.indifferent), several(predicted, "candidate")
        found = f"{found} predicted, none more than {least} faster than the base"
        return found + (", which itself is predicted not to fit into memory" if large else "")
    figures = best.predicted
    text = gain_text(figures.gain, figures.gain_range).replace("%", "% predicted", 1)
    tied = [seen.arm for seen in candidates if seen.arm.predicted and seen.arm.predicted.tied]
    others = sum(not have_same_program(arm, best) for arm in tied)
    small = start is not None and not large and figures.gain <= state.plan.rule.indifferent
    names = [*(["the base"] if small else []), *([several(others, "other")] if others else [])]
    ties = f"; tied with {' and '.join(names)}" if names else ""
    return f"{text} from {changes_text(best)}{ties}; confirm it by a measurement"


def rows_advice(
    state: RaceState, noise: RunNoise | None, estimate: GainEstimate, looks: int = 1
) -> str:
    """Say how many rows would decide and, if the budget has no room for them, which budget has.

    A second look takes at least twice the rows of the first, which are among them.
    """
    needed = _rows_needed(state.plan, noise, estimate.gain, looks)
    if needed is None:
        return ""
    had = estimate.rows if looks > 1 else 0
    needed = max(needed, 2 * had)
    fresh = "fresh " if state.plan.confirm_rows else ""
    advice = f"; about {needed} {fresh}rows would be needed to decide"
    ended = state.study.ended
    if ended is None or not (had or ended.why == SPENT):
        return advice
    most = had or max(state.plan.confirm_rows, state.plan.rule.cap)
    option = "--confirm-rows" if state.plan.confirm_rows else "--cap"
    given = [f"{option} {needed}"] if needed > most else []
    if ended.why == SPENT or state.remaining.left < 2 * (needed - had):
        given.append(f"--budget {_budget(state, max(needed, most), had)}")
    return f"{advice}: {' '.join(given)} continues from here"


def _rows_needed(plan: StudyPlan, noise: RunNoise | None, gain: float, looks: int) -> int | None:
    """Return the fresh rows needed, for all looks; if none were requested, the rows of the race."""
    if noise is None:
        return None
    once = replace(plan.rule, looks=(), arms=looks)  # looks share the rate as arms do
    needed = rows_needed(noise, gain, once if plan.confirm_rows else plan.rule)
    return needed if isinstance(needed, int) else None


def _budget(state: RaceState, rows: int, had: int) -> str:
    """Return a budget for the race of all undecided arms to its cap, and fresh rows after it."""
    going = state.undecided
    cap = state.plan.rule.cap if state.plan.confirm_rows else rows
    to_go = max((cap - state.rows.count(arm.name, RACE) for arm in going), default=0)
    trials = len(state.study.trials) + max(to_go, 0) * (1 + len(going))
    trials += 2 * (rows - had) if state.plan.confirm_rows else 0
    took = state.trial_s
    parts = [f"{trials} trials"] if state.plan.budget.trials is not None else []
    if state.plan.budget.seconds is not None and took is not None:
        minutes = math.ceil(trials * took / 60)
        parts.append(f"{minutes}m")
    return f"'{', '.join(parts)}'"
