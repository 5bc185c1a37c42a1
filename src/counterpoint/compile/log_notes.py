"""What a compiler's log says that changes what a step costs, in words of what it means.

The lines are XLA's warnings, which it prints at its default level: hlo_rematerialization.cc and
spmd_partitioner.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MEMORY: Final = re.compile(
    r"Can't reduce memory use below (?P<wanted>\S+) .*?only reduced to (?P<got>\S+)"
)
_REPLICATED: Final = re.compile(r"Involuntary full rematerialization\.(?P<rest>[^\n]*)")
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"')
_INSTRUCTION: Final = re.compile(r"HLO operation:? ?(?:%?([\w.-]+))")


def log_notes(log: str) -> Iterator[str]:
    """One note for each kind of warning, with the worst or the first of them."""
    tight = list(_MEMORY.finditer(log))
    if tight:
        wanted, got = tight[-1]["wanted"], tight[-1]["got"]
        yield (
            f"XLA could not bring the program's temporaries below {wanted}: {got} are left after"
            " recomputing what it could, so it may run out of memory"
        )
    replicated = list(_REPLICATED.finditer(log))
    if replicated:
        yield (
            f"{len(replicated)} tensors are gathered whole on every device, since XLA found no"
            f" other way between two shardings; the first: {_what(replicated[0]['rest'])}"
        )


def _what(line: str) -> str:
    scope = _OP_NAME.search(line)
    name = _INSTRUCTION.search(line)
    return scope[1] if scope else name[1] if name else line.strip()[:120]
