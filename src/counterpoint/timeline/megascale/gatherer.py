"""Gatherer: rows of `Recording.transfers` from all events that tell of transfers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from counterpoint.timeline.device import Device
from counterpoint.timeline.megascale.actions import actions
from counterpoint.timeline.megascale.messages import messages
from counterpoint.timeline.megascale.raw import RAW
from counterpoint.timeline.model import Action
from counterpoint.timeline.recording import TRANSFERS

_TOLD_TWICE: Final = (
    Action.SEND,
    Action.RECEIVE,
    Action.DEVICE_TO_HOST,
    Action.HOST_TO_DEVICE,
)
_IN_SLICE: Final = 100_000
"""Megascale numbers devices slice x 100,000 + the device's place in its slice."""


class Gatherer:
    """Takes events as a reader meets them; `finish` makes the table."""

    def __init__(self) -> None:
        self._plane: list[pl.DataFrame] = []
        self._host: list[pl.DataFrame] = []
        self._actions: dict[str, Action] = {}

    def add_actions(self, told: pl.DataFrame) -> None:
        """Events of Megascale's own plane: TOLD."""
        self._plane.append(told)

    def add_messages(self, told: pl.DataFrame, tells: Mapping[str, Action]) -> None:
        """Events of host threads: TOLD, and what each name tells of."""
        self._host.append(told)
        self._actions.update(tells)

    def finish(self, devices: Sequence[Device]) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The table TRANSFERS, sorted by start, and notes."""
        plane, said = actions(pl.concat(self._plane)) if self._plane else (_none(), ())
        host, more = messages(pl.concat(self._host), self._actions) if self._host else (_none(), ())
        twice = set(plane["action"].unique()) & set(_TOLD_TWICE)
        host = host.filter(~pl.col("action").is_in([*twice]))
        placed = [_placed(part, devices) for part in (plane, host) if len(part)]
        notes = [*said, *more]
        rows = pl.concat([_none(), *placed])
        lost = rows.filter(pl.col("device").is_null() & pl.col("raw").is_not_null())
        if len(lost):
            notes.append(
                f"{len(lost):,} transfers are of devices that could not be told:"
                f" Megascale's numbers do not match the {len(devices)} of this profile"
            )
        return rows.select(*TRANSFERS).cast({**TRANSFERS}).sort("start_ps"), tuple(notes)


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={**RAW, "raw": pl.Int64})


def _placed(rows: pl.DataFrame, devices: Sequence[Device]) -> pl.DataFrame:
    """With the index of the device in `devices` in place of Megascale's number for it."""
    own = {device.ordinal: index for index, device in enumerate(devices) if device.kind == "tpu"}
    told = pl.col("local_device_id").replace_strict(own, default=None, return_dtype=pl.Int64)
    guessed = pl.col("device").replace_strict(
        _by_order(rows["device"], own), default=None, return_dtype=pl.Int64
    )
    return (
        rows.with_columns(raw="device")
        .with_columns(device=pl.coalesce(told, guessed))
        .select(*_none().columns)
    )


def _by_order(numbers: pl.Series, own: Mapping[int, int]) -> dict[int, int]:
    """Devices by Megascale's numbers: in their order, as xprof does (xspace_loader.cc).

    Where not all had transfers their places in the slice may still tell, counted round by host.
    """
    met: list[int] = sorted(numbers.drop_nulls().unique().to_list())
    ordinals = sorted(own)
    if len(met) == len(ordinals):
        return {number: own[ordinal] for number, ordinal in zip(met, ordinals, strict=True)}
    if not ordinals or len(met) > len(ordinals):
        return {}
    places = {number: ordinals[number % _IN_SLICE % len(ordinals)] for number in met}
    if len(set(places.values())) < len(met):
        return {}
    return {number: own[place] for number, place in places.items()}
