"""Transfers between TPU slices: collectives that Megascale's runtime on the host carries out.

A collective that leaves its TPU slice becomes a send to the host and a recv from it, each with its
done. The frontend attributes name the original collective, the rendezvous names all four (the dones
have no attributes: they belong to the start they wait for, or of the same channel), and
`_xla_megascale_target` names the slices: `{1,2}x{0:3}` are slices 1 and 2, each device with its
counterpart. Group sizes are counted in slices, because nothing goes over the network within a
slice. Reference: xprof's xspace_to_dcn_slack_analysis.cc. The host's own sends and receives
(callbacks, offload) are not included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import start_of

__all__ = ["Transfer", "transfer_of", "transfers"]

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
        every = list(_transfers(program))
        program.answers[key] = {
            name: transfer
            for transfer in every
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
    match = _SLICES.search(target)
    if match is None:
        return None
    count = 0
    for part in match[1].split(","):
        first, _, last = part.strip().partition(":")
        if first.isdecimal() and (last or first).isdecimal():
            count += max(int(last or first) - int(first) + 1, 0)
    return count or None
