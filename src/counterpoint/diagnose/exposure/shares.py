"""Shares: each exposed millisecond goes to one cause, so that no two rules count it.

exposed time of a collective
  ├─ `late_ms`  waiting for the device that comes last ............ STEP105
  └─ `own_ms`   the rest, to the first rule that applies:
       between TPU slices ......................................... STEP201
       small, and others could be merged with it .................. STEP103
       synchronous by a setting ................................... STEP102
       large, at an end of the step ............................... STEP104
       synchronous, though it could be hidden ..................... STEP102
       the links carry no more, or no faster ...................... STEP106, STEP107
       synchronous, with nothing beside it ........................ STEP102
       asynchronous, and waited for ............................... STEP101
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.diagnose.exposure.ends import AtEnd, at_ends
from counterpoint.diagnose.exposure.merging import Merger, mergers
from counterpoint.diagnose.exposure.synchrony import Synchronous, synchronous
from counterpoint.diagnose.metrics.collectives import collective_profile
from counterpoint.diagnose.network.bound import is_tiny
from counterpoint.diagnose.network.requirement import Bound, classify
from counterpoint.timeline.host_transfers import host_transfers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from counterpoint.diagnose.case import Case

EXPOSED: Final = "STEP101"
SYNCHRONOUS: Final = "STEP102"
SMALL: Final = "STEP103"
AT_END: Final = "STEP104"
BANDWIDTH: Final = "STEP106"
LATENCY: Final = "STEP107"
BETWEEN_SLICES: Final = "STEP201"

_BOUNDS: Final = {Bound.BANDWIDTH: BANDWIDTH, Bound.LATENCY: LATENCY}
_TOLD: Final = (
    "wire_bytes", "movable_ms", "required_gbps", "achieved_gbps", "capacity_gbps", "bound", "why",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """`rows` are collectives that are exposed, with `late_ms`, `own_ms` and `code`."""

    rows: tuple[dict[str, Any], ...]
    synchronous: Mapping[str, Synchronous]
    mergers: tuple[Merger, ...]
    ends: Mapping[str, AtEnd]

    def of(self, code: str) -> list[dict[str, Any]]:
        """What a rule speaks of, the dearest first."""
        own = [row for row in self.rows if row["code"] == code]
        return sorted(own, key=lambda row: -row["own_ms"])


def shares_of(case: Case) -> Shares:
    """Of all collectives of the typical steps."""
    rows = _exposed(case)
    slices = set(host_transfers(case.timeline).select("program", "name").unique().rows())
    between = [row for row in rows if (row["program"], row["op"]) in slices]
    within = [row for row in rows if (row["program"], row["op"]) not in slices]
    own = [row for row in within if row["program"] == case.timeline.step_program]
    why = synchronous(case, own)
    merged = mergers(case, own)
    small = {name for merger in merged for one in merger.sets for name in one}
    ends = at_ends(case, own)
    for row in between:
        row["code"] = BETWEEN_SLICES if row["own_ms"] > 0 else None
    for row in within:
        mine = row["program"] == case.timeline.step_program
        name = str(row["op"]) if mine else ""
        row["code"] = _code(row, why.get(name), small=name in small, at_end=name in ends)
    return Shares(tuple(rows), why, merged, ends)


def _exposed(case: Case) -> list[dict[str, Any]]:
    # What waits while compute goes on costs nothing. What shows of a transfer that its slack would
    # cover is there because somebody came late.
    wait = pl.min_horizontal(pl.col("wait_ms").fill_null(0.0), "exposed_ms").clip(lower_bound=0.0)
    return (
        case.ask(collective_profile)
        .filter(pl.col("exposed_ms") > 0)
        .join(
            case.ask(classify).select("program", "op", *_TOLD),
            on=["program", "op"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(late_ms=wait)
        .with_columns(own_ms=pl.col("exposed_ms") - pl.col("late_ms"))
        .to_dicts()
    )


def _shows_by_gaps(row: dict[str, Any]) -> bool:
    """Whether slack covers it, so that but gaps between the ops beside it are left."""
    slack = row["slack_ms"]
    covered = slack is not None and slack * row["count"] >= row["total_ms"]
    return row["bound"] == Bound.HIDDEN or (row["bound"] == Bound.LATE_RANK and covered)


def _code(row: dict[str, Any], why: Synchronous | None, *, small: bool, at_end: bool) -> str | None:
    if row["own_ms"] <= 0 or _shows_by_gaps(row):
        return None
    if small:
        return SMALL
    tiny = is_tiny(row["wire_bytes"], row["transfer_ms"])
    asked = why is not None and why.by_setting
    if at_end and not tiny and not asked:
        return AT_END
    if asked or (why is not None and why.can_change):
        return SYNCHRONOUS
    # What is left of one that waits for others most of its time is bound by something too.
    bound = Bound.LATENCY if tiny and row["bound"] == Bound.LATE_RANK else row["bound"]
    return _BOUNDS.get(bound, EXPOSED if why is None else SYNCHRONOUS)
