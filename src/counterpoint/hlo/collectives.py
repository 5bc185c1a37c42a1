"""Collectives: kind, number of bytes, number of devices; and transfers between TPU slices.

Bytes follow the convention of nccl-tests, so that bandwidths compare with published ones: an
all-gather counts its whole output, a reduce-scatter its whole input, everything else its buffer.
Combined collectives count the sum. Bus bandwidth is bytes / time * `bus_factor`.

A collective that leaves its TPU slice becomes a send to the host and a recv from it, each with its
done; Megascale's runtime on the host does the rest. The frontend attributes name the original
collective, the rendezvous names all four (the dones have no attributes: they belong to the start
they wait for, or of the same channel), and `_xla_megascale_target` names the slices: `{1,2}x{0:3}`
are slices 1 and 2, each device with its counterpart. Group sizes are counted in slices, because
nothing goes over the network within a slice. Reference: xprof's xspace_to_dcn_slack_analysis.cc.
The host's own sends and receives (callbacks, offload) are not included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import zip_longest
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.hlo.model.groups import Groups, ListedGroups, expand, group_size
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.schedule import is_done, is_part_of_async, is_start, start_of

__all__ = [
    "KINDS",
    "PAIRWISE",
    "Transfer",
    "between_slices",
    "bus_factor",
    "collective",
    "device_groups",
    "pairs_by_number",
    "replica_groups",
    "transfer_of",
    "transfers",
]


UNKNOWN_KIND: Final = "unknown"

_TYPE: Final = "_xla_megascale_transfer_type"
_RENDEZVOUS: Final = "_xla_host_transfer_rendezvous"
_TARGET: Final = "_xla_megascale_target"
_HANDLER: Final = ("_xla_host_transfer_handler_name", "xla_megascale_runtime")
_KINDS: Final = {
    "ONE_TO_ONE": "collective-permute",
    "ALL_TO_ALL": "all-to-all",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_GATHER": "all-gather",
    "ALL_REDUCE": "all-reduce",
    "RAGGED_ALL_TO_ALL": "ragged-all-to-all",
}
_STARTS: Final = ("send", "recv")
_DONES: Final = {"send-done": "send", "recv-done": "recv"}
_SLICES: Final = re.compile(r"\{([\d,:\s]+)\}\s*x")


@frozen
class Transfer:
    """One collective between slices; instructions that the program lacks are None."""

    kind: str
    rendezvous: str | None
    slices: int | None
    buffer_bytes: int  # of the data a device receives; of the data it sends if it receives none
    received: bool  # whether `buffer_bytes` is of the recv
    send: str | None = None
    send_done: str | None = None
    recv: str | None = None
    recv_done: str | None = None

    @property
    def name(self) -> str | None:
        """The name shared by all four: the instruction that begins it."""
        return self.send or self.recv

    def bytes(self, slices: int | None) -> int | None:
        """Count like nccl-tests: an all-gather's output, a reduce-scatter's input, else the buffer.

        Multiplied by the bus factor, this is what one device sends over the network.
        """
        whole = {"all-gather": self.received, "reduce-scatter": not self.received}
        if whole.get(self.kind, True):
            return self.buffer_bytes
        return self.buffer_bytes * slices if slices else None


def transfer_of(program: Program, instruction: Instruction) -> Transfer | None:
    """Return the transfer that a send, a recv or one of their dones is part of."""
    return transfers(program).get(instruction.name)


def transfers(program: Program) -> Mapping[str, Transfer]:
    """Return all transfers between slices, by the name of each instruction that is part of one."""
    key = "megascale_transfers"
    if key not in program.answers:
        found = list(_transfers(program))
        program.answers[key] = {
            name: transfer
            for transfer in found
            for name in (transfer.send, transfer.send_done, transfer.recv, transfer.recv_done)
            if name is not None
        }
    known: Mapping[str, Transfer] = program.answers[key]
    return known


def _transfers(program: Program) -> Iterator[Transfer]:
    starts = [
        start
        for start in program.instructions
        if start.opcode in _STARTS and _is_between_slices(start)
    ]
    if not starts:
        return
    dones = _dones(program, starts)
    by_rendezvous: dict[str, dict[str, list[Instruction]]] = {}
    for start in starts:
        # Without a rendezvous, sends and receives cannot be matched.
        named = dict(start.frontend_attributes).get(_RENDEZVOUS) or f" {start.name}"
        by_rendezvous.setdefault(named, {}).setdefault(start.opcode, []).append(start)
    for rendezvous, by_opcode in by_rendezvous.items():
        for send, recv in zip_longest(by_opcode.get("send", []), by_opcode.get("recv", [])):
            yield _transfer(rendezvous, send, recv, dones)


def _is_between_slices(it: Instruction) -> bool:
    attributes = dict(it.frontend_attributes)
    return _TYPE in attributes or attributes.get(_HANDLER[0]) == _HANDLER[1]


def _dones(program: Program, starts: list[Instruction]) -> dict[str, str]:
    """Map names of starts to names of their dones: by operand, else by channel."""
    names = {instruction.name for instruction in starts}
    by_channel = {
        (instruction.opcode, instruction.channel_id): instruction.name
        for instruction in starts
        if instruction.channel_id
    }
    dones: dict[str, str] = {}
    for instruction in program.instructions:
        if instruction.opcode in _DONES:
            start = start_of(program, instruction)
            by_channel_name = by_channel.get(
                (_DONES[instruction.opcode], instruction.channel_id or 0)
            )
            waits_for = start.name if start else by_channel_name
            if waits_for in names:
                dones[waits_for] = instruction.name
    return dones


def _transfer(
    rendezvous: str, send: Instruction | None, recv: Instruction | None, dones: Mapping[str, str]
) -> Transfer:
    attributes = {
        key: value
        for instruction in (recv, send)
        if instruction
        for key, value in instruction.frontend_attributes
        if value
    }
    carrier = recv or send
    return Transfer(
        kind=_KINDS.get(attributes.get(_TYPE, ""), UNKNOWN_KIND),
        rendezvous=rendezvous if not rendezvous.startswith(" ") else None,
        slices=_count_slices(attributes.get(_TARGET, "")),
        buffer_bytes=_buffer(carrier) if carrier else 0,
        received=recv is not None,
        send=send.name if send else None,
        send_done=dones.get(send.name) if send else None,
        recv=recv.name if recv else None,
        recv_done=dones.get(recv.name) if recv else None,
    )


def _buffer(it: Instruction) -> int:
    """Return the size of the value; both are typed (value, context, token)."""
    return it.shape.parts[0].bytes if it.shape.parts else it.shape.bytes


def _count_slices(target: str) -> int | None:
    """Return how many slices `{1,2}x{0:3}` or `{1:4}x{0:7}` names."""
    found = _SLICES.search(target)
    if found is None:
        return None
    count = 0
    for part in found[1].split(","):
        first, _, last = part.strip().partition(":")
        if first.isdecimal() and (last or first).isdecimal():
            count += max(int(last or first) - int(first) + 1, 0)
    return count or None


KINDS = frozenset({
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "send", "recv",
})  # fmt: skip
PAIRWISE = ("collective-permute", "send", "recv")
_SEND_PAIRS = "_xla_send_recv_source_target_pairs"
_PAIR = re.compile(r"\{(\d{1,18}),\s*(\d{1,18})\}")


@frozen
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
    found = [
        inner
        for member in body
        if (inner := collective(program, member))
        and not is_done(member)
        and not is_part_of_async(member)
    ]
    if not found:
        return None
    first = max(found, key=lambda inner: inner.bytes)
    # libtpu names its emitter, AllReduceScatterFusion, only with the machine code.
    sums = {it.name for it in body if first.instruction in (it.name, *it.operands)}
    keeps_part = first.kind == "all-reduce" and any(
        it.opcode == "dynamic-slice" and it.operands[0] in sums for it in body
    )
    return Collective(
        kind="reduce-scatter" if keeps_part else first.kind,
        bytes=sum(inner.bytes for inner in found if inner.kind == first.kind),
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
