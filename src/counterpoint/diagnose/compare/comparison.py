"""`compare`: what made one of two runs slower than the other, as records for a notebook.

Every difference is B minus A. Rows of `ops` add up to the difference of the busy time, and together
with `idle` to that of the step as profiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

import polars as pl

from counterpoint.core import Basis, InputError, Unknown, UsageError, as_html, shorten_names
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.attribution import PHASES
from counterpoint.diagnose.compare.collective_changes import CollectiveChange, networks_of
from counterpoint.diagnose.compare.compared_op import items_of
from counterpoint.diagnose.compare.experiment import (
    DifferenceKind,
    SideDifference,
    differences,
    same_modules,
    step_hlo,
)
from counterpoint.diagnose.compare.faults import with_faults
from counterpoint.diagnose.compare.losses import LossDifference, loss_difference
from counterpoint.diagnose.compare.matching import OpMatch, match_items
from counterpoint.diagnose.compare.op_changes import OpChange, rows_of
from counterpoint.diagnose.compare.schedule_changes import ScheduleChanges, schedule_changes
from counterpoint.diagnose.compare.side import (
    Input,
    Side,
    cases_of,
    side_of,
    with_alike_programs,
)
from counterpoint.diagnose.compare.step_time import RunSteps, StepChange, StepVerdict, step_change
from counterpoint.diagnose.selection import WindowKind
from counterpoint.diagnose.step_data import StepData
from counterpoint.runs.scores import NEGLIGIBLE_CHANGE, RUN_TO_RUN_NOISE
from counterpoint.timeline.reading import Progress

_PARTS = (
    ("compute", "compute_ms"),
    ("exposed collective", "collective_exposed_ms"),
    ("exposed copy", "copy_exposed_ms"),
    ("idle", "idle_ms"),
)


@dataclass(frozen=True, slots=True)
class PartChange:
    """A figure of both sides, in ms of a median step."""

    what: str
    a_ms: float
    b_ms: float

    @property
    def difference_ms(self) -> float:
        return self.b_ms - self.a_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDifference:
    """The time of a median step on both sides, or of what `window` names, and where it goes."""

    window: WindowKind
    step: PartChange
    busy: PartChange
    idle: PartChange
    parts: tuple[PartChange, ...]
    phases: tuple[PartChange, ...] | Unknown
    ops: tuple[OpChange, ...]
    collectives: tuple[CollectiveChange, ...]
    schedule: ScheduleChanges

    @property
    def calls(self) -> tuple[float, float]:
        """How often the ops that run on both sides run on each.

        Without steps, a side that has fewer did less in its profile, and is not faster for it.
        """
        both = [row.calls for row in self.ops if row.match.a and row.match.b]
        return sum(a for a, _ in both), sum(b for _, b in both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A against B. `a` and `b` are the representative runs; `runs` counts the runs of each side.

    `same_modules` is the number of modules that JAX passed to XLA, if both sides have the same.
    `timed` counts those whose step time counts. `faults` are the runs of each side that failed,
    computed NaN or made fewer steps: where a side has other runs, theirs alone are compared.
    """

    a: Side
    b: Side
    runs: tuple[int, int]
    timed: tuple[int, int]
    faults: tuple[tuple[Side, ...], tuple[Side, ...]]
    losses: LossDifference | Unknown
    step: StepChange | Unknown
    differs: tuple[SideDifference, ...]
    same_modules: int | None
    work: StepDifference | Unknown
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        step = self.step
        result = (
            f"step times are not compared: {step.reason}"
            if isinstance(step, Unknown)
            else f"step {step.a_s * 1e3:,.2f} and {step.b_s * 1e3:,.2f} ms ({step.change:+.1%})"
        )
        failed = "".join(
            f"; {len(faults)} of {counted_noun(runs, 'run')} of {name} not counted"
            for name, faults, runs in zip("AB", self.faults, self.runs, strict=True)
            if faults
        )
        return f"<Comparison of {shorten_names((self.a.name, self.b.name))}: {result}{failed}>"

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def same_experiment(self) -> bool:
        """True if no difference is known that makes it another experiment."""
        return not self.other_experiment

    @property
    def other_experiment(self) -> tuple[SideDifference, ...]:
        """The differences that make it another experiment."""
        return tuple(
            difference
            for difference in self.differs
            if difference.about is DifferenceKind.EXPERIMENT
        )

    @property
    def contradicted(self) -> str | None:
        """An explanation if step time and tables disagree about which side is slower."""
        if isinstance(self.step, Unknown) or isinstance(self.work, Unknown):
            return None
        differ = self.work.step.difference_ms
        share = differ / max(self.work.step.a_ms, self.work.step.b_ms) if differ else 0.0
        least = min(abs(share), abs(self.step.change))
        if share * self.step.change >= 0 or least <= NEGLIGIBLE_CHANGE:
            return None
        return (
            f"the profiled steps in the tables below are {abs(share):.1%}"
            f" {'longer' if share > 0 else 'shorter'} in B, unlike the timed steps; one of the two"
            " is noise, so the tables explain nothing"
        )

    def slower_by_more_than(self, limit: float) -> bool:
        """Return whether B is slower by more than `limit`, as a StepChange says it."""
        if isinstance(self.step, Unknown):
            raise InputError(f"the step times cannot be compared: {self.step.reason}")
        more = "compare several runs of each: counterpoint compare A1 A2 --with B1 B2"
        if self.timed[0] and len(self.faults[0]) == self.runs[0]:
            more = "make other runs of A, and compare with those"
        if self.a.basis is not self.b.basis:
            more = "compare two measurements or two predictions"
        return self.step.slower_by_more_than(limit, more)

    def failures(self, limit: float) -> tuple[str, ...]:
        """Return why a gate fails: runs of B that failed, or a step slower by more than `limit`.

        Raises an InputError if that can't be decided.
        """
        if faults := self.faults[1]:
            return tuple(f"{side.name} does not count: {side.fault}" for side in faults)
        if self.slower_by_more_than(limit):
            return (f"B is slower than A by more than {limit:.3%} of the step",)
        return ()


def compare(
    a: Input | Sequence[Input],
    b: Input | Sequence[Input],
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare A and B: Runs, profiles, stored Timelines, or several of each.

    Several on a side are repeated runs: their medians give the step time and its noise, and the run
    with the median step represents the side in the tables.
    """
    every = with_faults(_sides(a, progress), _sides(b, progress))
    faults = [tuple(side for side in sides if side.fault is not None) for sides in every]
    a_sides, b_sides = (
        [side for side in sides if side.fault is None] or list(sides) for sides in every
    )
    unlike = None
    if len({side.timed_in_profile for side in (*a_sides, *b_sides)} - {None}) > 1:
        a_sides, b_sides, unlike = _timed_alike(a_sides, b_sides)
    first, second = _middle(a_sides), _middle(b_sides)
    alike = with_alike_programs(first, second)
    timed = [[side.times for side in sides if side.times] for sides in (a_sides, b_sides)]
    step = _undecided(step_change(*timed), every)
    untimed = [side.untimed for sides in every for side in sides]
    notes = (*_mixed(first, second), *filter(None, [unlike, *untimed]), *_in_blocks(step))
    notes = (*notes, *_hidden_by_medians(*timed), *first.missing, *second.missing)
    differ = RUN_TO_RUN_NOISE if isinstance(step, Unknown) else step.runs_differ
    return Comparison(
        a=first,
        b=second,
        runs=(len(every[0]), len(every[1])),
        timed=(len(timed[0]), len(timed[1])),
        faults=(faults[0], faults[1]),
        losses=loss_difference(*([side.losses for side in it] for it in (a_sides, b_sides))),
        step=step,
        differs=differences(*alike),
        same_modules=same_modules(first.run, second.run),
        work=_work(*alike, differ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _undecided(
    step: StepChange | Unknown, every: tuple[list[Side], list[Side]]
) -> StepChange | Unknown:
    """Return the change without a verdict if no run of a side counts."""
    for name, sides in zip("AB", every, strict=True):
        if isinstance(step, StepChange) and all(side.fault is not None for side in sides):
            why = Unknown(f"no run of {name} counts: {sides[0].fault}")
            return replace(
                step,
                range=why,
                of_steps=why,
                assumed=False,
                surely_above=None,
                verdict=StepVerdict.OPEN,
            )
    return step


def _in_blocks(step: StepChange | Unknown) -> Iterator[str]:
    if not isinstance(step, Unknown) and step.order is not None and step.order.in_blocks:
        first, second = ("A", "B") if step.order.later > 0 else ("B", "A")
        yield (
            f"all runs of {first} were made before those of {second}: whatever else changed on the"
            " machine meanwhile looks like a change of the program. Make them in the order ABBA:"
            " counterpoint run --repeat N --against RUN"
        )


_UNEVEN: Final = 0.05
"""Share of the step by which longer steps of one side must move its mean to be worth a note."""


def _hidden_by_medians(a: Sequence[RunSteps], b: Sequence[RunSteps]) -> Iterator[str]:
    """Yield what medians hide: steps of one side are longer now and then, as by checkpoints."""
    if not (a and b) or {times.basis for times in (*a, *b)} != {Basis.MEASURED}:
        return
    means = [fmean(fmean(times.each_s) for times in side) for side in (a, b)]
    medians = [fmean(times.median_s for times in side) for side in (a, b)]
    excess = [mean / usual for mean, usual in zip(means, medians, strict=True)]
    if abs(excess[1] - excess[0]) <= _UNEVEN:
        return
    name = "AB"[excess[1] > excess[0]]
    shown, usual = ([f"{seconds * 1e3:,.2f} ms" for seconds in it] for it in (means, medians))
    yield (
        f"some steps of {name} are much longer, as by checkpoints, which medians do not show: the"
        f" mean step is {shown[0]} in A and {shown[1]} in B, the median {usual[0]} and {usual[1]}."
        " The verdict and the gate are of medians"
    )


def _timed_alike(a: list[Side], b: list[Side]) -> tuple[list[Side], list[Side], str]:
    """Return the sides with the times of their profiles, if each has one, and what was done.

    A profiler makes steps longer, so the steps under it are compared with steps under it.
    """
    timed = [side for side in (*a, *b) if side.timed_in_profile is not None]
    outside = some([side.name for side in timed if not side.timed_in_profile], 3)
    if any(side.profiled is None for side in timed):
        return (
            a,
            b,
            (
                f"the steps of {outside} were timed outside the profile, the others in it, with the"
                " profiler's overhead: the difference includes that"
            ),
        )
    a, b = ([replace(side, times=side.profiled) for side in sides] for sides in (a, b))
    return (
        a,
        b,
        (
            f"the steps of {outside} were also timed outside the profile, those of the others were"
            " not: the profiled steps of all are compared"
        ),
    )


def _mixed(a: Side, b: Side) -> Iterator[str]:
    if a.timeline is not None and b.timeline is not None and a.basis is not b.basis:
        yield f"A is {a.basis}, B is {b.basis}: differences include the error of the prediction"


def _sides(given: Input | Sequence[Input], progress: Progress | None) -> list[Side]:
    several = given if isinstance(given, list | tuple) else [given]
    if not several:
        raise InputError("a side of the comparison is empty", next="compare(a, b)")
    for index, source in enumerate(several):
        if isinstance(source, str) and source in several[:index]:
            raise UsageError(
                f"{source} is named twice on one side",
                why="copies of one run would hide the variation between runs",
                next="counterpoint compare A1 A2 --with B1 B2",
            )
    return [side_of(source, progress) for source in several]  # pyright: ignore[reportArgumentType]


def _middle(sides: list[Side]) -> Side:
    """Return the run with the step nearest to its side's median, among those with a profile."""
    timed = [side for side in sides if side.times is not None]
    candidates = [side for side in timed if side.timeline is not None] or timed or sides
    if not timed or candidates is sides:
        return next((side for side in sides if side.timeline is not None), sides[0])
    middle = median(side.times.median_s for side in timed if side.times)
    return min(
        candidates, key=lambda side: abs(side.times.median_s - middle) if side.times else math.inf
    )


def _work(a: Side, b: Side, differ: float) -> StepDifference | Unknown:
    cases = cases_of(a, b)
    if isinstance(cases, Unknown):
        return cases
    items = [items_of(data) for data in cases]
    matches = match_items(*items)
    step = PartChange("step", cases[0].step_ms, cases[1].step_ms)
    parts = _parts(cases)
    idle = parts[-1]
    # Comparing a measurement with itself leaves nothing to chance.
    measured = None if items[0] == items[1] else _measured_steps(cases)
    rows = rows_of(matches, max(step.a_ms, step.b_ms), measured, differ)
    return StepDifference(
        window=cases[0].selection.window,
        step=step,
        busy=PartChange("busy", step.a_ms - idle.a_ms, step.b_ms - idle.b_ms),
        idle=idle,
        parts=parts,
        phases=_phases(cases),
        ops=rows,
        collectives=networks_of(rows, cases),
        schedule=_schedule(cases, matches),
    )


def _measured_steps(cases: Sequence[StepData]) -> int | None:
    """Return the number of steps on the side with fewer; None for predictions (no noise)."""
    measured = [data.selection for data in cases if data.basis is Basis.MEASURED]
    return min((selection.windows["step"].n_unique() for selection in measured), default=None)


def _schedule(cases: tuple[StepData, StepData], matches: Sequence[OpMatch]) -> ScheduleChanges:
    a, b = (step_hlo(data.timeline) for data in cases)
    return schedule_changes(a, b, matches)


def _parts(cases: tuple[StepData, StepData]) -> tuple[PartChange, ...]:
    a, b = (data.breakdown for data in cases)
    return tuple(PartChange(name, getattr(a, key), getattr(b, key)) for name, key in _PARTS)


def _phases(cases: tuple[StepData, StepData]) -> tuple[PartChange, ...] | Unknown:
    for name, data in zip("AB", cases, strict=True):
        if not data.timeline.ops["phase"].is_not_null().any():
            return Unknown(f"no op of {name} has a phase")
    sums: list[dict[str, float]] = []
    for data in cases:
        totals = data.attributed.group_by("phase").agg(pl.col("ps").sum())
        by_phase: dict[str, float] = dict(totals.select("phase", "ps").iter_rows())
        sums.append({name: by_phase.get(name, 0) * data.selection.scale for name in PHASES})
    return tuple(PartChange(name, sums[0][name], sums[1][name]) for name in PHASES)
