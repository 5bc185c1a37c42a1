"""Devices in the order of their numbers, without those on which nothing ran.

A host shows all devices it has, and a program may use one.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from counterpoint.timeline.recording import Recording


def without_idle_devices(recording: Recording) -> Recording:
    """The same Recording with its busy devices in order, and a note on the others."""
    used: list[int] = recording.spans["device"].unique().to_list()
    busy = sorted(used, key=lambda index: recording.devices[index].ordinal)
    if busy == list(range(len(recording.devices))):
        return recording
    new_index = {old: new for new, old in enumerate(busy)}

    renamed = pl.col("device").replace_strict(new_index, default=None, return_dtype=pl.UInt16)

    def renumbered(frame: pl.DataFrame) -> pl.DataFrame:
        kept = frame.filter(pl.col("device").is_in(busy) | pl.col("device").is_null())
        return kept.with_columns(renamed)

    idle = len(recording.devices) - len(busy)
    said = [f"{idle} of {len(recording.devices)} devices did nothing and are left out"]
    return replace(
        recording,
        devices=tuple(recording.devices[index] for index in busy),
        spans=renumbered(recording.spans),
        executions=renumbered(recording.executions),
        markers=renumbered(recording.markers),
        transfers=recording.transfers.with_columns(renamed),
        notes=(*recording.notes, *(said if idle else ())),
    )
