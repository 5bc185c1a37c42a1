"""The largest losses of a step in plain words.

Ways to lose time that every profile shows: copies that nothing hides, and a device with nothing to
do. The price is an upper
bound, since how much can be hidden is not known from the profile alone: a range from zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.selection import Selection
from counterpoint.diagnose.step import Breakdown

COUNT: Final = 3
_WORTH_A_WORD: Final = 0.01
"""Losses below this share of the step are not worth a word."""

_ROWS: Final = 5

_HOST: Final = "waits for the host to launch, for input, or for the profiler"
_LOOK: Final = (
    "look at what the host does in the gaps: the input pipeline, logging or block_until_ready in"
    " every step, many small jitted calls, the Python tracer itself"
)
_GAPS: Final = "goes from one kernel to the next; a host that launches late is not predicted"
_LARGER: Final = "fewer and larger kernels: more work per device, or settings that fuse more"


def largest_losses(
    selection: Selection,
    spans: pl.DataFrame,
    breakdown: Breakdown,
    ops: pl.DataFrame,
) -> tuple[Finding, ...]:
    """Up to three findings, the dearest first."""
    evidence = _Evidence(selection, spans)
    found = [
        *_copies(breakdown, ops, evidence, selection.timeline.basis),
        *_idle(selection, breakdown),
    ]
    worth = [f for f in found if _most(f) > _WORTH_A_WORD * selection.median_ms]
    return tuple(sorted(worth, key=lambda finding: -_most(finding))[:COUNT])


def _most(finding: Finding) -> float:
    return finding.saves_ms.high if isinstance(finding.saves_ms, Range) else 0.0


class _Evidence:
    """Finds the spans of an op, longest first."""

    def __init__(self, selection: Selection, spans: pl.DataFrame) -> None:
        self._ops = selection.timeline.ops.with_row_index("op_row").with_columns(
            shown=pl.coalesce("pair", "op", "name")
        )
        self._spans = spans

    def of(self, row: dict[str, object], ms: str) -> Evidence:
        same = pl.col("program").eq_missing(pl.lit(row["program"], pl.UInt16))
        ops = self._ops.filter(
            same & ((pl.col("shown") == row["op"]) | (pl.col("op") == row["op"]))
        )
        spans = self._spans.filter(pl.col("op").is_in(ops["op_row"].to_list()))
        rows = spans.sort("dur_ps", descending=True)["row"].head(_ROWS).to_list()
        cost = row[ms]
        return Evidence(
            what=str(row["op"]),
            ms=float(cost) if isinstance(cost, float) else None,
            spans=tuple(rows),
        )


def _copies(
    breakdown: Breakdown, ops: pl.DataFrame, evidence: _Evidence, basis: Basis
) -> Iterator[Finding]:
    copies = ops.filter(pl.col("lane") == "copy").head(_ROWS)
    if not len(copies) or not breakdown.copy_exposed_ms:
        return
    first = copies.row(0, named=True)
    yield Finding(
        code="exposed-copy",
        title=f"copies that nothing hides take {breakdown.copy_exposed_ms:,.2f} ms per step",
        detail=f"the longest is {_place(first)}, {first['self_ms']:,.2f} ms per step",
        saves_ms=Range(0.0, breakdown.copy_exposed_ms),
        basis=basis,
        evidence=tuple(evidence.of(row, "self_ms") for row in copies.iter_rows(named=True)),
        remedy=Remedy(
            "look at the line that asks for it: a layout or sharding change between two uses, a"
            " buffer that is not donated, or an offload that starts too late"
        ),
    )


def _idle(selection: Selection, breakdown: Breakdown) -> Iterator[Finding]:
    if breakdown.idle_ms <= 0:
        return
    predicted = selection.timeline.basis is Basis.PREDICTED
    yield Finding(
        code="idle-device",
        title=f"devices have nothing to do for {breakdown.idle_ms:,.2f} ms per step",
        detail=(
            f"{breakdown.idle_ms / selection.median_ms:.0%} of the step: nothing runs on the"
            f" device, so it {_GAPS if predicted else _HOST}"
        ),
        saves_ms=Range(0.0, breakdown.idle_ms),
        basis=selection.timeline.basis,
        evidence=(Evidence(what="gaps between spans", ms=breakdown.idle_ms),),
        remedy=Remedy(_LARGER if predicted else _LOOK),
    )


def _place(row: dict[str, object]) -> str:
    where = row.get("source") or row.get("scope")
    return f"{row['op']} ({where})" if where else str(row["op"])
