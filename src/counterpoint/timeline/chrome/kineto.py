"""What PyTorch's profiler (Kineto) tells: bytes and ranks of collectives, frames of Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.collectives import bus_factor
from counterpoint.timeline.chrome.tracks import EventKind, integer

_KINDS: Final = {
    "reducescatter": "reduce-scatter",
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "alltoall": "all-to-all",
    "broadcast": "collective-broadcast",
    "send": "send/recv",
    "recv": "send/recv",
}
_BYTES: Final = {
    **dict.fromkeys(("Bool", "Byte", "Char"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
}
_NARROW: Final = "Float8"


_FRAME: Final = re.compile(
    r"(?:.*/)?(?P<file>[^/(]+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL
)
_BUILT_IN: Final = re.compile(r"<built-in (?:method|function) (\S+)")


def host_event_name(kind: EventKind) -> str:
    """Return the name of a host event; Python's functions are named as JAX's tracer names them.

    So what is known of Python's functions by their names holds for both: `$queues.py:103 get`.
    """
    if kind.cat != "python_function":
        return kind.name
    frame = _FRAME.fullmatch(kind.name)
    if frame is not None:
        return f"${frame['file']}:{frame['line']} {frame['function']}"
    built_in = _BUILT_IN.match(kind.name)
    return f"$<unknown> {built_in[1]}" if built_in else f"${kind.name}"


@dataclass(frozen=True, slots=True)
class SentData:
    """What one launch of a collective sends; its bytes count as in `hlo.collectives`."""

    kind: str
    bytes: int
    group_size: int

    @property
    def bus_factor(self) -> float | None:
        return bus_factor(self.kind, self.group_size)

    def named(self, kernel: str) -> str:
        """Return the name of the op: launches of one kernel with other sizes are other ops."""
        return f"{kernel.partition('(')[0]} {self.bytes:,} bytes, {self.group_size} ranks"


def sent_data(kind: EventKind) -> SentData | None:
    """Return what a kernel sends; None if the trace does not tell, or if it is no collective."""
    name = kind.sent_by.lower().replace("_", "") if isinstance(kind.sent_by, str) else ""
    collective = next((known for word, known in _KINDS.items() if word in name), None)
    into, out, ranks = map(integer, (kind.elements_in, kind.elements_out, kind.group_size))
    size = _size(kind.element_type)
    if collective is None or into is None or out is None or not ranks or size is None:
        return None
    elements = out if collective == "all-gather" else into
    return SentData(collective, elements * size, ranks) if elements > 0 else None


def _size(element_type: object) -> int | None:
    if not isinstance(element_type, str):
        return None
    return 1 if element_type.startswith(_NARROW) else _BYTES.get(element_type)
