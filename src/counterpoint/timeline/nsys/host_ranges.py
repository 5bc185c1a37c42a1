"""What host threads did: NVTX ranges and CUDA API calls, with names written once.

NVTX_EVENTS holds ranges (push/pop nest on a thread, start/end need not), marks and names of
domains. A text is either spelled out or registered (`textId`); the domain's name goes in front of
it, as Nsight's own reports write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.nsys.database import Database

RANGES: Final = "NVTX_EVENTS"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"

_PUSH_POP: Final = (59, 70)
_START_END: Final = (60, 71)
_DOMAIN: Final = 75
_PID: Final = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class HostRanges:
    """NVTX ranges, and their distinct `texts`.

    `ranges` has thread, start, end (null: open when the profile stopped), text (row of `texts`)
    and nests (push/pop).
    """

    ranges: pl.DataFrame
    texts: pl.Series


def read_ranges(database: Database, strings: pl.DataFrame) -> HostRanges:
    """Read NVTX_EVENTS; none where the table or its times are missing."""
    if not database.has(RANGES, "start", "end", "globalTid"):
        return HostRanges(_empty(), pl.Series("text", [], pl.String))
    numbers = ("start", "end", "eventType", "globalTid", "textId", "domainId")
    rows = database.read(RANGES, numbers, ("text",))
    registered = rows.select(id="textId").join(strings, on="id", how="left", maintain_order="left")[
        "value"
    ]
    rows = rows.with_columns(
        text=pl.coalesce(pl.col("text"), registered),
        pid=pl.col("globalTid") // _PID,
        kind=pl.col("eventType").fill_null(_PUSH_POP[0]),
    )
    domains = (
        rows.filter(pl.col("kind") == _DOMAIN)
        .select("pid", "domainId", domain="text")
        .unique(["pid", "domainId"], keep="first")
    )
    kept = rows.filter(
        pl.col("kind").is_in([*_PUSH_POP, *_START_END])
        & pl.all_horizontal(pl.col("start", "globalTid", "text").is_not_null())
    ).join(domains, on=["pid", "domainId"], how="left", maintain_order="left")
    prefix = pl.when(pl.col("domain").is_null()).then(pl.lit("")).otherwise(pl.col("domain") + ":")
    texts, codes = intern(kept.select(text=prefix + pl.col("text")).to_series())
    ranges = kept.select(
        "start",
        "end",
        thread="globalTid",
        text=codes,
        nests=pl.col("kind").is_in(_PUSH_POP),
    )
    return HostRanges(ranges, texts)


def _empty() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "start": pl.Int64,
            "end": pl.Int64,
            "thread": pl.Int64,
            "text": pl.UInt32,
            "nests": pl.Boolean,
        }
    )


def read_calls(database: Database, strings: pl.DataFrame) -> pl.DataFrame:
    """CUDA API calls: thread, pid, start, end, correlation, name."""
    needed = database.has(CALLS, "start", "end", "globalTid")
    calls = database.read(
        CALLS if needed else "", ("start", "end", "globalTid", "correlationId", "nameId")
    )
    name = calls.select(id="nameId").join(strings, on="id", how="left", maintain_order="left")
    return calls.select(
        "start",
        "end",
        thread="globalTid",
        pid=pl.col("globalTid") // _PID * _PID,
        correlation="correlationId",
        name=name["value"].fill_null("CUDA API call without a name"),
    ).filter(pl.all_horizontal(pl.col("start", "end", "thread").is_not_null()))


def intern(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The distinct texts, and for each row which of them it is."""
    frame = texts.alias("text").to_frame()
    distinct = frame.unique(maintain_order=True).with_row_index("code")
    codes = frame.join(distinct, on="text", how="left", maintain_order="left", nulls_equal=True)
    return distinct["text"], codes["code"]
