"""Transfers between TPU slices, from Megascale's plane and from events on host threads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.model import Action, Device, Schema
from counterpoint.timeline.recording import TRANSFERS

RAW: Final[Schema] = {
    **TRANSFERS,
    "device": pl.Int64,  # by Megascale's own number
    "local_device_id": pl.Int64,
    "origin": pl.String,  # the runtime's "plane", or events on "host" threads
}


_ACTIONS: Final = {
    "DeviceToHost": Action.DEVICE_TO_HOST,
    "NetworkSend": Action.SEND,
    "NetworkReceive": Action.RECEIVE,
    "HostToDevice": Action.HOST_TO_DEVICE,
}
_NETWORK: Final = (Action.SEND, Action.RECEIVE)
_KEY: Final = r"^device_(\d{1,18})_gid_([^$]+)"
_CHUNK: Final = re.compile(r"s(\d{1,18})->(\d{1,18})d\|\$c\d+=(\d{1,15})(?!\d)")
_BARE_CHUNK: Final = re.compile(r"\$c\d+=(\d{1,15})(?!\d)")
_LONGEST_NS: Final = 1 << 50
_PS_PER_NS, _PS_PER_US = 1_000, 1_000_000


def actions(recorded: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[str]]:
    """Return rows of RAW for the ends of actions, and notes on the rest.

    Each execution of a collective on a device is a graph, `device_200001_gid_psum.7_0$l456^i78`:
    device 1 of slice 2, rendezvous `psum.7_0`, launch 456, iteration 78. Its actions leave an event
    when they start and one when they end. The duration of the end event itself is only display
    width; the action's is `action_duration_ns`, or counted from its START. That of a receive
    includes waiting for the sender; `network_transport_latency_us` is the transport alone, at its
    end.

    Reference: xprof's megascale_perfetto/trace_processor.cc and docs/megascale_viewer.md.
    """
    parts = pl.col("event").str.split(" ")
    named = recorded.with_row_index("at").with_columns(
        action=parts.list.first().replace_strict(_ACTIONS, default=None, return_dtype=pl.String),
        stage=parts.list.last(),
        device=pl.col("graph_key").str.extract(_KEY, 1).cast(pl.Int64),
        name=pl.col("graph_key").str.extract(_KEY, 2),
    )
    ends = _timed(named.filter(pl.col("action").is_not_null() & (pl.col("stage") == "END")), named)
    sized = ends.join(_sizes(ends["buffer_sizes"]), on="buffer_sizes", how="left")
    networked = pl.col("action").is_in(_NETWORK)
    rows = sized.with_columns(
        bytes=pl.when(networked)
        .then("network_bytes")
        .otherwise(pl.coalesce("all_bytes", "input_size")),
        latency_ps=_positive("network_transport_latency_us", _LONGEST_NS // 1000) * _PS_PER_US,
        peer=pl.when(pl.col("action") == Action.RECEIVE)
        .then("sources")
        .when(pl.col("action") == Action.SEND)
        .then("destinations"),
        origin=pl.lit("plane"),
    )
    stays = networked & pl.col("only_loopback").fill_null(False)
    loopback = rows.select(stays.sum()).item()
    notes = [f"{loopback:,} transfers of a device to itself are left out"] if loopback else []
    return rows.filter(~stays).select(*RAW).cast({**RAW}), notes


def _positive(name: str, most: int) -> pl.Expr:
    """Return the column where it is 1 to `most`, else null: clock skew makes differences wrap."""
    return pl.when(pl.col(name).is_between(1, most)).then(name)


def _timed(ends: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Return the ends with the start and duration of the whole action."""
    keys = ["graph_key", "action", "action_index"]
    turn = pl.int_range(pl.len()).over(keys)
    starts = (
        named.filter(pl.col("action").is_not_null() & (pl.col("stage") == "START"))
        .sort("start_ps")
        .select(*keys, turn.alias("turn"), began_ps="start_ps")
    )
    end = pl.col("start_ps") + pl.col("dur_ps")
    recorded = end - _positive("action_duration_ns", _LONGEST_NS) * _PS_PER_NS
    began = pl.when(pl.col("began_ps") <= end).then("began_ps")
    joined = (
        ends.sort("start_ps")
        .with_columns(turn=turn)
        .join(starts, on=[*keys, "turn"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(end_ps=end, start_ps=pl.coalesce(recorded, began, "start_ps"))
    )
    return joined.with_columns(dur_ps=pl.col("end_ps") - pl.col("start_ps"))


@dataclass(frozen=True, slots=True)
class _Sizes:
    buffer_sizes: str
    network_bytes: int | None
    all_bytes: int | None
    sources: str | None
    destinations: str | None
    only_loopback: bool


_SIZES: Final = {
    "buffer_sizes": pl.String,
    "network_bytes": pl.Int64,
    "all_bytes": pl.Int64,
    "sources": pl.String,
    "destinations": pl.String,
    "only_loopback": pl.Boolean,
}


def _sizes(texts: pl.Series) -> pl.DataFrame:
    """Parse each distinct text once: the same collective writes the same text many times."""
    rows = [_parse(text) for text in texts.drop_nulls().unique().to_list()]
    return pl.DataFrame(
        [tuple(getattr(row, name) for name in _SIZES) for row in rows], _SIZES, orient="row"
    )


def _parse(text: str) -> _Sizes:
    """Parse `s100001->200001d|$c0=1000`: device 1 of slice 1 to that of slice 2, chunk 0, bytes."""
    chunks = _CHUNK.findall(text)
    if not chunks:
        bare = [int(size) for size in _BARE_CHUNK.findall(text)]
        total = sum(bare) if bare else None
        return _Sizes(text, total, total, None, None, only_loopback=False)
    leaving = [chunk for chunk in chunks if chunk[0] != chunk[1]]
    return _Sizes(
        text,
        network_bytes=sum(int(size) for *_, size in leaving),
        all_bytes=sum(int(size) for *_, size in chunks),
        sources=_listed([source for source, *_ in leaving]),
        destinations=_listed([target for _, target, _ in leaving]),
        only_loopback=not leaving,
    )


def _listed(ids: list[str]) -> str | None:
    return ",".join(sorted(set(ids), key=int)) or None


_LONGEST_US: Final = 1 << 40
_SIZE: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGTPE]?)(i?)B?", re.IGNORECASE)
_POWERS: Final = " KMGTPE"


def messages(
    recorded: pl.DataFrame, actions: Mapping[str, Action]
) -> tuple[pl.DataFrame, Sequence[str]]:
    """Return rows of RAW, and notes; `actions` maps event names to actions.

    A message's event is placed at its arrival: it was sent `duration_us` before, by the sender's
    clock. If the clocks differ by more than the message took, `duration_us` is 0 and its time is
    unknown; a message within a slice uses no network. Both are left out, as in xprof
    (dcn_utils.cc), and counted.
    """
    rows = _with_sizes(recorded).with_columns(
        action=pl.col("event").replace_strict(actions, return_dtype=pl.String),
        loops=pl.col("dcn_source_slice_id") == pl.col("dcn_destination_slice_id"),
    )
    networked = pl.col("action").is_in(_NETWORK)
    skewed = networked & ~pl.col("duration_us").is_between(1, _LONGEST_US)
    loops = networked & pl.col("loops")
    kept = rows.filter(~skewed.fill_null(False) & ~loops.fill_null(False))
    apart, within = rows.select(skewed.sum(), loops.sum().alias("loops")).row(0)
    return _recorded_times(kept).select(*RAW).cast({**RAW}), _notes(apart or 0, within or 0)


def _notes(apart: int, within: int) -> list[str]:
    notes: list[str] = []
    if apart:
        notes.append(
            f"{apart:,} messages between slices have no duration: the clocks of their hosts differ"
            " by more than they took; they are left out"
        )
    if within:
        notes.append(f"{within:,} messages of a slice to itself are left out")
    return notes


def _recorded_times(rows: pl.DataFrame) -> pl.DataFrame:
    receives = pl.col("action") == Action.RECEIVE
    networked = pl.col("action").is_in(_NETWORK)
    recorded = pl.when(networked).then(pl.col("duration_us") * _PS_PER_US)
    own_end = pl.when(receives).then(pl.lit("destination")).otherwise(pl.lit("source"))
    return rows.with_columns(
        start_ps=pl.col("start_ps") - pl.when(receives).then(recorded.fill_null(0)).otherwise(0),
        dur_ps=pl.coalesce(recorded, "dur_ps"),
        latency_ps=pl.when(receives).then(recorded),
        name=pl.coalesce("dcn_label", "event"),
        device=pl.when(own_end == "destination")
        .then("dcn_destination_per_slice_device_id")
        .otherwise("dcn_source_per_slice_device_id"),
        peer=pl.when(receives)
        .then(_place("source"))
        .when(pl.col("action") == Action.SEND)
        .then(_place("destination")),
        origin=pl.lit("host"),
    )


def _place(end: str) -> pl.Expr:
    """Format a device of a slice as `slice/device`."""
    return pl.format("{}/{}", f"dcn_{end}_slice_id", f"dcn_{end}_per_slice_device_id")


def _with_sizes(recorded: pl.DataFrame) -> pl.DataFrame:
    known = {text: size_in_bytes(text) for text in recorded["size"].drop_nulls().unique().to_list()}
    read = pl.col("size").replace_strict(known, default=None, return_dtype=pl.Int64)
    return recorded.with_columns(bytes=pl.coalesce("payload_size_bytes", "buffer_size", read))


def size_in_bytes(text: str) -> int | None:
    """Parse `4.29GB` as bytes; the runtime rounds to three digits, in powers of 1000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    power = _POWERS.index(match[2].upper() or " ")
    size = float(match[1]) * (1024 if match[3] else 1000) ** power
    return round(size) if size < 1 << 62 else None


_RECORDED_TWICE: Final = (
    Action.SEND,
    Action.RECEIVE,
    Action.DEVICE_TO_HOST,
    Action.HOST_TO_DEVICE,
)
_IN_SLICE: Final = 100_000
"""Megascale numbers a device as slice x 100,000 + its position in the slice."""


class TransferCollector:
    """Collects events as a reader meets them; `finish` builds the table."""

    def __init__(self) -> None:
        self._plane: list[pl.DataFrame] = []
        self._host: list[pl.DataFrame] = []
        self._actions: dict[str, Action] = {}

    def add_actions(self, recorded: pl.DataFrame) -> None:
        """Add events of Megascale's own plane, as a table TRANSFER_EVENTS."""
        self._plane.append(recorded)

    def add_messages(self, recorded: pl.DataFrame, tells: Mapping[str, Action]) -> None:
        """Add events of host threads, as a table TRANSFER_EVENTS, with the action of each name."""
        self._host.append(recorded)
        self._actions.update(tells)

    def finish(self, devices: Sequence[Device]) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """Return the table TRANSFERS, sorted by start, and notes."""
        if not self._plane and not self._host:
            return pl.DataFrame(schema=TRANSFERS), ()
        plane, plane_notes = actions(pl.concat(self._plane)) if self._plane else (_none(), ())
        host, more = messages(pl.concat(self._host), self._actions) if self._host else (_none(), ())
        twice = set(plane["action"].unique()) & set(_RECORDED_TWICE)
        host = host.filter(~pl.col("action").is_in([*twice]))
        placed = [_placed(part, devices) for part in (plane, host) if len(part)]
        notes = [*plane_notes, *more]
        rows = pl.concat([_none(), *placed])
        lost = rows.filter(pl.col("device").is_null() & pl.col("raw").is_not_null())
        if len(lost):
            notes.append(
                f"{len(lost):,} transfers belong to unidentified devices:"
                f" Megascale's numbers do not match the {len(devices)} of this profile"
            )
        return rows.select(*TRANSFERS).cast({**TRANSFERS}).sort("start_ps"), tuple(notes)


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema={**RAW, "raw": pl.Int64})


def _placed(rows: pl.DataFrame, devices: Sequence[Device]) -> pl.DataFrame:
    """Replace Megascale's device number by the index of the device in `devices`."""
    own = {device.ordinal: index for index, device in enumerate(devices) if device.kind == "tpu"}
    recorded = pl.col("local_device_id").replace_strict(own, default=None, return_dtype=pl.Int64)
    guessed = pl.col("device").replace_strict(
        _by_order(rows["device"], own), default=None, return_dtype=pl.Int64
    )
    return (
        rows.with_columns(raw="device")
        .with_columns(device=pl.coalesce(recorded, guessed))
        .select(*_none().columns)
    )


def _by_order(numbers: pl.Series, own: Mapping[int, int]) -> dict[int, int]:
    """Map Megascale's device numbers to devices in order, as xprof does (xspace_loader.cc).

    If not all devices had transfers, positions in the slice, modulo the host's devices, may still
    identify them.
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


PLANE: Final = "/device:CUSTOM:Megascale Trace"

NUMBERS: Final = (
    *("action_index", "action_duration_ns", "network_transport_latency_us", "input_size"),
    *("local_device_id", "dcn_source_slice_id", "dcn_source_per_slice_device_id"),
    *("dcn_destination_slice_id", "dcn_destination_per_slice_device_id"),
    *("duration_us", "payload_size_bytes", "buffer_size"),
)
TEXTS: Final = ("graph_key", "buffer_sizes", "dcn_label", "size")

TRANSFER_EVENTS: Final[Schema] = {
    "event": pl.String,  # its name
    "line": pl.UInt32,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
    **dict.fromkeys(NUMBERS, pl.Int64),
    **dict.fromkeys(TEXTS, pl.String),
}
"""Null for args that an event lacks."""

TRANSFER_PREFIXES: Final = (
    *("MapDmaBuffer", "MegaScale:", "Megascale:"),
    *("DeviceToHost ", "NetworkSend ", "NetworkReceive ", "HostToDevice "),
)
"""Prefixes of the names of events that describe transfers."""

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
    """Return the action that a host event of this name describes; None for no transfer."""
    if event[: len(_PREFIX)].lower() == _PREFIX:
        known = _MESSAGES.get(event[len(_PREFIX) :].lower().strip(" ."))
        if known is not None:
            return known
    return Action.MAP_BUFFER if "MapDmaBuffer" in event and _MAP.search(event) else None


def is_transport(line: str) -> bool:
    """Return whether a host line is one of Megascale's, where every memory copy is a transfer's."""
    return _TRANSPORT_LINE in line.lower()


def is_copy(event: str) -> bool:
    """Return whether an event on such a line copies memory."""
    return _COPY.search(event) is not None
