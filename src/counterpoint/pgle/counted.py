"""Which runs count: those of steady steps, or beside all steps, without the first of a program.

The first run of a program pays for what later ones find ready. Left out on one device it is left
out on all, for a collective is measured on all of its devices at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.model import Timeline

_ENOUGH: Final = 3
"""Steady steps without which runs count, too, whose step's end was not seen: theirs was."""

_COLUMNS: Final = ("run", "program", "device", "index")


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Rows of the Timeline's runs that count, and the programs of which none but the first ran."""

    runs: pl.DataFrame  # run, program, device, index
    only_first: tuple[int, ...]


def counted_runs(timeline: Timeline, *, keep_warmup: bool = False) -> Counted:
    """Choose the runs; a program keeps the best that it has."""
    runs = timeline.runs.with_row_index("run")
    if keep_warmup:
        return Counted(runs.select(_COLUMNS), ())
    rated = _rated(timeline, runs)
    kept = rated.filter(
        pl.when("any_best")
        .then("best")
        .when("any_later")
        .then("later")
        .otherwise(pl.lit(value=True))
    )
    alone = rated.filter(~pl.col("any_later"))["program"].unique().sort().to_list()
    return Counted(kept.select(_COLUMNS), tuple(alone))


def _rated(timeline: Timeline, runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with `later` and `best`: not the first of their program, and in no step but steady."""
    steady = timeline.steps.filter("steady")
    if steady["step"].n_unique() < _ENOUGH:
        steady = timeline.steps.filter(pl.col("steady") | ~pl.col("whole"))
    steady = steady.select("step", "device", in_steady=True)
    is_first = pl.col("index") == pl.col("index").min().over("program", "device")
    settled = pl.col("in_steady").fill_null(value=False) | pl.col("step").is_null()
    return (
        runs.join(steady, on=["step", "device"], how="left", maintain_order="left")
        .with_columns(is_first=is_first, settled=settled)
        .with_columns(later=~pl.col("is_first").any().over("program", "index"))
        .with_columns(best=pl.col("later") & pl.col("settled").all().over("program", "index"))
        .with_columns(
            any_best=pl.col("best").any().over("program"),
            any_later=pl.col("later").any().over("program"),
        )
    )
