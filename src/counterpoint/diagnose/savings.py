"""Savings: how much shorter the step would be without a given cause.

Where the profile contains the step's Program, the simulator computes it: the program's own schedule
with measured durations, some of them set to zero. It is used only if the simulated step is close to
the measured one; its error widens every range. Otherwise exposed time bounds a saving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import polars as pl

from counterpoint.core import CounterpointError, Range
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.selection import PS_PER_MS, select
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.replay import overlap_gain_s, replay
from counterpoint.timeline.model import Lane

if TYPE_CHECKING:
    from counterpoint.simulate.replay import Replay

_BELIEVED: Final = 0.15
"""Maximum relative error of the simulated step; beyond it the simulator is not used."""

_LONGEST_GAP_PS: Final = 10_000_000
"""Kernels launched in time are a microsecond or two apart; a longer gap is waiting."""

_REACH: Final = 0.05
"""Relative uncertainty of a measured cost in another run (cost/measured.py)."""


class Savings(Protocol):
    """Gains on a median step, in milliseconds."""

    def without(self, instructions: Iterable[str]) -> Range | None:
        """Return the gain if these instructions took no time; None if not known."""
        ...

    def beside(self, collectives: Iterable[str]) -> Range | None:
        """Return the gain if all independent work overlapped these; None if not known."""
        ...

    def as_quick(self, longer_ms: Mapping[str, float]) -> Range | None:
        """Return the gain if the slowest device were as fast as the others; None if not known.

        `longer_ms` is the excess time per instruction.
        """
        ...


@dataclass(frozen=True, slots=True)
class _UnknownSavings:
    """Savings without a simulator: nothing is known."""

    def without(self, instructions: Iterable[str]) -> Range | None:
        del instructions

    def beside(self, collectives: Iterable[str]) -> Range | None:
        del collectives

    def as_quick(self, longer_ms: Mapping[str, float]) -> Range | None:
        del longer_ms


@dataclass(frozen=True, eq=False)
class SimulatedSavings:
    """Savings by simulation; `error` is the relative error of the simulated step.

    `relief_ms` is what compute next to a collective may gain without it, by the collective's name.
    """

    program: Program
    seconds: Mapping[str, float]
    replay: Replay
    now_ms: float
    error: float
    relief_ms: Mapping[str, float]

    def without(self, instructions: Iterable[str]) -> Range | None:
        """Return the gain if these took no time; None if none of them is scheduled."""
        names = frozenset(instructions)
        if not names & self._names():
            return None
        relief = sum(self.relief_ms.get(name, 0.0) for name in names)
        return self._around(max(0.0, self.now_ms - self._step_ms(names)), relief)

    def beside(self, collectives: Iterable[str]) -> Range | None:
        """Return the gain if all independent work overlapped these, as far as memory allows."""
        names = frozenset(collectives) & self._names()
        if not names:
            return None
        return self._around(overlap_gain_s(self.program, self.replay, names) * 1e3)

    def as_quick(self, longer_ms: Mapping[str, float]) -> Range | None:
        """Return the gain if the slowest device were as fast as the others."""
        slow = {
            name: max(0.0, self.seconds.get(name, 0.0) + longer_ms.get(name, 0.0) / 1e3)
            for name in self.seconds.keys() | longer_ms.keys()
        }
        now_ms = replay(self.program, slow, self.replay.gap_s).step_s() * 1e3
        return self._around(max(0.0, now_ms - self.now_ms))

    def _around(self, saved: float, relief: float = 0.0) -> Range:
        uncertainty = self.error + _REACH
        return Range(saved * max(0.0, 1 - uncertainty), saved * (1 + uncertainty) + relief)

    @lru_cache(maxsize=256)  # noqa: B019 - lives as long as the explanation
    def _step_ms(self, names: frozenset[str]) -> float:
        return self.replay.step_s(names) * 1e3

    @lru_cache(maxsize=1)  # noqa: B019
    def _names(self) -> frozenset[str]:
        return frozenset(self.replay.names)


def savings_of(data: StepData) -> Savings:
    """Return savings for the step's program, based on measured instruction times."""
    if data.program is None or not data.program.is_scheduled:
        return _UnknownSavings()
    measured_ms = _without_waiting(data)
    if not measured_ms:
        return _UnknownSavings()
    seconds = {name: ms / 1e3 for name, ms in _costs(data).items()}
    try:
        own = replay(data.program, seconds, _gap_s(data))
    except CounterpointError:  # the program cannot run: it launches nothing, or nests too deep
        return _UnknownSavings()
    now_ms = own.step_s() * 1e3
    error = abs(now_ms / measured_ms - 1)
    if error > _BELIEVED:
        return _UnknownSavings()
    return SimulatedSavings(data.program, seconds, own, now_ms, error, _relief(data))


def longer_ms(data: StepData, device: int) -> Mapping[str, float]:
    """Return the excess time on `device` over the mean of the others, by compute instruction."""
    timeline = data.timeline
    others = len(data.selection.devices) - 1
    if others < 1:
        return {}
    alone = StepData(selection=select(timeline, devices=[device]), context=data.context)
    own = (pl.col("program") == timeline.step_program) & (pl.col("lane") != Lane.COLLECTIVE)
    both = alone.ops.filter(own).join(data.ops.filter(own), on=["program", "op"], how="left")
    # The mean over all devices includes this device.
    more = (pl.col("self_ms") - pl.col("self_ms_right").fill_null(0)) * (others + 1) / others
    return dict(both.select("op", more).drop_nulls().iter_rows())


def _costs(data: StepData) -> Mapping[str, float]:
    """Return milliseconds per step by instruction; for collectives the transfer without waiting."""
    own = pl.col("program") == data.timeline.step_program
    work = data.ops.filter(own & (pl.col("lane") != Lane.COLLECTIVE)).select("op", "self_ms")
    talk = (
        data.cached(collective_profile)
        .filter(own)
        .select("op", self_ms=pl.col("total_ms") - pl.col("wait_ms").fill_null(0.0))
    )
    return dict(pl.concat([work, talk]).drop_nulls().iter_rows())


def _relief(data: StepData) -> Mapping[str, float]:
    """Return the slowdown of compute next to each collective, as a rule of thumb."""
    from counterpoint.cost.scalars import default_scalars

    slowdown = default_scalars(data.timeline.devices[0].chip or "").slowdown.value
    hidden = (pl.col("total_ms") - pl.col("exposed_ms")).clip(lower_bound=0.0)
    own = data.cached(collective_profile).filter(pl.col("program") == data.timeline.step_program)
    return dict(own.select("op", hidden * slowdown).iter_rows())


def _without_waiting(data: StepData) -> float:
    """Return the program's run time in a step minus its waits for late devices; 0 if not known."""
    runs = data.timeline.runs.filter(pl.col("program") == data.timeline.step_program).join(
        data.selection.windows, on=["step", "device"], how="semi"
    )
    whole = int((runs["end_ps"] - runs["start_ps"]).sum()) * data.selection.scale
    waits = data.cached(collective_profile).select(
        pl.min_horizontal(pl.col("wait_ms").fill_null(0.0), "exposed_ms")
    )
    return max(0.0, whole - float(waits.to_series().sum()))


def _gap_s(data: StepData) -> float:
    """Return the median gap in seconds between one piece of work and the next, if not waiting."""
    computes = (data.timeline.ops["lane"] == Lane.COMPUTE).to_numpy()
    spans = data.spans.filter(pl.col("run").is_not_null())
    spans = spans.filter(pl.Series(computes[spans["op"].to_numpy()]))
    line = spans["device"].cast(pl.Int64).to_numpy() << 32 | spans["line"].to_numpy()
    run = spans["run"].to_numpy()
    order = np.lexsort((run, line))  # spans are sorted by start on each device
    start, length = (spans[name].to_numpy()[order] for name in ("start_ps", "dur_ps"))
    gap = start[1:] - (start + length)[:-1]
    follows = (line[order][1:] == line[order][:-1]) & (run[order][1:] == run[order][:-1])
    gap = gap[follows & (gap >= 0) & (gap <= _LONGEST_GAP_PS)]
    return float(np.median(gap)) / PS_PER_MS / 1e3 if len(gap) else 0.0
