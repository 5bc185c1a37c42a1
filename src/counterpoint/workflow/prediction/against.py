"""Prediction against measurement, op by op: by stable key if both hold the HLO, then by name.

Both sides are Timelines, so times of both are computed alike: device time of the step's program,
or of all programs that a step runs, by the instruction that the scheduler sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import polars as pl

from counterpoint.core import Basis, InputError, Unknown
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_programs import programs_in_step
from counterpoint.hardware.mismatch import mismatched_devices
from counterpoint.hardware.target import Target
from counterpoint.hlo.category import category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.provenance import StableKey, provenance, stable_key
from counterpoint.pgle.lookups import cost_name, lookup_name
from counterpoint.pgle.making.samples import measured_times
from counterpoint.runs.timeline import read
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.forecast.iteration import counts_of, programs_seconds
from counterpoint.workflow.forecast.ranking import Forecast
from counterpoint.workflow.recorded_programs import recorded_programs

_FEW: Final = 0.5
_MOST: Final = 0.95
_ALIKE: Final = "same program, by name"
_MOVED: Final = "by scope, operation and shapes, else by kind and line, else by name"
_NAMES: Final = "by name alone: the profile holds no HLO"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDifference:
    """One instruction's time per step, predicted and measured; None if one side has none."""

    program: str
    name: str
    measured_name: str | None
    category: str
    predicted_ms: float | None
    measured_ms: float | None
    source: str | None = None

    @property
    def difference_ms(self) -> float:
        return (self.predicted_ms or 0.0) - (self.measured_ms or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasurementComparison:
    """The comparison of a prediction with a measurement."""

    origin: str
    predicted_ms: float
    predicted_program_ms: float  # without the launches between several programs
    measured_ms: float | None  # of a median step; None if no whole step was recorded
    program_ms: float | None  # the part of it in which its program runs, or all of several
    programs: int = 1  # that a step runs on either side
    ops: tuple[OpDifference, ...]  # the largest difference first
    categories: Mapping[str, tuple[float, float]]  # predicted, measured: ms of a step
    matched_share: float  # of the measured device time
    how: str
    basis: Basis = Basis.MEASURED  # of the other side: a saved prediction is predicted, too
    warnings: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """The ratio to the measured step, or to its program if only that can be compared."""
        whole = self.program_ms if self.program_alone else self.measured_ms
        return self.compared_ms / whole if whole else None

    @property
    def compared_ms(self) -> float:
        """The predicted side of the ratio."""
        return self.predicted_program_ms if self.program_alone else self.predicted_ms

    @property
    def program_alone(self) -> bool:
        """True if only the program can be compared: the host's part of a step is not predicted."""
        if self.program_ms is None or self.measured_ms is None:
            return self.program_ms is not None
        return self.program_ms < _MOST * self.measured_ms


@dataclass(frozen=True, slots=True)
class _Side:
    """Milliseconds of a step by the names that XLA looks up, and the instructions of the names."""

    ms: Mapping[str, float]
    program: Program | None
    instructions: Mapping[str, Instruction]

    def key(self, name: str) -> StableKey | None:
        instruction = self.instructions.get(name)
        return (
            stable_key(self.program, instruction)
            if instruction is not None and self.program
            else None
        )

    def order(self, name: str) -> tuple[str, int]:
        """Return the position in the schedule; names without an instruction come first."""
        instruction = self.instructions.get(name)
        return ("", 0) if instruction is None else (instruction.computation, instruction.index)

    def category(self, name: str) -> str | None:
        instruction = self.instructions.get(name)
        if instruction is None or self.program is None:
            return None
        communication = collective(self.program, instruction)
        return (
            communication.kind
            if communication is not None
            else str(category(self.program, instruction))
        )

    def source(self, name: str) -> str | None:
        instruction = self.instructions.get(name)
        if instruction is None or self.program is None:
            return None
        return provenance(self.program, instruction).source


def read_measurement(path: Path | str) -> Timeline:
    """Read a Run or a profile with a step program that ran on a device."""
    timeline = read(str(path))
    if timeline.step_program is None:
        raise InputError(
            f"{path}: no steps were found, so there is nothing to compare with",
            why="; ".join(timeline.notes) or None,
            next="counterpoint run --profile-steps 5 -- python train.py",
        )
    kinds = {device.kind for device in timeline.devices}
    if kinds and "gpu" not in kinds and timeline.basis is Basis.MEASURED:
        raise InputError(
            f"{path}: measured on {_kinds(timeline)}s, but the prediction is for GPUs",
            next="counterpoint run --profile-steps 5 -- python train.py",
        )
    return timeline


def compare(
    base: Forecast, measured: Timeline, origin: str, target: Target
) -> MeasurementComparison:
    """Compare the prediction with the measurement, each program of the step with its own."""
    programs = [*_compared_programs(base, measured, origin)]
    ops = [row for one in programs for row in one.rows()]
    ops.sort(key=lambda op: (-abs(op.difference_ms), op.name))
    whole = math.fsum(op.measured_ms or 0.0 for op in ops)
    both = (op for op in ops if op.predicted_ms is not None)
    share = math.fsum(op.measured_ms or 0.0 for op in both) / whole if whole else 0.0
    if not share:
        raise InputError(
            f"{origin}: nothing in it matches the prediction",
            why=f"it is of another program or another kind of device"
            f" ({_kinds(measured)}; the prediction is for GPUs)",
            next="counterpoint run --profile-steps 5 -- python train.py",
        )
    ran = [one.ran_ms for one in programs if one.ran_ms is not None]
    return MeasurementComparison(
        origin=origin,
        predicted_ms=base.step_s * 1e3,
        predicted_program_ms=programs_seconds(base) * 1e3,
        measured_ms=_step_ms(measured),
        program_ms=sum(ran) if ran else None,
        programs=len(programs),
        ops=tuple(ops),
        categories=_by_category(ops),
        matched_share=share,
        how="; ".join(dict.fromkeys(_how(one.here, one.there) for one in programs if one.is_both)),
        basis=measured.basis,
        warnings=(
            *_machines(origin, measured, target),
            *_other_counts(programs, origin),
            *_warnings(origin, share),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparedProgram:
    """A program of the step, predicted and measured; a side where it did not run is empty."""

    name: str
    here: _Side
    there: _Side
    runs: int = 1  # in a step of the prediction
    measured_runs: int = 1
    ran_ms: float | None = None  # of a measured step

    @property
    def is_both(self) -> bool:
        return bool(self.here.ms) and bool(self.there.ms)

    def rows(self) -> list[OpDifference]:
        """Return the times of all its ops in one step."""
        pairs = _matched(self.here, self.there)
        taken = set(pairs.values())
        rows = [self._row(mine, theirs) for mine, theirs in pairs.items()]
        return rows + [self._row(None, name) for name in self.there.ms if name not in taken]

    def _row(self, mine: str | None, theirs: str | None) -> OpDifference:
        here, there = self.here, self.there
        kind = here.category(mine) if mine else None
        source = here.source(mine) if mine else None
        return OpDifference(
            program=self.name,
            name=mine or theirs or "",
            measured_name=theirs,
            category=kind or (there.category(theirs) if theirs else None) or "other",
            predicted_ms=here.ms[mine] * self.runs if mine else None,
            measured_ms=there.ms[theirs] * self.measured_runs if theirs else None,
            source=source or (there.source(theirs) if theirs else None),
        )


_NOTHING: Final = _Side({}, None, {})


def _compared_programs(
    base: Forecast, measured: Timeline, origin: str
) -> Iterator[_ComparedProgram]:
    """Yield the programs of the step.

    If the prediction is of one program, it is compared with the measured step's main one. Else all
    that a measured step runs count, predicted or not.
    """
    predicted = base.simulation.timeline
    if not base.parts:
        number = measured.step_program
        yield _ComparedProgram(
            name=base.program.name,
            here=_side(predicted, predicted.step_program, base.program, "the prediction"),
            there=_side(measured, number, _program_of(measured, number), origin),
            ran_ms=_median_ms(measured.runs.filter(pl.col("program") == number)),
        )
        return
    in_step = programs_in_step(measured)
    by_build = {build: part for part in in_step.values() for build in part.builds}
    programs = [part.program for part in base.parts]
    numbers = recorded_programs(measured, programs, base.main)
    for at, (program, number, runs) in enumerate(
        zip(programs, numbers, counts_of(base), strict=True)
    ):
        ran = None if number is None else by_build.get(number)
        yield _ComparedProgram(
            name=program.name,
            here=_side(predicted, at, program, "the prediction"),
            there=_NOTHING
            if ran is None
            else _side(measured, number, _program_of(measured, number), origin),
            runs=runs,
            measured_runs=0 if ran is None else ran.runs,
            ran_ms=None if ran is None else ran.ms,
        )
    for number, ran in in_step.items():
        if not any(build in numbers for build in ran.builds):
            yield _ComparedProgram(
                name=measured.programs[number].name,
                here=_NOTHING,
                there=_side(measured, number, _program_of(measured, number), origin),
                runs=0,
                measured_runs=ran.runs,
                ran_ms=ran.ms,
            )


def _other_counts(programs: Sequence[_ComparedProgram], origin: str) -> Iterator[str]:
    """Warn of programs that a measured step does not run as often as a predicted one."""
    for one in programs:
        if one.runs != one.measured_runs and one.runs:
            yield (
                f"a step runs {one.name} {_often(one.runs)} by the prediction, and"
                f" {_often(one.measured_runs)} in {origin}"
            )


def _often(runs: int) -> str:
    return {0: "never", 1: "once"}.get(runs, f"{runs} times")


def _program_of(timeline: Timeline, number: int | None) -> Program | None:
    return None if number is None else timeline.programs[number].hlo()


def _side(timeline: Timeline, number: int | None, program: Program | None, origin: str) -> _Side:
    """Return the times of one run of a program."""
    times = measured_times(timeline, number) if number is not None else Unknown("no step")
    if isinstance(times, Unknown):
        raise InputError(f"{origin}: no times of single instructions", why=times.reason)
    named: dict[str, Instruction] = {}
    for computation in launched(program) if program is not None else ():
        for instruction in computation.instructions:
            for name in (instruction.name, cost_name(instruction), lookup_name(instruction)):
                named.setdefault(name, instruction)
    return _Side({name: us / 1e3 for name, us in times.us.items()}, program, named)


def _matched(here: _Side, there: _Side) -> dict[str, str | None]:
    """Return, for each predicted name, the measured one of the same work."""
    pairs: dict[str, str | None] = dict.fromkeys(here.ms)
    free = dict.fromkeys(there.ms)
    if not _same_module(here, there):
        for alike in (_key, _work, _place):
            _pair_off(here, there, pairs, free, alike)
    for mine, theirs in pairs.items():
        if theirs is None and mine in free and _may_be(here, there, mine):
            pairs[mine] = mine
            del free[mine]
    return pairs


def _pair_off(
    here: _Side,
    there: _Side,
    pairs: dict[str, str | None],
    free: dict[str, None],
    alike: Callable[[_Side, str], Hashable | None],
) -> None:
    """Pair equal keys in order: two compilers keep the order of instructions of one line."""
    waiting: dict[Hashable, list[str]] = {}
    for name in sorted(free, key=there.order):
        key = alike(there, name)
        if key is not None:
            waiting.setdefault(key, []).append(name)
    for mine in sorted(pairs, key=here.order):
        equals = waiting.get(alike(here, mine)) if pairs[mine] is None else None
        if equals:
            pairs[mine] = equals.pop(0)
            del free[pairs[mine] or ""]


def _key(side: _Side, name: str) -> Hashable | None:
    """Key: the same operation of the same line on the same shapes."""
    return side.key(name)


def _work(side: _Side, name: str) -> Hashable | None:
    """Key: the same kind of work of the same line, with a result of the same size."""
    place, instruction = _place(side, name), side.instructions.get(name)
    return None if place is None or instruction is None else (place, instruction.shape.elements)


def _place(side: _Side, name: str) -> Hashable | None:
    """Key: the same kind of work of the same line and phase."""
    instruction = side.instructions.get(name)
    if instruction is None or side.program is None:
        return None
    where = provenance(side.program, instruction)
    if not where.scope and not where.source:
        return None
    return side.category(name), where.scope, where.source, where.phase


def _same_module(here: _Side, there: _Side) -> bool:
    mine, theirs = here.program, there.program
    return (
        mine is not None
        and theirs is not None
        and (
            mine is theirs
            or (mine.fingerprint is not None and mine.fingerprint == theirs.fingerprint)
        )
    )


def _may_be(here: _Side, there: _Side, name: str) -> bool:
    """Return True if instructions of one name may be the same: nothing known contradicts it."""
    mine, theirs = here.instructions.get(name), there.instructions.get(name)
    return (
        theirs is None
        or mine is None
        or (mine.opcode, mine.shape)
        == (
            theirs.opcode,
            theirs.shape,
        )
    )


def _by_category(ops: Sequence[OpDifference]) -> dict[str, tuple[float, float]]:
    sums: dict[str, tuple[float, float]] = {}
    for op in ops:
        predicted, measured = sums.get(op.category, (0.0, 0.0))
        sums[op.category] = (
            predicted + (op.predicted_ms or 0.0),
            measured + (op.measured_ms or 0.0),
        )
    return dict(sorted(sums.items(), key=lambda item: -max(item[1])))


def _step_ms(measured: Timeline) -> float | None:
    selection = select(measured)
    return selection.median_ms if selection.step_lengths_ms else None


def _median_ms(intervals: pl.DataFrame) -> float | None:
    rows = intervals.select("start_ps", "end_ps").rows()
    return median(end - start for start, end in rows) / 1e9 if rows else None


def _how(here: _Side, there: _Side) -> str:
    if there.program is None:
        return _NAMES
    return _ALIKE if _same_module(here, there) else _MOVED


def _kinds(measured: Timeline) -> str:
    return ", ".join(dict.fromkeys(device.kind.upper() for device in measured.devices)) or "none"


def _machines(origin: str, measured: Timeline, target: Target) -> Iterator[str]:
    """Report differences of the machines, which mask those of the prediction."""
    other = mismatched_devices(measured.devices, target)
    if other is not None:
        yield (
            f"{origin} was measured on {other}, but the prediction is for {target}: the difference"
            " reflects the machines, not the accuracy of the prediction"
        )
    program = _program_of(measured, measured.step_program)
    devices = program.num_partitions * program.num_replicas if program is not None else 0
    if devices and devices != target.devices:
        yield f"{origin} has {devices:,} devices, but the prediction is for {target}"


def _warnings(origin: str, share: float) -> tuple[str, ...]:
    if share >= _FEW:
        return ()
    fact = f"only {share:.0%} of the device time in {origin} matches the prediction"
    return (f"{fact}; it may be of another program",)
