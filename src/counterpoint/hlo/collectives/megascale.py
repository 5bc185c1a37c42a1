"""Transfers between TPU slices: what XLA makes of a collective that leaves its slice.

It becomes a send to the host and a recv from it, each with its done; Megascale's runtime on the
host does the rest. The frontend attributes say which collective it was, the rendezvous names all
four (the dones carry nothing: they belong to the start they wait for, or of the same channel), and
`_xla_megascale_target` says among which slices: `{1,2}x{0:3}` are slices 1 and 2, each device with
its like. Group sizes are counted in slices: inside of them nothing goes over the network.

Reference: xprof's xspace_to_dcn_slack_analysis.cc. Sends and receives of the host's own (callbacks,
offload) are not meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, remembered
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
    """One collective between slices; instructions that the program lacks are null."""

    kind: str
    rendezvous: str | None
    slices: int | None
    buffer_bytes: int  # of what a device receives; of what it sends where nothing is received
    received: bool  # whether `buffer_bytes` is of the recv
    send: str | None = None
    send_done: str | None = None
    recv: str | None = None
    recv_done: str | None = None

    @property
    def name(self) -> str | None:
        """What all four go by: the instruction that begins it."""
        return self.send or self.recv

    def bytes(self, slices: int | None) -> int | None:
        """As nccl-tests counts: an all-gather's output, a reduce-scatter's input, else the buffer.

        Times the bus factor that is what one device sends over the network.
        """
        whole = {"all-gather": self.received, "reduce-scatter": not self.received}
        if whole.get(self.kind, True):
            return self.buffer_bytes
        return self.buffer_bytes * slices if slices else None


def transfer_of(program: Program, instruction: Instruction) -> Transfer | None:
    """The transfer that a send, a recv or one of their dones is part of."""
    return transfers(program).get(instruction.name)


def transfers(program: Program) -> Mapping[str, Transfer]:
    """All transfers between slices, by the name of each instruction that is part of one."""
    key = "megascale_transfers"
    if key not in program.answers:
        found = list(_transfers(program))
        program.answers[key] = {
            name: one
            for one in found
            for name in (one.send, one.send_done, one.recv, one.recv_done)
            if name is not None
        }
    known: Mapping[str, Transfer] = program.answers[key]
    return known


def _transfers(program: Program) -> Iterator[Transfer]:
    starts = [it for it in program.instructions if it.opcode in _STARTS and _is_between_slices(it)]
    if not starts:
        return
    dones = _dones(program, starts)
    by_rendezvous: dict[str, dict[str, list[Instruction]]] = {}
    for it in starts:
        # Without a rendezvous nobody can tell which recv answers which send.
        named = dict(it.frontend_attributes).get(_RENDEZVOUS) or f" {it.name}"
        by_rendezvous.setdefault(named, {}).setdefault(it.opcode, []).append(it)
    for rendezvous, of in by_rendezvous.items():
        for send, recv in zip_longest(of.get("send", []), of.get("recv", [])):
            yield _transfer(rendezvous, send, recv, dones)


def _is_between_slices(it: Instruction) -> bool:
    attributes = dict(it.frontend_attributes)
    return _TYPE in attributes or attributes.get(_HANDLER[0]) == _HANDLER[1]


def _dones(program: Program, starts: list[Instruction]) -> dict[str, str]:
    """Names of starts to names of their dones: by operand, else by channel."""
    names = {it.name for it in starts}
    by_channel = {(it.opcode, it.channel_id): it.name for it in starts if it.channel_id}
    dones: dict[str, str] = {}
    for it in program.instructions:
        if it.opcode in _DONES:
            start = start_of(program, it)
            told = by_channel.get((_DONES[it.opcode], it.channel_id or 0))
            waits_for = start.name if start else told
            if waits_for in names:
                dones[waits_for] = it.name
    return dones


def _transfer(
    rendezvous: str, send: Instruction | None, recv: Instruction | None, dones: Mapping[str, str]
) -> Transfer:
    attributes = {
        key: value for it in (recv, send) if it for key, value in it.frontend_attributes if value
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
    """Both are typed (value, context, token)."""
    return it.shape.parts[0].bytes if it.shape.parts else it.shape.bytes


def _count_slices(target: str) -> int | None:
    """How many slices `{1,2}x{0:3}` or `{1:4}x{0:7}` names."""
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


@remembered
def speaker(program: Program, instruction: Instruction) -> Instruction | None:
    """The instruction whose op_name tells where this one comes from; None when none does."""
    own = _own(program, instruction)
    if own:
        return own
    return _nearest(program, instruction, program.operands) or _nearest(
        program, instruction, program.users
    )


def _own(program: Program, instruction: Instruction, depth: int = 0) -> Instruction | None:
    if tells(instruction):
        return instruction
    if is_done(instruction) and depth < 8:
        start = start_of(program, instruction)
        return _own(program, start, depth + 1) if start else None
    if instruction.opcode not in _CONTAINERS or not instruction.calls or depth > 8:
        return None
    root = program.root(instruction.calls[0])
    if root and tells(root):
        return root
    named = [it for it in program.body(instruction) if tells(it)]
    if named:
        return max(named, key=_weight)
    inner = (_own(program, it, depth + 1) for it in program.body(instruction) if it.calls)
    return next((found for found in inner if found), None)


def tells(instruction: Instruction) -> bool:
    """Whether its op_name is a path: a parameter's is its argument, others are XLA's own names."""
    return "/" in instruction.op_name and instruction.opcode not in ("parameter", "constant")


def _weight(instruction: Instruction) -> tuple[bool, int]:
    return instruction.opcode in ("dot", "convolution", "custom-call"), instruction.shape.bytes


def _nearest(
    program: Program,
    instruction: Instruction,
    neighbours: Callable[[Instruction], Iterable[Instruction]],
) -> Instruction | None:
    """Breadth first, a few dozen instructions far."""
    front = [instruction]
    seen = {instruction.name}
    while front and len(seen) < _SEARCH_LIMIT:
        reached: list[Instruction] = []
        for it in (near for one in front for near in neighbours(one)):
            if it.name in seen:
                continue
            seen.add(it.name)
            found = _own(program, it)
            if found:
                return found
            if it.opcode not in ("parameter", "while", "conditional"):
                reached.append(it)
        front = reached
    return None
