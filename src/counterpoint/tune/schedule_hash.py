"""`schedule_hash`: one short text for all that a scheduled program makes the device do.

Two compiles with equal hashes run the same instructions, in the same order, on the same shapes and
with the same choice of kernels: they differ in speed by noise alone. What only tells where an
instruction comes from, what it is called and what the scheduler thought of it does not count. Nor
do values that no cost depends on: the numbers in an array, the bounds of a slice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast

from counterpoint.core.documents import parse_json
from counterpoint.hlo import Program
from counterpoint.hlo.groups import Iota, Listed, Mesh, ReplicaGroups
from counterpoint.hlo.instruction import Instruction
from counterpoint.hlo.shape import Shape

_THOUGHTS: Final = frozenset({"force_earliest_schedule", "reification_cost"})
"""Keys of a backend config by which the scheduler leaves word: what it came to is in the order."""
_HINTS: Final = frozenset({"_scheduling_group_id", "fingerprint_before_lhs"})
_DIGITS: Final = 16


def schedule_hash(program: Program) -> str:
    """The same for two compiles that came to the same schedule, in 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=_DIGITS // 2)
    for line in _lines(program):
        digest.update(line.encode("utf-8", errors="surrogateescape"))
        digest.update(b"\n")
    return digest.hexdigest()


def _lines(program: Program) -> Iterator[str]:
    """The program as text: computations as they are first called, all names as numbers."""
    aliases = sorted((it.output, it.parameter, it.parameter_index) for it in program.aliases)
    yield repr((program.num_partitions, program.num_replicas, aliases))
    numbers = {program.entry: 0}
    waiting = [program.entry]
    channels: dict[int, int] = {}
    for name in waiting:
        computation = program.computations.get(name)
        if computation is None:
            continue
        members = {it.name: at for at, it in enumerate(computation.instructions)}
        yield f"computation {numbers[name]} {len(members)} {members.get(computation.root)}"
        for it in computation.instructions:
            for called in it.calls:
                if called not in numbers:
                    numbers[called] = len(numbers)
                    waiting.append(called)
            yield _line(it, members, numbers, channels)


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
    """What few instructions have."""
    found: list[str] = []
    if it.groups is not None:
        found.append(f"groups {_groups(it.groups)} {it.use_global_device_ids}")
    if it.frontend_attributes:
        told = sorted(pair for pair in it.frontend_attributes if pair[0] not in _HINTS)
        found += [f"{name}={value}" for name, value in told]
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
    """As they are written: one compiler writes the same groups in one way."""
    match groups:
        case Listed():
            return repr(groups.groups)
        case Iota():
            return repr((groups.count, groups.size, groups.reshape, groups.permutation))
        case Mesh():
            return repr((groups.sizes, groups.axes, groups.devices))


@lru_cache(maxsize=4096)
def _config(text: str) -> str:
    """A backend config in one order of its keys, without what the scheduler noted for itself."""
    try:
        made: object = parse_json(text)
    except ValueError:
        return repr(text)  # that of a custom call may be anything
    if not isinstance(made, dict):
        return repr(text)
    told = cast("dict[str, Any]", made)
    kept = {name: value for name, value in told.items() if name not in _THOUGHTS}
    return json.dumps(kept, sort_keys=True)
