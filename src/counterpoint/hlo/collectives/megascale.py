"""Transfers between TPU slices: XLA's form of a collective that leaves its slice.

It becomes a send to the host and a recv from it, each with its done; Megascale's runtime on the
host does the rest. The frontend attributes name the collective it was, the rendezvous names all
four (the dones have no attributes: they belong to the start they wait for, or of the same channel),
and `_xla_megascale_target` names the slices: `{1,2}x{0:3}` are slices 1 and 2, each device with its
counterpart. Group sizes are counted in slices: within a slice nothing goes over the network.

Reference: xprof's xspace_to_dcn_slack_analysis.cc. The host's own sends and receives (callbacks,
offload) are not included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.schedule.loops import is_done, start_of

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


@dataclass(frozen=True, slots=True)
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


_SEARCH_LIMIT = 64
_CONTAINERS = ("fusion", "call", "async-start", "call-start", "fusion-start")


@cached_on_program
def origin_instruction(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the instruction whose op_name gives this one's origin; None if there is none.

    Compilers lose names: a fusion may have none while instructions inside it do, and a copy or a
    combined collective may stand between two that have one. Tried in order: the instruction itself,
    the heaviest named instruction that it calls (its root first), the nearest named producer, the
    nearest named user.
    """
    own = _own(program, instruction)
    if own:
        return own
    return _nearest(program, instruction, program.operands) or _nearest(
        program, instruction, program.users
    )


def _own(program: Program, instruction: Instruction, depth: int = 0) -> Instruction | None:
    if has_path_name(instruction):
        return instruction
    if is_done(instruction) and depth < 8:
        start = start_of(program, instruction)
        return _own(program, start, depth + 1) if start else None
    if instruction.opcode not in _CONTAINERS or not instruction.calls or depth > 8:
        return None
    root = program.root(instruction.calls[0])
    if root and has_path_name(root):
        return root
    named = [member for member in program.body(instruction) if has_path_name(member)]
    if named:
        return max(named, key=_weight)
    inner = (
        _own(program, member, depth + 1) for member in program.body(instruction) if member.calls
    )
    return next((found for found in inner if found), None)


def has_path_name(instruction: Instruction) -> bool:
    """Return whether its op_name is a path.

    A parameter's op_name is its argument, others are XLA's own names.
    """
    return "/" in instruction.op_name and instruction.opcode not in ("parameter", "constant")


def _weight(instruction: Instruction) -> tuple[bool, int]:
    return instruction.opcode in ("dot", "convolution", "custom-call"), instruction.shape.bytes


def _nearest(
    program: Program,
    instruction: Instruction,
    neighbours: Callable[[Instruction], Iterable[Instruction]],
) -> Instruction | None:
    """Search breadth first, up to a few dozen instructions."""
    front = [instruction]
    seen = {instruction.name}
    while front and len(seen) < _SEARCH_LIMIT:
        reached: list[Instruction] = []
        for candidate in (near for node in front for near in neighbours(node)):
            if candidate.name in seen:
                continue
            seen.add(candidate.name)
            found = _own(program, candidate)
            if found:
                return found
            if candidate.opcode not in ("parameter", "while", "conditional"):
                reached.append(candidate)
        front = reached
    return None
