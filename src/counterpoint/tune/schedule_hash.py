"""The hash of a scheduled program: equal for compiles that make the device do the same.

What tells only where an instruction comes from, what it is called, and what the scheduler thought
of it does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast

from counterpoint.core import parse_json
from counterpoint.hlo.model.groups import Iota, ListedGroups, Mesh, ReplicaGroups
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program

_SCHEDULER_NOTES: Final = frozenset({"force_earliest_schedule", "reification_cost"})
"""Backend config keys in which the scheduler keeps notes; their effect shows in the order."""
_SCHEDULER_HINTS: Final = frozenset({"_scheduling_group_id", "fingerprint_before_lhs"})
_DIGITS: Final = 16


def schedule_hash(program: Program) -> str:
    """Return 16 hexadecimal digits that are equal for compiles with the same schedule.

    Programs with equal hashes run the same instructions in the same order, on the same shapes and
    with the same kernels, so their speeds differ only by noise. Names, source locations and the
    scheduler's notes do not count, nor do values that no cost depends on: the numbers in an array,
    the bounds of a slice.
    """
    digest = hashlib.blake2b(digest_size=_DIGITS // 2)
    for line in _lines(program):
        digest.update(line.encode("utf-8", errors="surrogateescape"))
        digest.update(b"\n")
    return digest.hexdigest()


def _lines(program: Program) -> Iterator[str]:
    """Yield the program as text: computations in order of first call, all names as numbers."""
    aliases = sorted(
        (alias.output, alias.parameter, alias.parameter_index) for alias in program.aliases
    )
    yield repr((program.num_partitions, program.num_replicas, aliases))
    numbers = {program.entry: 0}
    waiting = [program.entry]
    channels: dict[int, int] = {}
    for name in waiting:
        computation = program.computations.get(name)
        if computation is None:
            continue
        members = {
            instruction.name: index for index, instruction in enumerate(computation.instructions)
        }
        yield f"computation {numbers[name]} {len(members)} {members.get(computation.root)}"
        for instruction in computation.instructions:
            for called in instruction.calls:
                if called not in numbers:
                    numbers[called] = len(numbers)
                    waiting.append(called)
            yield _line(instruction, members, numbers, channels)


def _line(
    it: Instruction, members: dict[str, int], numbers: dict[str, int], channels: dict[int, int]
) -> str:
    reads = " ".join([str(members.get(name)) for name in it.operands])
    calls = " ".join([str(numbers[name]) for name in it.calls])
    config = _config(it.backend_config) if it.backend_config else ""
    head = f"{it.opcode} {_shape(it.shape)} ({reads}) {{{calls}}} {config}"
    rest = _rest(it)
    if it.channel_id is not None:
        rest.append(f"channel {channels.setdefault(it.channel_id, len(channels))}")
    return f"{head} {' '.join(rest)}" if rest else head


def _rest(it: Instruction) -> list[str]:
    """Return the attributes that only few instructions have."""
    found: list[str] = []
    if it.groups is not None:
        found.append(f"groups {_groups(it.groups)} {it.use_global_device_ids}")
    if it.frontend_attributes:
        attributes = sorted(
            pair for pair in it.frontend_attributes if pair[0] not in _SCHEDULER_HINTS
        )
        found += [f"{name}={value}" for name, value in attributes]
    plain: tuple[tuple[str, object], ...] = (
        ("pairs", it.source_target_pairs),
        ("target", it.custom_call_target),
        ("kind", it.fusion_kind),
        ("comparison", it.comparison),
        ("dimensions", it.dimensions),
        ("dot", it.dot),
        ("convolution", it.convolution),
        ("host", it.is_host_transfer),
    )
    found += [f"{name} {value!r}" for name, value in plain if value]
    numbered = (
        ("parameter", it.parameter_number),
        ("element", it.tuple_index),
        ("literal", it.literal),
    )
    found += [f"{name} {value}" for name, value in numbered if value is not None]
    return found


@lru_cache(maxsize=4096)
def _shape(shape: Shape) -> str:
    if shape.parts:
        return f"({', '.join(map(_shape, shape.parts))})"
    return f"{shape}{shape.minor_to_major}{shape.memory_space}"


@lru_cache(maxsize=256)
def _groups(groups: ReplicaGroups) -> str:
    """Return the groups as written: the same compiler always writes equal groups alike."""
    match groups:
        case ListedGroups():
            return repr(groups.groups)
        case Iota():
            return repr((groups.count, groups.size, groups.reshape, groups.permutation))
        case Mesh():
            return repr((groups.sizes, groups.axes, groups.devices))


@lru_cache(maxsize=4096)
def _config(text: str) -> str:
    """Return a backend config with sorted keys, without the scheduler's own notes."""
    try:
        parsed: object = parse_json(text)
    except ValueError:
        return repr(text)  # a custom call's config may be anything
    if not isinstance(parsed, dict):
        return repr(text)
    config = cast("dict[str, Any]", parsed)
    significant = {name: value for name, value in config.items() if name not in _SCHEDULER_NOTES}
    return json.dumps(significant, sort_keys=True)
