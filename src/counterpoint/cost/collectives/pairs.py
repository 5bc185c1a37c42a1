"""Who sends to whom in a permute, a send or a recv, and what pattern that forms."""

from __future__ import annotations

import re
from typing import Final

from counterpoint.hlo import Instruction, Program

Pairs = tuple[tuple[int, int], ...]
_ATTRIBUTE: Final = "_xla_send_recv_source_target_pairs"
_PAIR: Final = re.compile(r"\{(\d{1,18}),\s*(\d{1,18})\}")


def pairs_of(program: Program, instruction: Instruction) -> Pairs:
    """Devices as replica * partitions + partition.

    A permute with a channel numbers partitions, and does the same in every replica; one without
    numbers replicas.
    """
    pairs = instruction.source_target_pairs
    if not pairs:
        written = dict(instruction.frontend_attributes).get(_ATTRIBUTE, "")
        pairs = tuple((int(a), int(b)) for a, b in _PAIR.findall(written))
    width, replicas = program.num_partitions, program.num_replicas
    if instruction.channel_id is None and width > 1:
        return tuple((a * width + p, b * width + p) for a, b in pairs for p in range(width))
    if replicas > 1:
        return tuple((r * width + a, r * width + b) for a, b in pairs for r in range(replicas))
    return pairs


def pattern(pairs: Pairs) -> str:
    """As the measured table names it: ring, pairs that swap, or one way."""
    sources, targets = {a for a, _ in pairs}, {b for _, b in pairs}
    if not sources & targets:
        return "one way"
    return "pairs" if {(b, a) for a, b in pairs} == set(pairs) else "ring"
