"""Progress of a running study: permanent lines for events, and its current status.

study before, study after ──► lines          what happened in between
study, its conclusion     ──► StudyStatus    spent, left, best so far, what runs
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from counterpoint.core import Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.report import units
from counterpoint.report.document import printable
from counterpoint.report.places import without_middle
from counterpoint.report.tune.figures import (
    budget_text,
    clock,
    duration,
    end_text,
    gain_range_text,
    gain_text,
    plain,
)
from counterpoint.tune.conclusion import BY_USER, Conclusion, Spent
from counterpoint.tune.request import TuneRequest
from counterpoint.tune.study import Study, Trial
from counterpoint.tune.trial import TrialFailure

_LONGEST: Final = 100
_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """The current status of a study, a line each for what was spent, the best arm and the trial."""

    spent: str
    best: str
    running: str

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for line in (self.spent, self.best, self.running) if line)


def event_lines(before: Study | None, after: Study) -> list[str]:
    """Return the lines for what happened between two states, ordered by kind."""
    lines = [
        *_searched(before, after),
        *_entered(before, after),
        *_tried(before, after),
        *_dropped(before, after),
        *_allocated(before, after),
        *_ended(before, after),
    ]
    return [plain(line) for line in lines]


def _searched(before: Study | None, after: Study) -> Iterator[str]:
    new = after.space is not None and (before is None or before.space is None)
    if after.space is not None and new and after.space.dimensions:
        choices = sum(count for _, count in after.space.dimensions)
        yield (
            f"space: {counted_noun(len(after.space.dimensions), 'dimension')} with"
            f" {counted_noun(choices, 'choice')}; {len(after.space.left_out)} left out"
        )
    if after.space is not None and new:
        yield from (f"note: {note}" for note in after.space.notes)
    search = after.search
    if search is not None and (before is None or before.search is None):
        if any(candidate.arm.predicted is not None for candidate in after.candidates):
            yield f"searched for {duration(search.seconds)}: {search.why}"
        yield f"shortlist: {_names(search.shortlist) or 'none'}"


def _allocated(before: Study | None, after: Study) -> Iterator[str]:
    for allocation in after.allocations[len(before.allocations) if before else 0 :]:
        nodes = f" on {_names(allocation.nodes)}" if allocation.nodes else ""
        yield f"allocation {allocation.number}: {allocation.executor}{nodes}"


def _entered(before: Study | None, after: Study) -> Iterator[str]:
    names = [arm.name for arm in after.arms[len(before.arms) if before else 0 :] if not arm.is_base]
    if names:
        yield f"entered: {_names(names)}"


def _tried(before: Study | None, after: Study) -> Iterator[str]:
    known = (
        {earlier.started.number for earlier in before.trials if earlier.report}
        if before
        else set[int]()
    )
    for trial in after.trials:
        if trial.report is not None and trial.started.number not in known:
            yield f"trial {trial.started.number}, {_which(trial)}: {_result(trial)}"


def _result(trial: Trial) -> str:
    report = trial.report
    if report is None:
        return units.UNKNOWN
    if report.failure is not None:
        return f"{report.failure}{f': {report.detail}' if report.detail else ''}"
    if report.steady is None:
        return "done"
    return f"{units.milliseconds(report.steady.median_s * 1e3)} a step"


def _which(trial: Trial) -> str:
    row = f", row {trial.started.row + 1}" if trial.started.row >= 0 else ""
    return f"{without_middle(trial.started.arm, _LONGEST)} ({trial.started.purpose}{row})"


def _dropped(before: Study | None, after: Study) -> Iterator[str]:
    for name, drop in after.dropped.items():
        if before is None or name not in before.dropped:
            why = f": {drop.why}" if drop.why else ""
            yield f"dropped {without_middle(name, _LONGEST)}, {drop.kind}{why}"


def _ended(before: Study | None, after: Study) -> Iterator[str]:
    if after.paused is not None and (before is None or before.paused != after.paused):
        why = after.paused.why
        yield "interrupted" if why in BY_USER else f"paused: {why}"
    if after.ended is not None and (before is None or before.ended is None):
        same = after.search is not None and after.search.why == after.ended.why
        yield "done: nothing to run" if same else f"done: {end_text(after.ended.why)}"


def _names(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(without_middle(name, _LONGEST) for name in names[:_NAMES])
    more = len(names) - _NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def study_status(study: Study, conclusion: Conclusion, now: datetime) -> StudyStatus:
    """Return the status of a study at a time."""
    trial = next(iter(study.running), None)
    running = ""
    if trial is not None:
        since = (now - _time(trial.started.at)).total_seconds()
        running = f"running trial {trial.started.number}: {_which(trial)}, {clock(max(since, 0.0))}"
    ended = len(study.trials) - len(study.running)
    best = _best(conclusion)
    return StudyStatus(
        printable(_spent(ended, conclusion.spent) if ended else ""),
        printable(f"best so far: {best}" if ended and best else ""),
        printable(running),
    )


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _spent(ended: int, spent: Spent | None) -> str:
    """Describe what the completed trials took; what is left excludes the running trial."""
    if spent is None:
        return ""
    left: list[str] = []
    if spent.trials_left is not None:
        left.append(counted_noun(spent.trials_left, "trial"))
    if spent.seconds_left is not None:
        left.append(duration(spent.seconds_left))
    elif spent.trials_left and ended:
        left.append(f"up to {duration(spent.seconds / ended * spent.trials_left)}")
    limit = f"; left: {', '.join(left)}" if left else ""
    return f"spent: {counted_noun(ended, 'trial')}, {duration(spent.seconds)}{limit}"


def _best(conclusion: Conclusion) -> str:
    """Return the best arm so far and its gain, without dropped arms; empty before any result."""
    estimates = [
        (estimate.gain, row.arm.name, estimate)
        for row in conclusion.rows
        if (estimate := row.confirmed or row.raced) is not None
        and not row.arm.is_base
        and estimate.gain == estimate.gain  # NaN: it never ran in a row with the base
    ]
    if not estimates:
        return ""
    candidates = [
        candidate for candidate in estimates if candidate[2].verdict not in ("slower", "no effect")
    ]
    best = max(candidates, default=None, key=lambda candidate: candidate[0])
    if best is None or best[0] <= 0:
        return "the base"
    gain, name, estimate = best
    reach = "" if isinstance(estimate.range, Unknown) else f" {gain_range_text(estimate.range)}"
    return f"{without_middle(name, _LONGEST)} {gain_text(gain)}{reach}"


def beginning(asked: TuneRequest, study: Study) -> Iterator[str]:
    """Yield the study's path and the plan; `study` is what was found there, or just begun."""
    place = shlex.quote(str(asked.directory))
    if study.ended is not None:
        yield f"{place} is done ({end_text(study.ended.why)}): nothing to run"
        return
    is_new = study == Study(began=study.began)
    yield f"study {place}" if is_new else f"continuing {place}: {_done(asked, study)}"
    if asked.predicts:
        afterwards = (
            "; then the best ones are run in turns" if asked.measure else "; nothing is run"
        )
        yield (
            f"at most {counted_noun(asked.plan.candidates, 'candidate')} are compiled for"
            f" {asked.target} and simulated, then the best without each of its changes{afterwards}"
        )
    else:
        yield "no --target: the base and your arms are run in turns, without a prediction"
    if asked.measure and (budget := budget_text(asked.plan.budget)):
        yield f"budget: {budget}"


def _done(asked: TuneRequest, study: Study) -> str:
    """Describe how far the study has come."""
    if asked.measure and (study.search is not None or study.trials):
        cut_off = sum(
            trial.failure is TrialFailure.INTERRUPTED or trial.report is None
            for trial in study.trials
        )
        more = f", {cut_off} interrupted" if cut_off else ""
        return f"{counted_noun(len(study.trials) - cut_off, 'trial')} done{more}"
    return f"{counted_noun(len(study.candidates), 'candidate')} predicted"
