"""Shares: each exposed millisecond has one cause, so that no two rules count it.

exposed time of a collective
  ├─ `late_ms`  waiting for the device that arrives last .......... STEP105
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

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.diagnose.collectives.bound import is_tiny
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.requirement import SCHEMA as CLASSIFIED
from counterpoint.diagnose.collectives.requirement import Bound, classify
from counterpoint.diagnose.exposure.opportunities import Merger, StepEnd, at_ends, mergers
from counterpoint.diagnose.exposure.synchrony import SyncReason, synchronous
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.savings import savings_of
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.kernel_names import kernel_label

if TYPE_CHECKING:
    from collections.abc import Mapping


EXPOSED: Final = "STEP101"
SYNCHRONOUS: Final = "STEP102"
SMALL: Final = "STEP103"
AT_END: Final = "STEP104"
BANDWIDTH: Final = "STEP106"
LATE_RANK: Final = "STEP105"
LATENCY: Final = "STEP107"
BETWEEN_SLICES: Final = "STEP201"

_BOUNDS: Final = {Bound.BANDWIDTH: BANDWIDTH, Bound.LATENCY: LATENCY}
_CLASSIFIED_COLUMNS: Final = (
    "wire_bytes", "movable_ms", "required_gbps", "achieved_gbps", "capacity_gbps", "bound", "why",
    "own_bound", "own_why",
)  # fmt: skip

SCHEMA: Final = {
    **{name: kind for name, kind in CLASSIFIED.items() if not name.startswith("own_")},
    "code": pl.String,
    "causes": pl.List(
        pl.Struct({"bound": pl.String, "ms": pl.Float64, "code": pl.String, "why": pl.String})
    ),
}
"""Schema of `causes`."""


@dataclass(frozen=True, slots=True, eq=False)
class ExposureShares:
    """Exposed collectives by rule; `rows` have `late_ms`, `own_ms` and `code`."""

    rows: tuple[dict[str, Any], ...]
    synchronous: Mapping[str, SyncReason]
    mergers: tuple[Merger, ...]
    ends: Mapping[str, StepEnd]

    def of(self, code: str) -> list[dict[str, Any]]:
        """Return the collectives that a rule reports, most expensive first."""
        own = [row for row in self.rows if row["code"] == code]
        return sorted(own, key=lambda row: -row["own_ms"])


def shares_of(data: StepData) -> ExposureShares:
    """Return the shares of all collectives of the typical steps."""
    rows = _exposed(data)
    slices = set(host_transfers(data.timeline).select("program", "name").unique().rows())
    between = [row for row in rows if (row["program"], row["op"]) in slices]
    within = [row for row in rows if (row["program"], row["op"]) not in slices]
    own = [row for row in within if row["program"] == data.timeline.step_program]
    why = synchronous(data, own)
    merged = mergers(data, own)
    small = {name for merger in merged for names in merger.sets for name in names}
    ends = at_ends(data, own)
    for row in between:
        row["code"] = BETWEEN_SLICES if row["own_ms"] > 0 else None
    for row in within:
        in_step = row["program"] == data.timeline.step_program
        name = str(row["op"]) if in_step else ""
        row["code"] = _code(row, why.get(name), small=name in small, at_end=name in ends)
    return ExposureShares(tuple(rows), why, merged, ends)


def causes(data: StepData) -> pl.DataFrame:
    """Add causes that depend on a collective's place in the program to `classify`.

    This is the one classification that `network` shows and rules use. `causes` splits the exposed
    time as rules do, largest part first; `bound`, `why` and `code` are those of the first. `code`
    is that of the rule that reports a cause; null if there is none.
    """
    shares = data.cached(shares_of)
    known = {(row["program"], row["op"]): row for row in shares.rows}
    rows = [
        _with_causes(shares, row, known.get((row["program"], row["op"])))
        for row in data.cached(classify).to_dicts()
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _with_causes(
    shares: ExposureShares, row: dict[str, Any], known: dict[str, Any] | None
) -> dict[str, Any]:
    if known is None:  # nothing of it is exposed
        return {**row, "code": None, "causes": []}
    late: dict[str, Any] = {
        "bound": Bound.LATE_RANK,
        "ms": known["late_ms"],
        "code": LATE_RANK,
        "why": f"{known['late_ms']:.3g} of {known['exposed_ms']:.3g} ms exposed pass before the"
        " last device arrives",
    }
    split = [late, {**_own_cause(shares, row, known["code"]), "ms": known["own_ms"]}]
    causes = sorted((cause for cause in split if cause["ms"] > 0), key=lambda cause: -cause["ms"])
    first = {name: causes[0][name] for name in ("bound", "why", "code")}
    return {**row, **first, "causes": causes}


def _own_cause(shares: ExposureShares, row: dict[str, Any], code: str | None) -> dict[str, Any]:
    bound, why = row["own_bound"], row["own_why"]
    if code == SMALL:
        bound, why = Bound.SMALL, "XLA's combiner merges it with others at a larger threshold"
    elif code == AT_END:
        bound, why = Bound.AT_END, f"{shares.ends[row['op']].beside}: little can overlap it"
    elif code == SYNCHRONOUS:
        bound, why = Bound.SYNCHRONOUS, shares.synchronous[row["op"]].why
    return {"bound": bound, "why": why, "code": code}


def _exposed(data: StepData) -> list[dict[str, Any]]:
    # Waiting while compute continues costs nothing. If slack would cover a transfer and part of it
    # is still exposed, a device arrived late.
    wait = pl.min_horizontal(pl.col("wait_ms").fill_null(0.0), "exposed_ms").clip(lower_bound=0.0)
    return (
        data.cached(collective_profile)
        .filter(pl.col("exposed_ms") > 0)
        .join(
            data.cached(classify).select("program", "op", *_CLASSIFIED_COLUMNS),
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
    """Return whether slack covers the collective, so that only gaps between ops remain."""
    slack = row["slack_ms"]
    covered = slack is not None and slack * row["count"] >= row["total_ms"]
    return row["bound"] in (Bound.HIDDEN, Bound.GAPS) or (
        row["bound"] == Bound.LATE_RANK and covered
    )


def _code(row: dict[str, Any], why: SyncReason | None, *, small: bool, at_end: bool) -> str | None:
    if row["own_ms"] <= 0 or _shows_by_gaps(row):
        return None
    if small:
        return SMALL
    tiny = is_tiny(row["wire_bytes"], row["transfer_ms"])
    requested = why is not None and why.by_setting
    if at_end and not tiny and not requested:
        return AT_END
    if requested or (why is not None and why.can_change):
        return SYNCHRONOUS
    # What is left of one that mostly waits for others has a bound too.
    bound = row["own_bound"] if tiny and row["bound"] == Bound.LATE_RANK else row["bound"]
    return _BOUNDS.get(bound, EXPOSED if why is None else SYNCHRONOUS)


_SHOWN: Final = 5

_LITTLE: Final = 0.1
"""Share of exposed time below which moving other work beside collectives is no remedy."""

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Saving:
    """Milliseconds of a median step, and their basis."""

    ms: Range
    basis: Basis


def exposed_ms(rows: Rows) -> float:
    """Return the exposed time of the collectives, without waiting for late devices."""
    return sum(row["own_ms"] for row in rows)


def hiding(data: StepData, rows: Rows) -> Saving:
    """Return the gain if the collectives overlapped compute: at most known independent work.

    None of it is certain: the scheduler may lack memory or accurate costs. If there is next to no
    such work, only removing them helps, or overlapping them with the next iteration of their loop.
    """
    gone = removing(data, rows)
    covered = _covered(rows)
    if covered is None or covered < _LITTLE * gone.ms.high:
        return gone
    return Saving(Range(0.0, min(gone.ms.high, covered)), gone.basis)


def meanwhile(data: StepData, rows: Rows) -> str:
    """Describe what the current schedule would allow; empty if the simulator cannot tell."""
    step = data.timeline.step_program
    gain = data.cached(savings_of).beside(row["op"] for row in rows if row["program"] == step)
    covered = _covered(rows)
    if gain is None or covered is None:
        return ""
    high = min(gain.high, covered)  # no more than there is work that could overlap them
    if high < _LITTLE * exposed_ms(rows):
        return ""
    them = "it" if len(rows) == 1 else f"all {len(rows):,} collectives of this finding"
    low, high = (f"{ms:,.2f}" for ms in (min(gain.low, high), high))
    return (
        f". In the current order, overlapping {them} with all work that does not depend"
        f" on {'it' if len(rows) == 1 else 'them'} would gain"
        f" {low if low == high else f'{low} to {high}'} ms per step"
    )


def _covered(rows: Rows) -> float | None:
    """Return the time other work could cover, added up: the same work may cover several."""
    if any(row["movable_ms"] is None for row in rows):
        return None
    return sum(min(row["own_ms"], row["movable_ms"] * row["count"]) for row in rows)


def removing(data: StepData, rows: Rows) -> Saving:
    """Return the gain if the collectives took no time: simulated, at most the exposed time."""
    exposed = exposed_ms(rows)
    step = data.timeline.step_program
    gain = data.cached(savings_of).without(row["op"] for row in rows if row["program"] == step)
    if gain is None:
        return Saving(Range(0.0, exposed), data.basis)
    high = min(gain.high, exposed)
    return Saving(Range(min(gain.low, high), high), Basis.PREDICTED)


def lessening(data: StepData, rows: Rows, share: float) -> Saving:
    """Return the gain if the collectives took less by at most `share`."""
    gone = removing(data, rows)
    return Saving(Range(0.0, gone.ms.high * share), gone.basis)


def evidence(data: StepData, rows: Rows, ms: str = "own_ms") -> tuple[Evidence, ...]:
    """Return the most expensive collectives as evidence."""
    return tuple(
        replace(data.evidence(row, ms), what=kernel_label(str(row["op"]))) for row in rows[:_SHOWN]
    )


def kinds(rows: Rows) -> str:
    """Return the kinds as text, most expensive first: `all-gather and reduce-scatter`."""
    sums: dict[str, float] = {}
    for row in rows:
        kind = "communication" if row["kind"] in (None, "unknown") else str(row["kind"])
        sums[kind] = sums.get(kind, 0.0) + row["own_ms"]
    named = sorted(sums, key=lambda kind: -sums[kind])
    most = named[:3]
    return " and ".join([", ".join(most[:-1]), most[-1]] if len(most) > 1 else most)


def longest_chain(data: StepData, names: Collection[str]) -> int:
    """Return the length of the longest dependency chain among these instructions.

    Chains are within one computation of the step's program: what a loop repeats counts once. 0
    without HLO.
    """
    program = data.program
    if program is None:
        return 0
    selected = {
        instruction.name: instruction
        for name in names
        if (instruction := program.instruction(name)) is not None
    }
    longest = 0
    for computation in {instruction.computation for instruction in selected.values()}:
        depth: dict[str, int] = {}
        for instruction in program.computations[computation].instructions:  # operands precede users
            before = max((depth.get(name, 0) for name in instruction.operands), default=0)
            depth[instruction.name] = before + (instruction.name in selected)
        longest = max(longest, *depth.values())
    return longest
