"""TOLD: events that tell of transfers, as a reader hands them over; and which those are."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from counterpoint.timeline.model import Action
from counterpoint.timeline.recording import Schema

PLANE: Final = "/device:CUSTOM:Megascale Trace"

NUMBERS: Final = (
    *("action_index", "action_duration_ns", "network_transport_latency_us", "input_size"),
    *("local_device_id", "dcn_source_slice_id", "dcn_source_per_slice_device_id"),
    *("dcn_destination_slice_id", "dcn_destination_per_slice_device_id"),
    *("duration_us", "payload_size_bytes", "buffer_size"),
)
TEXTS: Final = ("graph_key", "buffer_sizes", "dcn_label", "size")

TOLD: Final[Schema] = {
    "event": pl.String,  # its name
    "line": pl.UInt32,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
    **dict.fromkeys(NUMBERS, pl.Int64),
    **dict.fromkeys(TEXTS, pl.String),
}
"""Args that an event lacks are null."""

TELLING: Final = (
    *("MapDmaBuffer", "MegaScale:", "Megascale:"),
    *("DeviceToHost ", "NetworkSend ", "NetworkReceive ", "HostToDevice "),
)
"""How names of events begin that tell of transfers."""

_PREFIX: Final = "megascale:"
_MESSAGES: Final = {
    "communication transport receive": Action.RECEIVE,
    "communication transport send": Action.SEND,
    "device to host action": Action.DEVICE_TO_HOST,
    "host to device action": Action.HOST_TO_DEVICE,
    "memory copy": Action.MEMORY_COPY,
}
_MAP: Final = re.compile(r"\bMapDmaBuffer\b")
_TRANSPORT_LINE: Final = "communication transport"
_COPY: Final = re.compile(r"memory copy|memcpy", re.IGNORECASE)


def message_action(event: str) -> Action | None:
    """What a host event of that name tells of; None: of no transfer."""
    if event[: len(_PREFIX)].lower() == _PREFIX:
        known = _MESSAGES.get(event[len(_PREFIX) :].lower().strip(" ."))
        if known is not None:
            return known
    return Action.MAP_BUFFER if "MapDmaBuffer" in event and _MAP.search(event) else None


def is_transport(line: str) -> bool:
    """Whether a host line is one of Megascale's, on which every memory copy is a transfer's."""
    return _TRANSPORT_LINE in line.lower()


def is_copy(event: str) -> bool:
    """Whether an event on such a line copies memory."""
    return _COPY.search(event) is not None
