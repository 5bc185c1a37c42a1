"""RAW: transfers before it is known which device of this host is meant."""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.timeline.recording import TRANSFERS, Schema

RAW: Final[Schema] = {
    **TRANSFERS,
    "device": pl.Int64,  # by Megascale's own number
    "local_device_id": pl.Int64,
    "origin": pl.String,  # the runtime's "plane", or events on "host" threads
}
