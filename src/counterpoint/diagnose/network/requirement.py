"""What each collective asks of the links against what they give, and what binds it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from counterpoint.diagnose.case import Case


class Bound(StrEnum):
    """What a collective's exposed time is due to."""

    HIDDEN = "hidden"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    SCHEDULE = "exposed by schedule"
    LATE_RANK = "waiting for a late rank"
    UNKNOWN = "unknown"


class Link(StrEnum):
    """What carries a collective."""

    DOMAIN = "domain"  # NVLink, Infinity Fabric, or PCIe where there is none
    NETWORK = "network"  # NICs between hosts
    ICI = "ici"  # between the chips of a TPU slice
    DCN = "dcn"  # between TPU slices
    HOST = "host"  # between a device and its host


SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "link": pl.String,  # of Link; null: not known who takes part
    "wire_bytes": pl.Float64,  # that one device sends over that link, per execution
    "slack_ms": pl.Float64,
    "slack_p5_ms": pl.Float64,
    "slack_p95_ms": pl.Float64,
    "no_slack_share": pl.Float64,  # of executions
    "movable_ms": pl.Float64,
    "required_gbps": pl.Float64,  # gigabytes per second; null: without slack no rate is enough
    "achieved_gbps": pl.Float64,
    "capacity_gbps": pl.Float64,  # of one device in one direction; null: nobody says
    "bound": pl.String,  # of Bound
    "why": pl.String,  # with the figures that it was told by
}


def classify(case: Case) -> pl.DataFrame:
    """One row per collective, in the order of `case.collectives`: SCHEMA."""
    del case
    return pl.DataFrame(schema=SCHEMA)
