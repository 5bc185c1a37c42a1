"""Category, lane, collective and source position of each op of a Timeline."""

from counterpoint.timeline.ops.operations import describe_ops as describe_ops
from counterpoint.timeline.ops.operations import host_transfers as host_transfers
from counterpoint.timeline.ops.operations import lane as lane
