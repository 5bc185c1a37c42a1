"""What a GPU kernel's annotations say of the instruction that launched it.

XLA annotates each launch: `XlaModule:#prefix=..,hlo_module=..,program_id=..#` outside and
`Thunk:#name=..,hlo_op=..#` inside; the profiler gives every key as a stat, the innermost winning.
Kernels of a CUDA graph carry the annotation of the graph's launch, which is no instruction of
theirs, unless the profiler was told what each node of the graph was built for.

Reference: xla/backends/gpu/runtime/annotation.cc, xla/backends/profiler/gpu/cupti_collector.cc.
"""

from __future__ import annotations

import re
from typing import Final

_NESTED: Final = "::"
_GRAPH: Final = "command_buffer"
_CALL: Final = re.compile(r"call(\.\d+)*$")

GRAPH_STAT: Final = "cuda_graph_id"
"""The stat that only work inside CUDA graphs has."""

LAUNCHED_PLAINLY: Final = "WARNING: CommandBuffer disabled when profiling"
"""A host event: XLA launches one by one what a CUDA graph launches when nobody profiles."""


def instruction(hlo_op: str | None, in_graph: bool) -> str | None:
    """The instruction behind the stat `hlo_op`, where it names one."""
    if hlo_op is None:
        return None
    innermost = hlo_op.rpartition(_NESTED)[2]
    if innermost.startswith(_GRAPH) or (in_graph and _CALL.match(innermost)):
        return None
    return innermost


def scope(prefix: str | None, name: str | None) -> str | None:
    """The whole scope; `name` lacks the prefix that all instructions of the module share."""
    if not prefix or not name:
        return prefix or name
    shares_root = name.partition("/")[0] == prefix.partition("/")[0]
    return name if shares_root else f"{prefix}/{name}"
