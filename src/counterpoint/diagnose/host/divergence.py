"""Divergence: programs of one name that differ between hosts, in structure or in tuning.

Structure is what runs in which order; names, ids, fingerprints and metadata do not count. Tuning is
how an instruction is configured: the algorithm that autotuning chose, for example.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.core import parse_json
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.model import Timeline

_IDS: Final = ("operation_queue_id", "wait_on_operation_queues", "reification_cost", "stats")
"""Fields of backend configurations that do not change how an instruction runs."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Builds of one program that differ; the hosts of each, most common build first.

    `opcodes`: how many more of each the second build has (fewer: negative). `order`: both have the
    same instructions in a different order. `tuned`: instructions whose configuration differs.
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
        """True if more than tuning differs."""
        return self.order or bool(self.opcodes)


def divergences(timeline: Timeline) -> tuple[Divergence, ...]:
    """Compare all programs that ran on several hosts and whose HLO the profile contains.

    Names, ids, fingerprints and metadata are not compared: two compiles of one program number their
    instructions differently, and a line of Python that moved changes a fingerprint. Builds are the
    same if every computation has the same instructions in the same order with the same operands.
    They are only tuned differently if nothing but backend configurations differ (the algorithm of a
    GEMM, the tiles of a fusion), which happens when each rank autotunes by itself.
    """
    compared = (_compare(timeline, index) for index in range(len(timeline.programs)))
    return tuple(diff for diff in compared if diff is not None)


def _compare(timeline: Timeline, index: int) -> Divergence | None:
    entry = timeline.programs[index]
    builds = {id(variant): variant for variant in entry.variants.values()}
    if len(builds) < 2:
        return None
    read = {host: entry.hlo(host) for host in entry.variants}
    programs = {host: program for host, program in read.items() if program is not None}
    distinct = {id(program): program for program in programs.values()}
    keys = {
        number: (structure, _tuning(program))
        for (number, program), structure in zip(
            distinct.items(), structures([*distinct.values()]), strict=True
        )
    }
    groups: dict[tuple[int, int], list[int]] = {}
    for host, program in programs.items():
        groups.setdefault(keys[id(program)], []).append(host)
    if len(groups) < 2:
        return None
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    (first, _), (other, _) = ordered[0], ordered[1]
    one, two = (programs[hosts[0]] for _, hosts in ordered[:2])
    tuned = tuple(_retuned(one, two)) if first[0] == other[0] else ()
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


def _tuning(program: Program) -> int:
    return hash(tuple(_configuration(instruction) for instruction in _configured(program)))


def _configured(program: Program) -> Iterator[Instruction]:
    return (instruction for instruction in program.instructions if instruction.backend_config)


def _retuned(first: Program, second: Program) -> Iterator[str]:
    """Yield instructions of the first that are configured differently in the second."""
    pairs = zip(_configured(first), _configured(second), strict=False)
    return (a.name for a, b in pairs if _configuration(a) != _configuration(b))


def _configuration(instruction: Instruction) -> str:
    """Return the configuration as text, independent of the order of its keys."""
    try:
        read: Any = parse_json(instruction.backend_config)
    except ValueError:
        return instruction.backend_config
    if isinstance(read, dict):
        read = {name: value for name, value in read.items() if name not in _IDS}  # pyright: ignore[reportUnknownVariableType]
    return json.dumps(read, sort_keys=True)


def _opcodes(first: Program, second: Program) -> tuple[tuple[str, int], ...]:
    """Return the changes in opcode counts from first to second, largest first."""
    difference = Counter(instruction.opcode for instruction in second.instructions)
    difference.subtract(Counter(instruction.opcode for instruction in first.instructions))
    changed = [(opcode, count) for opcode, count in difference.items() if count]
    return tuple(sorted(changed, key=lambda change: (-abs(change[1]), change[0])))


def structures(programs: Sequence[Program]) -> list[int]:
    """Return a number for each program, equal for programs that do the same in the same order.

    Computations that programs share, as those of ranks tuned separately do, need no look inside.
    That may take equal ones for different, never the reverse, so only differences are confirmed.
    """
    shared = _shared(programs)
    numbers = [_structure(program, program.entry, {**shared}, {}) for program in programs]
    if len(set(numbers)) == 1 or not shared:
        return numbers
    return [_structure(program, program.entry, {}, {}) for program in programs]


def _shared(programs: Sequence[Program]) -> dict[str, int]:
    """Return a number for each computation that is one object in all programs, with its callees."""
    first, *others = programs
    shared: dict[str, int] = {}
    for name, computation in first.computations.items():  # callees precede their callers
        called = {name for member in computation.instructions for name in member.calls}
        if called <= shared.keys() and all(
            other.computations.get(name) is computation for other in others
        ):
            shared[name] = id(computation)
    return shared


def _structure(
    program: Program, computation: str, known: dict[str, int], shapes: dict[int, str]
) -> int:
    """Return a hash that is equal for computations that do the same in the same order.

    `shapes` has the texts of the program's shapes by identity: its instructions share few of them.
    """
    if computation not in known:
        body = program.computations[computation]
        place = {instruction.name: index for index, instruction in enumerate(body.instructions)}
        known[computation] = hash(
            (
                place.get(body.root),
                *(
                    _does(program, instruction, place, known, shapes)
                    for instruction in body.instructions
                ),
            )
        )
    return known[computation]


def _does(
    program: Program,
    instruction: Instruction,
    place: dict[str, int],
    known: dict[str, int],
    shapes: dict[int, str],
) -> int:
    shape = shapes.get(id(instruction.shape))
    if shape is None:
        shape = shapes[id(instruction.shape)] = str(instruction.shape)
    return hash(
        (
            instruction.opcode,
            shape,
            tuple([place.get(name) for name in instruction.operands]),
            tuple([_structure(program, called, known, shapes) for called in instruction.calls]),
            str(instruction.groups),
            instruction.source_target_pairs,
            instruction.custom_call_target,
            instruction.fusion_kind,
            instruction.parameter_number,
            instruction.tuple_index,
            instruction.literal,
            instruction.comparison,
            instruction.dimensions,
            instruction.dot,
            instruction.convolution,
        )
    )
