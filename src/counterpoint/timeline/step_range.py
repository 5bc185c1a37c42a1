"""A range of steps, and the part of a Timeline in which they run.

`steps` is `"A:B"`, `"A:"`, `":B"` or a `range`: numbers as reports show them, without the end, as
in Python. `last` is a number of steps. Both count whole steps only, since others have no length.

What is kept is what an explanation of these steps looks at, so its figures are those that the whole
Timeline gives for them: their spans, the events of hosts and the transfers during them. Runs are
few and all remain, as do the calls that launch them: the two are matched in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import UsageError
from counterpoint.core.columns import Intervals, as_ranges, union
from counterpoint.timeline.model import ChosenSteps, Timeline

__all__ = ["CALL", "StepRange", "narrow", "step_range"]

CALL: Final = re.compile(r"^(?:TSL:)?PjitFunction\((.*)\)$")
"""The event of a host that calls a jitted function, with its name."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_RANGE: Final = re.compile(r"([0-9]{1,9})?\s*:\s*([0-9]{1,9})?")
_NEGATIVE: Final = re.compile(r"(?:-([0-9]{1,9}))?\s*[0-9]*\s*:(?(1)|\s*-)")
_LEFT_OUT: Final = re.compile(r"step (-?\d+) is left out")


@dataclass(frozen=True, slots=True)
class StepRange:
    """Numbers from `first` up to but without `end`, None being open; or the `last` so many."""

    first: int | None = None
    end: int | None = None
    last: int | None = None

    def of(self, numbers: list[int]) -> list[int]:
        """Return those of these numbers, which are in order."""
        if self.last is not None:
            return numbers[-self.last :]
        low = 0 if self.first is None else self.first
        return [it for it in numbers if it >= low and (self.end is None or it < self.end)]

    def __str__(self) -> str:
        if self.last is not None:
            return f"--last {self.last}"
        first, end = ("" if it is None else it for it in (self.first, self.end))
        return f"--steps {first}:{end}"


def step_range(
    steps: str | range | None, last: int | None, step: int | None = None
) -> StepRange | None:
    """Check what a caller gives to choose steps, of which there may be one; None if it is none."""
    given = {"step": step, "steps": steps, "last": last}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        shown = [f"--{name} {_text(given[name])}" for name in names]
        raise UsageError(
            f"{' and '.join(shown)} exclude each other: each chooses the steps",
            next=f"omit {' and '.join(f'--{name}' for name in names[1:])}",
        )
    if last is not None:
        if last < 1:
            raise UsageError(f"--last must be at least 1, not {last}", next="use --last 10")
        return StepRange(last=last)
    if steps is None:
        return None
    return _parsed(steps)


def _text(value: object) -> object:
    return f"{value.start}:{value.stop}" if isinstance(value, range) else value


def _parsed(steps: str | range) -> StepRange:
    text = str(_text(steps)).strip()
    if isinstance(steps, range) and steps.step != 1:
        raise UsageError(f"--steps takes successive steps, not {steps}", next=f"use --steps {text}")
    if match := _NEGATIVE.match(text):
        raise UsageError(
            f"--steps takes numbers of steps as reports show them, not {text!r}",
            why="they do not count from the end, as --last does",
            next=f"use --last {match[1] or 10}",
        )
    match = _RANGE.fullmatch(text)
    if match is None or not any(match.groups()):
        instead = f"--steps {text}:{int(text) + 1}" if _NUMBER.fullmatch(text) else "--last 10"
        raise UsageError(
            "--steps takes A:B, A: or :B (from step A up to but without step B), not"
            f" {str(_text(steps))!r}",
            next=f"use {instead}",
        )
    first, end = (int(part) if part else None for part in match.groups())
    if end is not None and end <= (first or 0):
        other = "--last 10" if not end else f"--steps {min(end, first or 0)}:{(first or 0) + 1}"
        raise UsageError(
            f"--steps {text} is empty: step {end} is the first that does not count",
            next=f"use {other}",
        )
    return StepRange(first, end)


def narrow(
    timeline: Timeline, wanted: StepRange, recorded: Sequence[int] | None = None
) -> Timeline:
    """Return the part of a Timeline in which the wanted steps run, with a note on them.

    `recorded` are the whole steps of the profile if the Timeline has only the later ones, which
    are past startup. Raises UsageError if none of the wanted was recorded whole.
    """
    whole = timeline.steps.filter("whole")["step"].unique().sort().to_list()
    numbers = whole if recorded is None else [*recorded]
    chosen = wanted.of(numbers)
    if not chosen:
        raise _nothing(timeline, wanted, numbers)
    steps = timeline.steps.filter(pl.col("step").is_in(chosen))
    none_steady = recorded is None and not steps["steady"].any()
    if none_steady or recorded is not None:
        steps = steps.with_columns(steady=pl.lit(value=True))
    keeps = _Kept(timeline, steps)
    about = f"{wanted} of {len(numbers)} whole steps ({as_ranges(numbers)})"
    noun = "step" if len(chosen) == 1 else "steps"
    note = f"{noun} {as_ranges(chosen)} alone: {about}"
    if none_steady:
        note += "; no other is chosen, so startup and warm-up count"
    return replace(
        timeline,
        spans=keeps.spans(),
        runs=timeline.runs.with_columns(pl.when(pl.col("step").is_in(chosen)).then("step")),
        steps=steps,
        host_events=keeps.host_events(),
        transfers=keeps.transfers(),
        memory=keeps.memory(),
        notes=(note, *_notes_on(timeline, [] if none_steady or recorded is not None else chosen)),
        chosen=ChosenSteps(
            first=chosen[0],
            last=chosen[-1],
            count=len(chosen),
            recorded=len(numbers),
            before=sum(number < chosen[0] for number in numbers),
        ),
    )


def _nothing(timeline: Timeline, wanted: StepRange, whole: list[int]) -> UsageError:
    known = timeline.steps["step"].unique().sort().to_list()
    cut = wanted.of(known)
    name = "last" if wanted.last is not None else "steps"
    if not whole:
        return UsageError(
            f"{wanted}: no step was recorded whole, so there is no range of them",
            why=f"steps in this profile: {as_ranges(known)}, without an end",
            next=f"omit --{name}",
        )
    problem = f"step {as_ranges(cut)} was not recorded whole" if cut else "there is no such step"
    return UsageError(
        f"{wanted}: {problem}",
        why=f"whole steps in this profile: {as_ranges(whole)}",
        next=f"use --steps {whole[max(0, len(whole) - 10)]}:{whole[-1] + 1}",
    )


def _notes_on(timeline: Timeline, chosen: list[int]) -> list[str]:
    """Return the notes without those that leave out a step which is not among the chosen."""
    return [
        note
        for note in timeline.notes
        if not (about := _LEFT_OUT.match(note)) or int(about[1]) in chosen
    ]


class _Kept:
    """The rows of tables that are during some steps."""

    def __init__(self, timeline: Timeline, steps: pl.DataFrame) -> None:
        self._timeline = timeline
        runs = timeline.runs.join(steps, on=["step", "device"], how="semi")
        times = ("device", "start_ps", "end_ps")
        self._extents = pl.concat([part.select(times) for part in (steps, runs)])

    def spans(self) -> pl.DataFrame:
        """Return spans that overlap a step or its runs, on their device."""
        spans = self._timeline.spans
        device = spans["device"].to_numpy()
        parts: list[NDArray[np.int64]] = []
        for (number,), own in self._extents.group_by("device"):
            first, end = np.searchsorted(device, [int(str(number)), int(str(number)) + 1])
            rows = spans[int(first) : int(end)]
            parts.append(first + np.flatnonzero(_overlaps(rows, _union_of(own))))
        rows = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
        return spans[pl.Series(rows, dtype=pl.UInt32)]

    def host_events(self) -> pl.DataFrame:
        """Return events during the steps, and all calls."""
        events, names = self._timeline.host_events, self._timeline.host_names
        calls = [code for code, name in enumerate(names) if CALL.match(name)]
        during = pl.Series(_overlaps(events, _union_of(self._extents)))
        return events.filter(during | events["name"].is_in(calls))

    def transfers(self) -> pl.DataFrame:
        """Return transfers during the steps."""
        transfers = self._timeline.transfers
        return transfers.filter(pl.Series(_overlaps(transfers, _union_of(self._extents))))

    def memory(self) -> pl.DataFrame:
        """Return changes of memory during the steps."""
        memory = self._timeline.memory
        moments = memory.with_columns(dur_ps=pl.lit(1, pl.Int64))
        return memory.filter(pl.Series(_overlaps(moments, _union_of(self._extents))))


def _union_of(extents: pl.DataFrame) -> Intervals:
    return union(extents["start_ps"].to_numpy(), extents["end_ps"].to_numpy())


def _overlaps(rows: pl.DataFrame, extents: Intervals) -> NDArray[np.bool_]:
    """Return which rows overlap an extent: begin before the end of the next that ends after."""
    if not len(extents):
        return np.zeros(len(rows), bool)
    start = rows["start_ps"].to_numpy()
    end = start + rows["dur_ps"].to_numpy()
    following = np.searchsorted(extents.end, start, side="right")
    return end > np.append(extents.start, np.iinfo(np.int64).max)[following]
