"""What could be moved in between a collective's start and its done to hide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from counterpoint.diagnose.case import Case

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,  # the collective, by its start
    "movable_ms": pl.Float64,  # of one execution; null: no schedule is known
    "top": pl.List(pl.String),  # names of the longest, the longest first
}


def movable_work(case: Case) -> pl.DataFrame:
    """Per collective, independent work that stands outside its start and done: SCHEMA."""
    del case
    return pl.DataFrame(schema=SCHEMA)
