"""What a step computes twice: for the backward pass by request, or by XLA's own decision.

JAX marks what `jax.checkpoint` recomputes (`rematted_computation`); XLA's own pass clones
instructions by the suffix `.remat` (xla/hlo/transforms/simplifiers/hlo_rematerialization.cc).
"""

from __future__ import annotations

import re
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import collective_profile
from counterpoint.hlo import Phase

_CLONE: Final = r"\.remat\d*(_(un)?compressed)?(\.\d+)*$"


def by_request(case: Case) -> pl.DataFrame:
    """Rows of `Case.ops` that repeat what the forward pass did; `ms`: where nothing hides them."""
    rows = case.ops.filter((pl.col("phase") == Phase.REMAT) & ~pl.col("op").str.contains(_CLONE))
    return _with_ms(case, rows)


def by_compiler(case: Case) -> pl.DataFrame:
    """Rows of `Case.ops` that XLA made of others to save memory."""
    return _with_ms(case, case.ops.filter(pl.col("op").str.contains(_CLONE)))


def original(row: dict[str, Any]) -> str:
    """What a clone was made of."""
    return re.sub(_CLONE, "", str(row["op"]))


def _with_ms(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """Collectives by what is exposed of them, the rest by its own time; the dearest first."""
    exposed = case.ask(collective_profile).select("program", "op", "exposed_ms")
    return (
        rows.join(exposed, on=["program", "op"], how="left", nulls_equal=True)
        .with_columns(ms=pl.coalesce("exposed_ms", "self_ms"))
        .drop("exposed_ms")
        .filter(pl.col("ms") > 0)
        .sort("ms", "op", descending=[True, False])
    )
