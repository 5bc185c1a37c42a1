"""Divergence: hosts that run one program in different builds.

Names, ids, fingerprints and metadata say nothing: two compiles of one program number their
instructions differently, and a line of Python that moved changes a fingerprint. Two builds are the
same where every computation has the same instructions in the same order, reading each other in the
same way; they are tuned differently where only backend configurations differ (the algorithm of a
GEMM, the tiles of a fusion), which autotuning on each rank by itself brings about.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.core.documents import parse_json
from counterpoint.hlo import Program
from counterpoint.hlo.instruction import Instruction
from counterpoint.timeline.model import Timeline

_IDS: Final = ("operation_queue_id", "wait_on_operation_queues", "reification_cost", "stats")
"""Of backend configurations, what does not change how an instruction runs."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Builds of one program that differ; the hosts of each, the most common first.

    `opcodes`: how many more of each the second build has (fewer: negative). `order`: both have the
    same instructions, and in another order. `tuned`: instructions whose configuration differs.
    """

    program: int
    name: str
    hosts: tuple[tuple[int, ...], ...]
    instructions: tuple[int, ...]
    opcodes: tuple[tuple[str, int], ...]
    order: bool
    tuned: tuple[str, ...]

    @property
    def structural(self) -> bool:
        """More than tuning differs."""
        return self.order or bool(self.opcodes)


def divergences(timeline: Timeline) -> tuple[Divergence, ...]:
    """Of all programs that ran on several hosts and whose HLO the profile carries."""
    found = (_compare(timeline, index) for index in range(len(timeline.programs)))
    return tuple(it for it in found if it is not None)


def _compare(timeline: Timeline, index: int) -> Divergence | None:
    entry = timeline.programs[index]
    builds = {id(variant): variant for variant in entry.variants.values()}
    if len(builds) < 2:
        return None
    read = {host: entry.hlo(host) for host in entry.variants}
    programs = {host: program for host, program in read.items() if program is not None}
    groups: dict[tuple[int, int], list[int]] = {}
    for host, program in programs.items():
        key = (_structure(program, program.entry, {}), _tuning(program))
        groups.setdefault(key, []).append(host)
    if len(groups) < 2:
        return None
    ordered = sorted(groups.items(), key=lambda it: (-len(it[1]), it[1]))
    (first, _), (other, _) = ordered[0], ordered[1]
    one, two = (programs[hosts[0]] for _, hosts in ordered[:2])
    tuned = tuple(_tuned(one, two)) if first[0] == other[0] else ()
    opcodes = _opcodes(one, two)
    return Divergence(
        program=index,
        name=entry.name,
        hosts=tuple(tuple(hosts) for _, hosts in ordered),
        instructions=tuple(len(list(programs[hosts[0]].instructions)) for _, hosts in ordered),
        opcodes=opcodes,
        order=first[0] != other[0] and not opcodes,
        tuned=tuned,
    )


def _structure(program: Program, computation: str, known: dict[str, int]) -> int:
    """A number that is the same for computations that do the same in the same order."""
    if computation not in known:
        found = program.computations[computation]
        place = {it.name: at for at, it in enumerate(found.instructions)}
        known[computation] = hash(
            (
                place.get(found.root),
                *(_does(program, it, place, known) for it in found.instructions),
            )
        )
    return known[computation]


def _does(program: Program, it: Instruction, place: dict[str, int], known: dict[str, int]) -> int:
    return hash(
        (
            it.opcode,
            str(it.shape),
            tuple(place.get(name) for name in it.operands),
            tuple(_structure(program, one, known) for one in it.calls),
            str(it.groups),
            it.source_target_pairs,
            it.custom_call_target,
            it.fusion_kind,
            it.parameter_number,
            it.tuple_index,
            it.literal,
            it.comparison,
            it.dimensions,
            it.dot,
            it.convolution,
        )
    )


def _tuning(program: Program) -> int:
    return hash(tuple(_configuration(it) for it in _configured(program)))


def _configured(program: Program) -> Iterator[Instruction]:
    return (it for it in program.instructions if it.backend_config)


def _tuned(one: Program, two: Program) -> Iterator[str]:
    """Instructions of the first that are configured differently in the second."""
    pairs = zip(_configured(one), _configured(two), strict=False)
    return (a.name for a, b in pairs if _configuration(a) != _configuration(b))


def _configuration(it: Instruction) -> str:
    """As text, however its keys are ordered."""
    try:
        read: Any = parse_json(it.backend_config)
    except ValueError:
        return it.backend_config
    if isinstance(read, dict):
        read = {name: value for name, value in read.items() if name not in _IDS}  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(read, sort_keys=True)


def _opcodes(one: Program, two: Program) -> tuple[tuple[str, int], ...]:
    """What the second has more of, and fewer, the largest difference first."""
    difference = Counter(it.opcode for it in two.instructions)
    difference.subtract(Counter(it.opcode for it in one.instructions))
    changed = [(opcode, count) for opcode, count in difference.items() if count]
    return tuple(sorted(changed, key=lambda it: (-abs(it[1]), it[0])))
