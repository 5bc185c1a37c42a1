"""Outliers: steady steps that took much longer than the median, and what they did more of.

The median step hides them by design. What such a step had more of than a typical one (compute,
exposed communication, copies or idle time) indicates where to look: a checkpoint, a network stall,
a garbage collection. A step is an outlier if it exceeds the median both by a fixed share of it and
by more than the scatter of all steps explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from counterpoint.diagnose.attribution import IDLE, STATES, attribute
from counterpoint.diagnose.selection import PS_PER_MS, Selection, of_steps
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

_OF_STEP: Final = 0.05
_DEVIATIONS: Final = 6 * 1.4826  # median absolute deviations, scaled to standard deviations
_STEPS: Final = 5
"""Minimum number of steps for an estimate of scatter."""

_FEW: Final = 0.25
"""If more than this share of steps is long, they are no outliers: the step has two lengths."""

_LISTED: Final = 8
_WHAT: Final = {
    str(Lane.COMPUTE): "computing",
    str(Lane.COLLECTIVE): "waiting for exposed communication",
    str(Lane.COPY): "in exposed copies",
    IDLE: "idle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One long step, mean over devices; `more_ms` is the excess by state over a median step."""

    step: int
    longer_ms: float
    more_ms: dict[str, float]
    op: str | None  # op of the state `cause` that grew most; None: idle, or not known

    @property
    def cause(self) -> str:
        """The state with the largest excess."""
        return max(self.more_ms, key=lambda state: self.more_ms[state])


def outliers(data: StepData) -> tuple[Outlier, ...]:
    """Return outliers in step order; none if one step was requested or too few were recorded."""
    longer = longer_steps(data.selection)
    if not longer:
        return ()
    chosen = of_steps(data.selection, longer)
    devices = dict(chosen.windows.group_by("step").agg(pl.len()).iter_rows())
    spans = chosen.spans()
    parts: dict[int, dict[str, int]] = {}
    for step, state, ps in _by_state(attribute(chosen, spans)).iter_rows():
        parts.setdefault(step, {})[state] = ps
    grew = _Growth(data, spans)
    usual = dict(_by_state(data.attributed).group_by("state").agg(pl.col("ps").sum()).iter_rows())
    result: list[Outlier] = []
    for step, ms in sorted(longer.items()):
        own = parts.get(step, {})
        more = {
            state: own.get(state, 0) / PS_PER_MS / devices[step]
            - usual.get(state, 0) * data.selection.scale
            for state in (*map(str, STATES), IDLE)
        }
        outlier = Outlier(step=step, longer_ms=ms, more_ms=more, op=None)
        result.append(replace(outlier, op=grew.most(step, devices[step], outlier.cause)))
    return tuple(result)


def longer_steps(selection: Selection) -> dict[int, float]:
    """Return the outlier steps and their excess in milliseconds."""
    if selection.step is not None or len(selection.lengths_ms) < _STEPS:
        return {}
    lengths = (
        selection.timeline.steps.filter(
            pl.col("steady") & pl.col("device").is_in(selection.devices)
        )
        .group_by("step")
        .agg(ms=(pl.col("end_ps") - pl.col("start_ps")).mean() / PS_PER_MS)
    )
    excess = pl.col("ms") - pl.col("ms").median()
    limit = pl.max_horizontal(_OF_STEP * pl.col("ms").median(), _DEVIATIONS * excess.abs().median())
    longer = dict(lengths.filter(excess > limit).select("step", "ms").iter_rows())
    if len(longer) > _FEW * len(lengths):
        return {}
    return {step: ms - selection.median_ms for step, ms in longer.items()}


def _by_state(attributed: pl.DataFrame) -> pl.DataFrame:
    return attributed.group_by("step", "state").agg(pl.col("ps").sum())


class _Growth:
    """The time that the ops took in long steps and in typical ones."""

    def __init__(self, data: StepData, spans: pl.DataFrame) -> None:
        names = data.named_ops
        total = np.zeros(len(names), np.int64)
        typical = data.spans["step"].is_not_null().to_numpy()
        op, ps = (data.spans[name].to_numpy()[typical] for name in ("op", "dur_ps"))
        np.add.at(total, op, ps)
        self._usual_ps = dict(enumerate(total.tolist()))
        self._scale = data.selection.scale
        self._shown = [*zip(names["lane"].to_list(), names["shown"].to_list(), strict=True)]
        self._own_ps: dict[int, dict[int, int]] = {}
        taken = spans.filter(pl.col("step").is_not_null()).group_by("step", "op")
        for step, its, ps_of_it in taken.agg(pl.col("dur_ps").sum()).iter_rows():
            self._own_ps.setdefault(step, {})[its] = ps_of_it

    def most(self, step: int, devices: int, state: str) -> str | None:
        """Return the op of a lane whose time grew most."""
        own = self._by_name(self._own_ps.get(step, {}), state)
        usual = self._by_name(self._usual_ps, state)
        more = {
            name: ps * (1 / PS_PER_MS / devices) - usual.get(name, 0) * self._scale
            for name, ps in own.items()
        }
        grown = [(-ms, name) for name, ms in more.items() if ms > 0]
        return min(grown)[1] if grown else None

    def _by_name(self, ps_of_op: Mapping[int, int], state: str) -> dict[str, int]:
        by_name: dict[str, int] = {}
        for op, ps in ps_of_op.items():
            lane, name = self._shown[op]
            if lane == state:
                by_name[name] = by_name.get(name, 0) + ps
        return by_name


def outlier_notes(outliers: tuple[Outlier, ...]) -> tuple[str, ...]:
    """Return a note per cause: `steps 3 and 9 took 20.0 ms longer than the median: ...`."""
    groups: dict[tuple[str, str | None], list[Outlier]] = {}
    for outlier in outliers:
        groups.setdefault((outlier.cause, outlier.op), []).append(outlier)
    return tuple(_note(cause, op, group) for (cause, op), group in groups.items())


def _note(cause: str, op: str | None, group: list[Outlier]) -> str:
    where = f", most in {op}" if op else ""
    return (
        f"{_steps([one.step for one in group])} took {_span([one.longer_ms for one in group])} ms"
        f" longer than the median: {_span([one.more_ms[cause] for one in group])} ms of it"
        f" {_WHAT[cause]}{where}"
    )


def _steps(steps: list[int]) -> str:
    if len(steps) == 1:
        return f"step {steps[0]}"
    shown = [str(step) for step in steps[:_LISTED]]
    if len(steps) > _LISTED:
        return f"steps {', '.join(shown)} and {len(steps) - _LISTED} more"
    return f"steps {', '.join(shown[:-1])} and {shown[-1]}"


def _span(values: list[float]) -> str:
    low, high = f"{min(values):,.2f}", f"{max(values):,.2f}"
    return low if low == high else f"{low} to {high}"
