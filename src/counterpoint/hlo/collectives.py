"""Collectives: kind, number of bytes, number of devices.

Bytes follow the convention of nccl-tests, so that bandwidths compare with published ones: an
all-gather counts its whole output, a reduce-scatter its whole input, everything else its buffer.
Combined collectives count the sum. Bus bandwidth is bytes / time * `bus_factor`.

Transfers between TPU slices are collectives, too (transfers.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from counterpoint.hlo.model.groups import Groups, ListedGroups, expand, group_size
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.schedule import is_done, is_part_of_async, is_start, start_of
from counterpoint.hlo.transfers import UNKNOWN_KIND, Transfer, transfer_of

__all__ = [
    "KINDS",
    "PAIRWISE",
    "between_slices",
    "bus_factor",
    "collective",
    "device_groups",
    "pairs_by_number",
    "replica_groups",
]


KINDS = frozenset({
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "send", "recv",
})  # fmt: skip
PAIRWISE = ("collective-permute", "send", "recv")
_SEND_PAIRS = "_xla_send_recv_source_target_pairs"
_PAIR = re.compile(r"\{(\d{1,18}),\s*(\d{1,18})\}")


@dataclass(frozen=True, slots=True)
class Collective:
    """One launch of communication, possibly of several values combined."""

    kind: str
    bytes: int
    # None if the module does not name the participants.
    group_size: int | None
    is_async: bool
    channel_id: int | None
    # The instruction that carries it: a start for its done, the inner one for a fusion.
    instruction: str

    @property
    def bus_factor(self) -> float | None:
        """Bus bandwidth over algorithm bandwidth; None if the group is unknown."""
        return bus_factor(self.kind, self.group_size)


def bus_factor(kind: str | None, group_size: int | None) -> float | None:
    """Return what a device sends as a share of a collective's bytes; None: unknown."""
    if kind in ("collective-permute", "collective-broadcast", "send", "recv"):
        return 1.0
    if kind in (None, UNKNOWN_KIND) or not group_size:
        return None
    return (2 if kind == "all-reduce" else 1) * (group_size - 1) / group_size


def collective(program: Program, instruction: Instruction) -> Collective | None:
    """Return the collective that an instruction starts, runs or waits for.

    None if there is none.
    """
    return _collective(program, instruction) if may_communicate(instruction.opcode) else None


@cache
def may_communicate(opcode: str) -> bool:
    """Return whether instructions with this opcode can start, run or wait for a collective."""
    kind = opcode.removesuffix("-start")
    return kind in KINDS or kind in ("fusion", "async") or opcode.endswith(("-done", "-update"))


@cached_on_program
def _collective(program: Program, instruction: Instruction) -> Collective | None:
    transfer = transfer_of(program, instruction)
    if transfer is not None:
        return between_slices(transfer, instruction.channel_id)
    if is_done(instruction):
        start = start_of(program, instruction)
        return collective(program, start) if start else None
    kind = instruction.opcode.removesuffix("-start")
    if kind in KINDS:
        return None if instruction.is_host_transfer else _of(program, instruction, kind)
    if kind in ("fusion", "async"):
        return _inside(program, instruction)
    return None


def between_slices(transfer: Transfer, channel_id: int | None = None) -> Collective:
    """Return a transfer between TPU slices as the collective that it is, among slices."""
    counted = transfer.bytes(transfer.slices)
    return Collective(
        kind=transfer.kind,
        bytes=transfer.buffer_bytes if counted is None else counted,
        group_size=transfer.slices,
        is_async=True,
        channel_id=channel_id,
        instruction=transfer.name or "",
    )


def replica_groups(program: Program, instruction: Instruction) -> Groups:
    """Return the devices of every group, as replica * partitions + partition.

    () if not specified.
    """
    if instruction.groups is None:
        return _pair_groups(instruction)
    written = expand(instruction.groups)
    partitions, replicas = range(program.num_partitions), range(program.num_replicas)
    width = len(partitions)
    mode = _mode(instruction)
    if mode == "flattened":
        return written or (tuple(range(width * len(replicas))),)
    if mode == "partitions":
        groups = written or (tuple(partitions),)
        return tuple(tuple(r * width + p for p in group) for r in replicas for group in groups)
    groups = written or (tuple(replicas),)
    if mode == "replicas":
        return tuple(tuple(r * width + p for r in group) for p in partitions for group in groups)
    return tuple(tuple(r * width + p for r in group for p in partitions) for group in groups)


def device_groups(program: Program, instruction: Instruction) -> Groups:
    """Return the devices of every group by their own numbers, host by host; () if not specified."""
    groups = replica_groups(program, instruction)
    if not program.device_order:
        return groups
    return tuple(tuple(map(program.device, group)) for group in groups)


def _mode(instruction: Instruction) -> str:
    """Return the meaning of ids in replica groups (CollectiveOpGroupMode in xla_data.proto)."""
    if instruction.use_global_device_ids:
        return "flattened"
    if instruction.channel_id is None:
        return "replicas"
    reduces = instruction.opcode.startswith(("all-reduce", "all-gather", "reduce-scatter"))
    return "replicas and partitions" if reduces else "partitions"


def _of(program: Program, instruction: Instruction, kind: str) -> Collective:
    return Collective(
        kind=kind,
        bytes=_bytes(program, instruction, kind),
        group_size=_group_size(program, instruction, kind),
        is_async=is_start(instruction) and not instruction.is_sync,
        channel_id=instruction.channel_id,
        instruction=instruction.name,
    )


def _inside(program: Program, instruction: Instruction) -> Collective | None:
    """Return the collective in a fusion (TPU) or in an async computation.

    The largest of several.
    """
    body = program.body(instruction)
    collectives = [
        inner
        for member in body
        if (inner := collective(program, member))
        and not is_done(member)
        and not is_part_of_async(member)
    ]
    if not collectives:
        return None
    first = max(collectives, key=lambda inner: inner.bytes)
    # libtpu names its emitter, AllReduceScatterFusion, only with the machine code.
    sums = {it.name for it in body if first.instruction in (it.name, *it.operands)}
    keeps_part = first.kind == "all-reduce" and any(
        it.opcode == "dynamic-slice" and it.operands[0] in sums for it in body
    )
    return Collective(
        kind="reduce-scatter" if keeps_part else first.kind,
        bytes=sum(inner.bytes for inner in collectives if inner.kind == first.kind),
        group_size=first.group_size,
        is_async=is_start(instruction) or first.is_async,
        channel_id=first.channel_id,
        instruction=first.instruction,
    )


def _bytes(program: Program, instruction: Instruction, kind: str) -> int:
    if kind in ("all-gather", "recv"):
        whole = instruction.shape
        # A start is typed (inputs, outputs, ...), a recv (value, context, token).
        picked = 1 if kind == "all-gather" else 0
        if is_start(instruction) and len(whole.parts) > picked:
            return whole.parts[picked].bytes
        return whole.bytes
    values = [operand.shape for operand in program.operands(instruction)]
    if kind in ("send", "ragged-all-to-all"):
        values = values[:1]
    elif kind == "collective-permute" and any(
        shape.dtype == "s32" and not shape.dims for shape in values
    ):
        # In place: (input, output, where from, where to).
        values = values[:1]
    return sum(value.bytes for value in values)


def _group_size(program: Program, instruction: Instruction, kind: str) -> int | None:
    if kind in PAIRWISE:
        return max(map(len, _pair_groups(instruction)), default=None)
    groups = instruction.groups
    if groups is None:
        return None
    if groups == ListedGroups(()):
        return len(replica_groups(program, instruction)[0])
    size = group_size(groups)
    if size is None:
        return max(map(len, expand(groups)), default=None)
    whole = _mode(instruction) == "replicas and partitions"
    return size * program.num_partitions if whole else size


def pairs_by_number(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """Return who sends to whom, as the instruction counts devices; () if not specified."""
    written = dict(instruction.frontend_attributes).get(_SEND_PAIRS, "")
    return instruction.source_target_pairs or tuple(
        (int(a), int(b)) for a, b in _PAIR.findall(written)
    )


def _pair_groups(instruction: Instruction) -> Groups:
    """Group the devices that reach each other through source-target pairs."""
    group_of: dict[int, set[int]] = {}
    for source, target in pairs_by_number(instruction):
        left = group_of.setdefault(source, {source})
        right = group_of.setdefault(target, {target})
        if left is not right:
            left |= right
            for device in right:
                group_of[device] = left
    groups = {id(group): tuple(sorted(group)) for group in group_of.values()}
    return tuple(sorted(groups.values()))
