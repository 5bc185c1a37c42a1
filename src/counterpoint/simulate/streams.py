"""Streams: which queue of the device an instruction runs on, by XLA's rules.

One main stream for everything that is not asynchronous, up to four more for asynchronous compute
(taken in turn), one for communication (more where XLA is asked for it: then pipelined sends and
receives have two of their own), and one each for copies to and from the host. Collectives that the
scheduler found nothing to overlap with are asynchronous in form only: they run on the main stream.

Source: xla/service/gpu/execution_stream_assignment.cc, thunk_emitter.cc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from counterpoint.hlo import Instruction, Program, Shape, category, collective, is_start
from counterpoint.hlo.category import Category

_COMPUTE_STREAMS: Final = 4
_HOST_MEMORY: Final = 5
_PIPELINED: Final = "_xla_send_recv_pipeline"
_ANNOTATED: Final = "_xla_stream_annotation"
_DOMAIN: Final = re.compile(r'"communication_domain"\s*:\s*"?([\w-]+)')


class Load(IntEnum):
    """What a piece of work keeps busy, so what it slows down."""

    COMPUTE = 0
    COLLECTIVE = 1
    HOST = 2  # the way between device and host


MAIN: Final = "main"
MAIN_STREAM: Final = 0


@dataclass(slots=True)
class Streams:
    """Gives streams out, in the order of the schedule. `names` has those in use, main first."""

    communication: int = 1
    names: list[str] = field(default_factory=lambda: [MAIN])
    _turns: dict[str, int] = field(default_factory=dict[str, int])

    def of(self, start: Instruction, load: Load) -> int:
        """The stream of an asynchronous instruction."""
        annotated = dict(start.frontend_attributes).get(_ANNOTATED, "")
        if load is Load.HOST:
            return self._number("copies to host" if _to_host(start) else "copies from host")
        if load is Load.COMPUTE:
            given = int(annotated) if annotated.isdecimal() else None
            turn = self._turn("compute", _COMPUTE_STREAMS) if given is None else given
            return self._number(f"compute {turn + 1}")
        if annotated.isdecimal():
            return self._number(f"communication {annotated}")
        return self._number(self._communication(start))

    def _communication(self, start: Instruction) -> str:
        pipelined = dict(start.frontend_attributes).get(_PIPELINED)
        if pipelined is not None and self.communication > 1:
            return f"communication {2 if pipelined == '1' else 1}"
        domain = _DOMAIN.search(start.backend_config)
        own = domain is not None and not domain[1].endswith("_UNSPECIFIED")
        pool = f"communication {domain[1]}" if domain and own else "communication"
        turn = self._turn(pool, self.communication)
        return f"{pool} {turn}" if turn else pool

    def _turn(self, pool: str, size: int) -> int:
        turn = self._turns.get(pool, 0)
        self._turns[pool] = (turn + 1) % size
        return turn

    def _number(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)


def load(program: Program, instruction: Instruction) -> Load:
    """What an instruction keeps busy."""
    if collective(program, instruction) is not None:
        return Load.COLLECTIVE
    if instruction.opcode.startswith("custom-call"):
        return Load.COMPUTE  # a callback: the stream waits for Python, nothing crosses for long
    if category(program, instruction) is Category.HOST or _moves_to_host(program, instruction):
        return Load.HOST
    return Load.COMPUTE


def is_asynchronous(instruction: Instruction) -> bool:
    """Whether it runs beside the main stream."""
    return is_start(instruction) and not instruction.is_sync


def _moves_to_host(program: Program, start: Instruction) -> bool:
    """An asynchronous slice or update of a buffer in host memory."""
    if not is_start(start) or start.opcode == "copy-start":
        return False
    stem = start.opcode.removesuffix("-start")
    words = [stem, *(it.opcode for it in program.body(start))]
    sliced = any(it in ("dynamic-slice", "dynamic-update-slice", "fusion") for it in words)
    shapes = [start.shape, *(it.shape for it in program.operands(start))]
    return sliced and any(map(_on_host, shapes))


def _to_host(start: Instruction) -> bool:
    """Whether the result lies in host memory: a start's type has its result or its operands."""
    if start.opcode == "copy-start":
        return bool(start.shape.parts) and _on_host(start.shape.parts[0])
    return any(_on_host(part) for part in start.shape.parts[1:2]) or start.opcode == "send"


def _on_host(shape: Shape) -> bool:
    return any(leaf.memory_space == _HOST_MEMORY for leaf in shape.leaves)
