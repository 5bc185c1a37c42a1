"""Plans: a program's schedule as blocks of work and the steps in which they are launched.

A block is work that runs without interruption on one stream: the work of the main stream between
two launches, or one asynchronous unit. A plan is laid out once and run with any number of prices:
the costs of hundreds of instructions become one number per block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.hlo.category import Category, category, is_local_copy
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_done, is_start, start_of
from counterpoint.hlo.transfers import transfer_of

_COMPUTE_STREAMS: Final = 4
_HOST_MEMORY: Final = 5
_PIPELINED: Final = "_xla_send_recv_pipeline"
_ANNOTATED: Final = "_xla_stream_annotation"
_DOMAIN: Final = re.compile(r'"communication_domain"\s*:\s*"?([\w-]+)')


class Load(IntEnum):
    """The resource that a piece of work uses, and so what it slows down."""

    COMPUTE = 0
    COLLECTIVE = 1
    HOST = 2  # the link between device and host
    DMA = 3  # between memories of a TPU's chip: slows down nothing


MAIN: Final = "main"
MAIN_STREAM: Final = 0
LINKS: Final = "ICI"


@dataclass(slots=True)
class Streams:
    """Assigns streams in the order of the schedule. `names` has those in use, main first.

    By XLA's rules: one main stream for everything synchronous, up to four for asynchronous compute
    (round robin), one for communication (more if XLA is told so: then pipelined sends and receives
    have two of their own), and one each for copies to and from the host. Collectives that the
    scheduler found nothing to overlap with are asynchronous in form only: they run on the main
    stream.

    Source: xla/service/gpu/execution_stream_assignment.cc, thunk_emitter.cc.
    """

    communication: int = 1
    on_tpu: bool = False
    names: list[str] = field(default_factory=lambda: [MAIN])
    _turns: dict[str, int] = field(default_factory=dict[str, int])

    def of(self, start: Instruction, load: Load) -> int:
        """Return the stream of an asynchronous instruction."""
        annotated = dict(start.frontend_attributes).get(_ANNOTATED, "")
        if load is Load.HOST:
            return self._number("copies to host" if _to_host(start) else "copies from host")
        if load is Load.DMA:
            return self._number("DMA")
        if load is Load.COMPUTE:
            given = int(annotated) if annotated.isdecimal() else None
            turn = self._turn("compute", _COMPUTE_STREAMS) if given is None else given
            return self._number(f"compute {turn + 1}")
        if annotated.isdecimal():
            return self._number(f"communication {annotated}")
        return self._number(self._communication(start))

    def _communication(self, start: Instruction) -> str:
        if self.on_tpu:
            return _links(start)
        pipelined = dict(start.frontend_attributes).get(_PIPELINED)
        if pipelined is not None and self.communication > 1:
            return f"communication {2 if pipelined == '1' else 1}"
        domain = _DOMAIN.search(start.backend_config)
        own = domain is not None and not domain[1].endswith("_UNSPECIFIED")
        pool = f"communication {domain[1]}" if domain and own else "communication"
        number = self._turn(pool, self.communication)
        return f"{pool} {number}" if number else pool

    def _turn(self, pool: str, size: int) -> int:
        turn = self._turns.get(pool, 0)
        self._turns[pool] = (turn + 1) % size
        return turn

    def _number(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)


def _links(start: Instruction) -> str:
    """Return what carries a collective of a TPU: its slice's links, each way, or the network.

    A windowed einsum passes shards around in both directions at once.
    """
    if start.opcode in ("send", "recv"):
        return "network"
    pairs = start.source_target_pairs
    if start.opcode != "collective-permute-start" or not pairs:
        return LINKS
    forward = sum(target > source for source, target in pairs)
    return LINKS if 2 * forward >= len(pairs) else f"{LINKS} backward"


def load(program: Program, instruction: Instruction) -> Load:
    """Return the resource that an instruction uses."""
    if is_local_copy(program, instruction):
        return Load.DMA
    if collective(program, instruction) is not None:
        return Load.COLLECTIVE
    if instruction.opcode.startswith("custom-call"):
        return Load.COMPUTE  # a callback: the stream waits for Python, with little transfer
    if category(program, instruction) is Category.HOST or _moves_to_host(program, instruction):
        return Load.HOST
    return Load.COMPUTE


def is_asynchronous(instruction: Instruction) -> bool:
    """Return whether the instruction runs beside the main stream."""
    return is_start(instruction) and not instruction.is_sync


def _moves_to_host(program: Program, start: Instruction) -> bool:
    """Return whether it asynchronously slices or updates a buffer in host memory."""
    if not is_start(start) or start.opcode == "copy-start":
        return False
    stem = start.opcode.removesuffix("-start")
    words = [stem, *(instruction.opcode for instruction in program.body(start))]
    sliced = any(opcode in ("dynamic-slice", "dynamic-update-slice", "fusion") for opcode in words)
    shapes = [start.shape, *(operand.shape for operand in program.operands(start))]
    return sliced and any(map(_on_host, shapes))


def _to_host(start: Instruction) -> bool:
    """Return whether the result is in host memory: a start's type has result or operands."""
    if start.opcode == "copy-start":
        return bool(start.shape.parts) and _on_host(start.shape.parts[0])
    return any(_on_host(part) for part in start.shape.parts[1:2]) or start.opcode == "send"


def _on_host(shape: Shape) -> bool:
    return any(leaf.memory_space == _HOST_MEMORY for leaf in shape.leaves)


Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WorkBlock:
    """Instructions `first` to `last` (excluded) of the plan, run in sequence on a stream."""

    index: int
    stream: int
    load: Load
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MainWork:
    """The main stream runs a block."""

    block: WorkBlock


@dataclass(frozen=True, slots=True)
class AsyncLaunch:
    """Another stream receives a block, which waits for all earlier work of the main stream."""

    block: WorkBlock
    start: str  # the instruction that launches it


@dataclass(frozen=True, slots=True)
class Join:
    """The main stream waits for the oldest block launched by one of the named starts."""

    starts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A body run `trips` times; None: not known, it is run once and reported.

    The condition is run before each iteration and after the last one, unless XLA knows the count.
    """

    name: str
    body: PlanSteps
    trips: int | None
    condition: PlanSteps = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternative branches, of which one runs."""

    name: str
    branches: tuple[PlanSteps, ...]


PlanStep = MainWork | AsyncLaunch | Join | Loop | Choice
PlanSteps = Sequence[PlanStep]


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionPlan:
    """The work to run; `instructions` are those with a price, in order of launch."""

    instructions: tuple[Instruction, ...]
    weights: Seconds  # executions of each in one execution of its block
    blocks: tuple[WorkBlock, ...]
    steps: PlanSteps
    streams: tuple[str, ...]
    loops: tuple[Loop, ...]
    choices: tuple[Choice, ...]

    def block_sums(self, costs: Seconds) -> Seconds:
        """Sum values per instruction over each block."""
        return np.add.reduceat(costs * self.weights, [block.first for block in self.blocks])


_PASSING = ("bitcast", "optimization-barrier", "opt-barrier", "copy")


def starts_of(program: Program, done: Instruction) -> list[Instruction]:
    """Return all starts whose end a done can mark.

    Pipelined sends and receives begin in one turn of a loop and end in the next: their dones read
    an element of the loop's tuple. It is traced to the value from the turn before and to the
    initial value.
    """
    transfer = transfer_of(program, done)
    if transfer is not None and transfer.send is not None and transfer.recv is not None:
        # Data arrives after the other slice sent it: at the same time as this one does.
        send = program.instruction(transfer.send)
        return [send] if send is not None and done.name == transfer.recv_done else []
    own = start_of(program, done)
    if own is not None:
        return [own]
    operands = program.operands(done)
    return list(_trace(program, operands[0], set())) if operands else []


def _trace(
    program: Program, it: Instruction, seen: set[tuple[str, str, int]], element: int = -1
) -> Iterator[Instruction]:
    """Yield starts whose value an instruction may carry, in the element of its tuple."""
    key = (it.computation, it.name, element)
    if key in seen:
        return
    seen.add(key)
    operands = program.operands(it)
    if is_start(it):
        yield it
    elif it.opcode == "get-tuple-element" and operands:
        yield from _trace(program, operands[0], seen, it.tuple_index or 0)
    elif it.opcode == "tuple" and 0 <= element < len(operands):
        yield from _trace(program, operands[element], seen)
    elif it.opcode == "parameter":
        yield from _from_callers(program, it, seen, element)
    elif it.opcode == "while" and it.calls:
        yield from _from_body(program, it.calls[0], seen, element)
        yield from _trace(program, operands[0], seen, element)
    elif (it.opcode in _PASSING or is_done(it)) and operands:
        yield from _trace(program, operands[0], seen, element)


def _from_callers(
    program: Program, parameter: Instruction, seen: set[tuple[str, str, int]], element: int
) -> Iterator[Instruction]:
    for caller in program.callers(parameter.computation):
        given = program.operands(caller)
        if caller.opcode == "while" and given:
            yield from _from_body(program, parameter.computation, seen, element)
            yield from _trace(program, given[0], seen, element)
        elif caller.opcode == "call" and (parameter.parameter_number or 0) < len(given):
            yield from _trace(program, given[parameter.parameter_number or 0], seen, element)


def _from_body(
    program: Program, body: str, seen: set[tuple[str, str, int]], element: int
) -> Iterator[Instruction]:
    root = program.root(body)
    if root is not None:
        yield from _trace(program, root, seen, element)
