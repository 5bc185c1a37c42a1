"""Program: one compiled, scheduled HLO module, and the graph of its instructions.

A Program holds the content of the module; derived properties (collectives, provenance, loops,
categories, costs) are functions of a Program and an Instruction in other modules. They may cache
results in `answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, TypeVar

from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.sharding import Sharding
from counterpoint.hlo.model.stack import Frame, StackTable

_FREE_WORDS = (
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency partition-id "
    "replica-id opt-barrier optimization-barrier domain get-dimension-size"
)
_FREE = frozenset(_FREE_WORDS.split())

RUNNING = ("while", "conditional", "call", "call-start", "async-start")

_UNASKED: Any = object()

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that is written into the buffer of an input."""

    output: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    must: bool


@dataclass(frozen=True, eq=False)
class Program:
    """One compiled module, created and validated by a reader."""

    name: str
    entry: str
    computations: Mapping[str, Computation] = field(repr=False)
    program_id: int | None = None
    fingerprint: str | None = None
    is_scheduled: bool = False
    num_partitions: int = 1
    num_replicas: int = 1
    # The device of each partition of each replica, as a mesh orders them; (): 0, 1, ...
    device_order: tuple[int, ...] = field(default=(), repr=False)
    aliases: tuple[Alias, ...] = field(default=(), repr=False)
    # Of the entry's parameters, where the module and not the parameters themselves have them.
    shardings: tuple[Sharding | None, ...] = field(default=(), repr=False)
    stacks: StackTable = field(default_factory=StackTable, repr=False)
    # Instructions that run inside an async wrapper, and the start that represents them.
    wrapped: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    # The bytes it was read from, if the reader is to keep them.
    written: bytes | None = field(default=None, repr=False)
    answers: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], repr=False)

    def device(self, rank: int) -> int:
        """Return the device of a rank, which is replica * partitions + partition."""
        return self.device_order[rank] if rank < len(self.device_order) else rank

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction, computation by computation, in schedule order."""
        for computation in self.computations.values():
            yield from computation.instructions

    def instruction(self, name: str) -> Instruction | None:
        """Return the instruction of that name; for one inside an async wrapper, its start."""
        name = name.removeprefix("%")
        return self._by_name.get(self.wrapped.get(name, name))

    def sharding(self, parameter: Instruction) -> Sharding | None:
        """Return how a parameter of the entry is sharded; None if that is not known."""
        number = parameter.parameter_number or 0
        if parameter.sharding is None and number < len(self.shardings):
            return self.shardings[number]
        return parameter.sharding

    def root(self, computation: str) -> Instruction | None:
        """Return the instruction whose value the computation returns."""
        called = self.computations.get(computation)
        return self._members(computation).get(called.root) if called else None

    def body(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """Return the instructions of the first computation it calls."""
        called = self.computations.get(instruction.calls[0]) if instruction.calls else None
        return called.instructions if called else ()

    def operands(self, instruction: Instruction) -> list[Instruction]:
        """Return the instructions whose values it reads, in order."""
        members = self._members(instruction.computation)
        return [members[name] for name in instruction.operands]

    def users(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """Return the instructions that read its value."""
        computation = instruction.computation
        users = self._users.get(computation)
        if users is None:
            users = self._users[computation] = _users_in(self.computations[computation])
        return users.get(instruction.name, ())

    def callers(self, computation: str) -> tuple[Instruction, ...]:
        """Return the instructions that call the computation."""
        return self._callers.get(computation, ())

    def stack(self, instruction: Instruction) -> tuple[Frame, ...]:
        """Return the Python calls behind an instruction, innermost first."""
        frames = self._stack(instruction.stack_frame_id)
        if frames or not instruction.source_file:
            return frames
        return (Frame(instruction.source_file, instruction.source_line, ""),)

    def _stack(self, frame_id: int) -> tuple[Frame, ...]:
        frames = self._stacks.get(frame_id)
        if frames is None:
            frames = self._stacks[frame_id] = self.stacks.stack(frame_id)
        return frames

    @cached_property
    def _stacks(self) -> dict[int, tuple[Frame, ...]]:
        return {}

    def _members(self, computation: str) -> dict[str, Instruction]:
        members = self._by_computation.get(computation)
        if members is None:
            instructions = self.computations[computation].instructions
            members = self._by_computation[computation] = {
                instruction.name: instruction for instruction in instructions
            }
        return members

    @cached_property
    def _by_computation(self) -> dict[str, dict[str, Instruction]]:
        return {}

    @cached_property
    def _by_name(self) -> dict[str, Instruction]:
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def _users(self) -> dict[str, dict[str, tuple[Instruction, ...]]]:
        return {}

    @cached_property
    def _callers(self) -> dict[str, tuple[Instruction, ...]]:
        callers: dict[str, list[Instruction]] = {}
        for instruction in self.instructions:
            for computation in dict.fromkeys(instruction.calls):
                callers.setdefault(computation, []).append(instruction)
        return {name: tuple(calls) for name, calls in callers.items()}


def _users_in(computation: Computation) -> dict[str, tuple[Instruction, ...]]:
    users: dict[str, list[Instruction]] = {}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    return {name: tuple(readers) for name, readers in users.items()}


def launches(instruction: Instruction) -> bool:
    """Return whether running it launches work (a loop or a call launches its content).

    Instructions that XLA turns into mere addresses do not: they never show in a profile and cost
    nothing.
    """
    return instruction.opcode not in _FREE


def launched(program: Program) -> Iterator[Computation]:
    """Yield the computations whose instructions are launched one by one.

    These are the entry, and the computations that loops, branches and calls run, but not fusions.
    """
    waiting = [program.entry]
    seen = set(waiting)
    while waiting:
        computation = program.computations[waiting.pop()]
        yield computation
        for instruction in computation.instructions:
            if instruction.opcode in RUNNING:
                fresh = [name for name in instruction.calls if name not in seen]
                seen.update(fresh)
                waiting += fresh


InstructionFunction = Callable[[Program, Instruction], Answer]


def cached_on_program(question: InstructionFunction[Answer]) -> InstructionFunction[Answer]:
    """Cache a function's result per instruction of a Program.

    Answers are stored in the Program and freed with it.
    """

    @wraps(question)
    def ask(program: Program, instruction: Instruction) -> Answer:
        known: dict[tuple[str, str], Any] | None = program.answers.get(question)
        if known is None:
            known = program.answers[question] = {}
        key = (instruction.computation, instruction.name)
        answer = known.get(key, _UNASKED)
        if answer is _UNASKED:
            answer = known[key] = question(program, instruction)
        return answer

    return ask
