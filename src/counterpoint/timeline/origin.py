"""Where a host's tables come from: what is kept of a Recording when its columns are passed on.

Also the clock they count on. A host's times start anywhere: where the profile says when that was,
hosts are put on the scale of the first, so that what is left between them is what their clocks
differ by and not when each began to record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.timeline.device import Device
from counterpoint.timeline.recording import Recording

_FARTHEST_NS: Final = 1 << 50
"""13 days: hosts whose clocks are farther apart than this keep times of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a Recording says of itself. `content` is the same for profiles of the same spans."""

    source: str
    host: str
    devices: tuple[Device, ...]
    basis: Basis
    environment: Mapping[str, str]
    truncated: bool
    content: bytes | None  # None: it has no spans
    zero_ns: int | None  # when its time 0 was, since 1970 by its own clock
    first_ps: int | None
    last_ps: int | None

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """First start and last end of its spans, since 1970 by its own clock."""
        if self.zero_ns is None or self.first_ps is None or self.last_ps is None:
            return None
        return self.zero_ns + self.first_ps // 1000, self.zero_ns + self.last_ps // 1000


def origin_of(recording: Recording) -> Origin:
    """What is to be kept of a Recording."""
    spans = recording.spans
    first, last = spans["start_ps"].min(), (spans["start_ps"] + spans["dur_ps"]).max()
    return Origin(
        source=recording.source,
        host=recording.host,
        devices=recording.devices,
        basis=recording.basis,
        environment=recording.environment,
        truncated=recording.truncated,
        content=_content(recording) if len(spans) else None,
        zero_ns=recording.zero_ns,
        first_ps=first if isinstance(first, int) else None,
        last_ps=last if isinstance(last, int) else None,
    )


def _content(recording: Recording) -> bytes:
    who = [device.ordinal for device in recording.devices]  # ranks of one host are told apart
    digest = sha256(repr((who, recording.ops.rows())).encode())
    for name in ("device", "line", "op", "start_ps", "dur_ps"):
        digest.update(recording.spans[name].to_numpy().tobytes())
    return digest.digest()


def on_clock_of(first: Origin, own: Origin, recording: Recording) -> Recording:
    """The same Recording with times that count from where those of the first host do."""
    if first.zero_ns is None or own.zero_ns is None:
        return recording
    apart = own.zero_ns - first.zero_ns
    if not apart or abs(apart) > _FARTHEST_NS:
        return recording

    def later(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("start_ps") + apart * 1000)

    return replace(
        recording,
        spans=later(recording.spans),
        executions=later(recording.executions),
        markers=later(recording.markers),
        host_events=later(recording.host_events),
        transfers=later(recording.transfers),
    )
