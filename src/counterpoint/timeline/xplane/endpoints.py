"""Who takes part in a transfer between slices, as the profiler notes it beside the op.

DcnCollectiveInfoProto {1 transfer_type, 2 endpoint_groups {1 endpoints}, 3 one_to_one_groups}
Reference: xprof's plugin/xprof/protobuf/dcn_collective_info.proto.
"""

from __future__ import annotations

from typing import Final

from counterpoint.timeline.xplane.wire import LENGTH, Malformed, fields

COLLECTIVE_STAT: Final = "dcn_collective_info"

_GROUPS: Final = 2
_ENDPOINTS: Final = 1


def group_size(stat: object) -> int | None:
    """Endpoints of the first group; None where there is none, or it can't be read."""
    if not isinstance(stat, bytes):
        return None
    data = memoryview(stat)
    try:
        for number, wire, start, end in fields(data, 0, len(data)):
            if number == _GROUPS and wire == LENGTH:
                inside = fields(data, start, end)
                return sum(1 for field, kind, *_ in inside if (field, kind) == (_ENDPOINTS, LENGTH))
    except Malformed:
        return None
    return None
