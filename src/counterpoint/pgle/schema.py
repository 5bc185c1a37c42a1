"""XLA's ProfiledInstructionsProto, its message classes, and the names of files that hold one.

Fields from tsl/profiler/protobuf/profiled_instructions.proto, which has not changed since 2022.
"""

from __future__ import annotations

from typing import Final

from counterpoint.hlo.wire_schema import message_classes

MESSAGES: Final = message_classes(
    "counterpoint.pgle",
    """
    ProfiledInstructionsProto
      1 costs InstructionCost*
      2 latencies Latency*
    InstructionCost
      1 name string
      2 cost_us double
    Latency
      1 source string
      2 target string
      3 latency_us double
    """,
)

PROFILE: Final = MESSAGES["ProfiledInstructionsProto"]

TEXT: Final = ".pbtxt"
BINARY: Final = ".pb"
ENDINGS: Final = (TEXT, BINARY)
"""Names of files that XLA takes; every other it leaves out in silence."""
