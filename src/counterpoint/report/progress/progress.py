"""What happens in a study while it goes on: lines that stay, and how it stands now.

study before, study after ──► lines       what happened in between
study, its conclusion     ──► Standing    spent, left, best so far, what runs
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from counterpoint.core import Unknown
from counterpoint.report import units
from counterpoint.report.document import printable
from counterpoint.report.explain.findings import without_middle
from counterpoint.report.words import (
    clock,
    duration,
    end_text,
    gain_text,
    plain,
    reach_text,
    several,
)
from counterpoint.tune.conclusion import BY_USER, Conclusion, Spent
from counterpoint.tune.study import Study, Trial

_LONGEST: Final = 60
_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class Standing:
    """How a study stands: one line each."""

    spent: str
    best: str
    running: str

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(it for it in (self.spent, self.best, self.running) if it)


def happened(before: Study | None, after: Study) -> list[str]:
    """What a reader wants to have read, in the order of its kinds."""
    lines = [
        *_searched(before, after),
        *_entered(before, after),
        *_tried(before, after),
        *_dropped(before, after),
        *_allocated(before, after),
        *_ended(before, after),
    ]
    return [plain(it) for it in lines]


def _searched(before: Study | None, after: Study) -> Iterator[str]:
    new = after.space is not None and (before is None or before.space is None)
    if after.space is not None and new and after.space.dimensions:
        choices = sum(count for _, count in after.space.dimensions)
        yield (
            f"space: {several(len(after.space.dimensions), 'dimension')} with"
            f" {several(choices, 'choice')}; {len(after.space.left_out)} left out"
        )
    if after.space is not None and new:
        yield from (f"note: {it}" for it in after.space.notes)
    search = after.search
    if search is not None and (before is None or before.search is None):
        if any(it.arm.predicted is not None for it in after.candidates):
            yield f"searched for {duration(search.seconds)}: {search.why}"
        yield f"worth real time: {_names(search.shortlist) or 'none'}"


def _allocated(before: Study | None, after: Study) -> Iterator[str]:
    for it in after.allocations[len(before.allocations) if before else 0 :]:
        nodes = f" on {_names(it.nodes)}" if it.nodes else ""
        yield f"allocation {it.number}: {it.executor}{nodes}"


def _entered(before: Study | None, after: Study) -> Iterator[str]:
    names = [it.name for it in after.arms[len(before.arms) if before else 0 :] if not it.is_base]
    if names:
        yield f"takes part: {_names(names)}"


def _tried(before: Study | None, after: Study) -> Iterator[str]:
    known = {it.started.number for it in before.trials if it.report} if before else set[int]()
    for trial in after.trials:
        if trial.report is not None and trial.started.number not in known:
            yield f"trial {trial.started.number}, {_which(trial)}: {_came_to(trial)}"


def _came_to(trial: Trial) -> str:
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
    for name, it in after.dropped.items():
        if before is None or name not in before.dropped:
            why = f": {it.why}" if it.why else ""
            yield f"dropped {without_middle(name, _LONGEST)}, {it.kind}{why}"


def _ended(before: Study | None, after: Study) -> Iterator[str]:
    if after.paused is not None and (before is None or before.paused != after.paused):
        why = after.paused.why
        yield "interrupted" if why in BY_USER else f"paused: {why}"
    if after.ended is not None and (before is None or before.ended is None):
        same = after.search is not None and after.search.why == after.ended.why
        yield "done: nothing is run" if same else f"done: {end_text(after.ended.why)}"


def _names(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(without_middle(it, _LONGEST) for it in names[:_NAMES])
    more = len(names) - _NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def standing(study: Study, conclusion: Conclusion, now: datetime) -> Standing:
    """How it stands at a time."""
    trial = next(iter(study.running), None)
    running = ""
    if trial is not None:
        since = (now - _time(trial.started.at)).total_seconds()
        running = f"running trial {trial.started.number}: {_which(trial)}, {clock(max(since, 0.0))}"
    ended = len(study.trials) - len(study.running)
    best = _best(conclusion)
    return Standing(
        printable(_spent(ended, conclusion.spent) if ended else ""),
        printable(f"best so far: {best}" if ended and best else ""),
        printable(running),
    )


def _time(text: str) -> datetime:
    told = datetime.fromisoformat(text)
    return told if told.tzinfo else told.replace(tzinfo=UTC)


def _spent(ended: int, spent: Spent | None) -> str:
    """By the trials that have ended; what is left is so behind the one that runs."""
    if spent is None:
        return ""
    left: list[str] = []
    if spent.trials_left is not None:
        left.append(several(spent.trials_left, "trial"))
    if spent.seconds_left is not None:
        left.append(duration(spent.seconds_left))
    elif spent.trials_left and ended:
        left.append(f"up to {duration(spent.seconds / ended * spent.trials_left)}")
    limit = f"; left: {', '.join(left)}" if left else ""
    return f"spent: {several(ended, 'trial')}, {duration(spent.seconds)}{limit}"


def _best(conclusion: Conclusion) -> str:
    """The arm that looks best, and by how much; what was dropped is out. Empty: no result yet."""
    found = [
        (said.gain, row.arm.name, said)
        for row in conclusion.rows
        if (said := row.confirmed or row.raced) is not None
        and not row.arm.is_base
        and said.gain == said.gain  # of one that never met the base nothing is known
    ]
    if not found:
        return ""
    told = [it for it in found if it[2].verdict not in ("slower", "no effect")]
    best = max(told, default=None, key=lambda it: it[0])
    if best is None or best[0] <= 0:
        return "the base"
    gain, name, said = best
    reach = "" if isinstance(said.range, Unknown) else f" {reach_text(said.range)}"
    return f"{without_middle(name, _LONGEST)} {gain_text(gain)}{reach}"
