"""What each op of a Timeline is: category, lane, collective and place in the code."""

from counterpoint.timeline.ops.operations import describe_ops as describe_ops
from counterpoint.timeline.ops.operations import host_transfers as host_transfers
from counterpoint.timeline.ops.operations import lane as lane
