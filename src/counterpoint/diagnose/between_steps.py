"""Programs that run between steps, as an evaluation does, and what they cost the loop.

That time is part of no step, so no finding counts it; a stopwatch around the loop does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.finding import ms_text
from counterpoint.diagnose.selection import Selection

BETWEEN: Final = "of the time from the first step to the last is between steps"
"""Tells the note from others."""

_WORTH: Final = 0.05
"""Least share of the loop's time that is worth a line."""
_OWN: Final = 0.05
"""Least share of the time of such programs from which on one is named."""
_NAMED: Final = 3
_PERIODS: Final = 2
"""Distances that have to be equal to call them a period."""


def between_steps(selection: Selection) -> str | None:
    """Return a note on programs that run between steps; None if they cost little.

    Time before the first step and after the last one is not looked into: it is no part of the loop.
    """
    timeline = selection.timeline
    if timeline.basis is Basis.PREDICTED or timeline.chosen is not None:
        return None
    devices = selection.windows["device"].unique().implode()
    steps = timeline.steps.filter(pl.col("device").is_in(devices)).sort("device", "start_ps")
    breaks = (
        steps.select(
            "device",
            after="step",
            from_ps="end_ps",
            to_ps=pl.col("start_ps").shift(-1).over("device"),
        )
        .filter(pl.col("to_ps") > pl.col("from_ps"))
        .with_row_index("break")
    )
    loop = steps.group_by("device").agg(ps=pl.col("end_ps").max() - pl.col("start_ps").min())
    outside = timeline.runs.filter(pl.col("step").is_null())
    if breaks.is_empty() or outside.is_empty():
        return None
    # Of each run the break that began last; joined in order, as there may be many of both.
    inside = (
        outside.sort("start_ps")
        .join_asof(
            breaks.sort("from_ps"),
            left_on="start_ps",
            right_on="from_ps",
            by="device",
            check_sortedness=False,
        )
        .filter(pl.col("end_ps") <= pl.col("to_ps"))
    )
    with_runs = breaks.join(inside, on="break", how="semi")
    taken = int((with_runs["to_ps"] - with_runs["from_ps"]).sum())
    share = taken / max(1, int(loop["ps"].sum()))
    if share < _WORTH:
        return None
    places = np.unique(with_runs["after"].to_numpy())
    ms = taken / len(with_runs) / 1e9
    return (
        f"{share:.0%} {BETWEEN}, where devices run {_programs(selection, inside)}:"
        f" {ms_text(ms)} {_when(places)}. No step's time contains it; a stopwatch around the loop"
        " does. If it is an evaluation, evaluate less often, on fewer batches, or on other devices"
    )


def _programs(selection: Selection, inside: pl.DataFrame) -> str:
    """Return the programs by the time that they take, with their runs on each device."""
    timeline = selection.timeline
    names = dict(enumerate(program.name for program in timeline.programs))
    took = (
        inside.with_columns(
            name=pl.col("program").replace_strict(names, default="?", return_dtype=pl.String),
            ps=pl.col("end_ps") - pl.col("start_ps"),
        )
        .group_by("name")
        .agg(pl.col("ps").sum(), runs=pl.len(), devices=pl.col("device").n_unique())
        .sort("ps", "name", descending=[True, False])
    )
    own = took.filter(pl.col("ps") >= _OWN * pl.col("ps").sum()).head(_NAMED)
    words = [
        f"{name} ({counted_noun(round(runs / devices), 'run')}, {ms_text(ps / runs / 1e9)} each)"
        for name, ps, runs, devices in own.rows()
    ]
    if len(took) > len(own):
        words.append(counted_noun(len(took) - len(own), "other program"))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _when(places: NDArray[np.int32]) -> str:
    """Say after how many steps it happens, and how often in this profile."""
    apart = np.diff(places)
    times = "once" if len(places) == 1 else f"{len(places)} times"
    if len(apart) >= _PERIODS and (apart == apart[0]).all():
        every = "after every step" if apart[0] == 1 else f"after every {apart[0]} steps"
        return f"{every}, {times} in the profile"
    return f"{times} in the profile" if len(places) > 1 else f"once, after step {places[0]}"
