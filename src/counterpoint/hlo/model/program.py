"""Program: one compiled, scheduled HLO module, and the graph of its instructions.

A Program holds the content of the module; derived properties (collectives, provenance, loops,
categories, costs) are functions of a Program and an Instruction in other modules. They may cache
results in `answers`. JAX records for each instruction the stack of Python calls behind it; XLA
stores these once per module as four tables (file names, function names, locations, frames) that
refer to each other by 1-based index.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, wraps
from typing import Any, Final, TypeVar

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen
from counterpoint.hlo.model.instruction import Computation, Instruction


@frozen
class Frame:
    """One call on the stack."""

    file: str
    line: int
    function: str


@frozen
class StackTable:
    """All stacks of a module. Locations are (file, function, line), frames (location, parent).

    An outermost frame has the parent 0.
    """

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    locations: tuple[tuple[int, int, int], ...] = ()
    frames: tuple[tuple[int, int], ...] = ()

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """Return the calls of a frame id, innermost first; empty if there are none."""
        calls: list[Frame] = []
        seen: set[int] = set()
        while 0 < frame_id <= len(self.frames) and frame_id not in seen:
            seen.add(frame_id)
            location, parent = self.frames[frame_id - 1]
            frame = self._frame(location)
            if frame:
                calls.append(frame)
            frame_id = parent
        return tuple(calls)

    def _frame(self, location: int) -> Frame | None:
        if not 0 < location <= len(self.locations):
            return None
        file, function, line = self.locations[location - 1]
        if not 0 < file <= len(self.files):
            return None
        known = 0 < function <= len(self.functions)
        return Frame(self.files[file - 1], line, self.functions[function - 1] if known else "")


@frozen
class Alias:
    """An output that is written into the buffer of an input."""

    output: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    must: bool


@frozen(eq=False, slots=False)
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

    def root(self, computation: str) -> Instruction | None:
        """Return the instruction whose value the computation returns."""
        found = self.computations.get(computation)
        return self._members(computation).get(found.root) if found else None

    def body(self, instruction: Instruction) -> tuple[Instruction, ...]:
        """Return the instructions of the first computation it calls."""
        found = self.computations.get(instruction.calls[0]) if instruction.calls else None
        return found.instructions if found else ()

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
            found = self.computations[computation].instructions
            members = self._by_computation[computation] = {
                instruction.name: instruction for instruction in found
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
        return {name: tuple(found) for name, found in callers.items()}


def _users_in(computation: Computation) -> dict[str, tuple[Instruction, ...]]:
    users: dict[str, list[Instruction]] = {}
    for instruction in computation.instructions:
        for operand in dict.fromkeys(instruction.operands):
            users.setdefault(operand, []).append(instruction)
    return {name: tuple(found) for name, found in users.items()}


# Real modules stay below twenty levels; functions that traverse a Program recurse once per level.
_DEEPEST_CALLS = 100


def validate_program(program: Program) -> Program:
    """Validate a Program and sort its computations, callees before callers.

    Afterward operands precede their users in the same computation, every name refers to something,
    and no computation calls itself, so every walk over a Program ends.
    """
    # The groups of a collective are lists of all devices.
    if min(program.num_partitions, program.num_replicas) < 1:
        raise _damaged(program, "it has no partition or no replica")
    if program.num_partitions * program.num_replicas > _MOST_DEVICES:
        raise _damaged(program, f"it is made for more than {_MOST_DEVICES:,} devices")
    if program.entry not in program.computations:
        raise _damaged(program, f"its entry computation {program.entry!r} is missing")
    for computation in program.computations.values():
        _check_order(program, computation)
    order = _order_of_calls(program)
    _check_size(program, order)
    return replace(program, computations={name: program.computations[name] for name in order})


_MOST_INSTRUCTIONS: Final = 10_000_000
_MOST_DEVICES: Final = 1 << 20
"""Most that one pass through a Program may run, loops counted once; real ones run thousands."""


def _check_size(program: Program, order: Iterable[str]) -> None:
    """Refuse calls that double at each level: nothing could walk through them."""
    sizes: dict[str, int] = {}
    for name in order:
        instructions = program.computations[name].instructions
        sizes[name] = len(instructions) + sum(
            sizes[callee]
            for instruction in instructions
            if instruction.opcode in _RUNNING
            for callee in instruction.calls
        )
        if sizes[name] > _MOST_INSTRUCTIONS:
            raise _damaged(program, f"computation {name} runs {sizes[name]:,} instructions")


def _check_order(program: Program, computation: Computation) -> None:
    seen: set[str] = set()
    for instruction in computation.instructions:
        if not seen.issuperset(instruction.operands):
            missing = next(name for name in instruction.operands if name not in seen)
            raise _damaged(
                program, f"{instruction.name} reads {missing}, which does not precede it"
            )
        seen.add(instruction.name)
    if computation.root not in seen:
        raise _damaged(program, f"computation {computation.name} has no root")


def _order_of_calls(program: Program) -> dict[str, None]:
    """Traverse the calls depth first; meeting a computation inside itself is a cycle."""
    calls = {
        name: [
            callee
            for instruction in reversed(computation.instructions)
            for callee in instruction.calls
        ]
        for name, computation in program.computations.items()
    }
    done: dict[str, None] = {}
    for start in (program.entry, *sorted(calls)):
        path: dict[str, list[str]] = {}
        name: str | None = start
        while name is not None:
            if name not in path and name not in done:
                path[name] = list(calls[name])
            name = _step(program, path, done)
    return done


def _step(program: Program, path: dict[str, list[str]], done: dict[str, None]) -> str | None:
    """Return the next computation to enter, after leaving the finished ones."""
    while path:
        name, left = next(reversed(path.items()))
        if not left:
            done[name] = None
            del path[name]
            continue
        callee = left.pop()
        if callee in path:
            raise _damaged(program, f"computation {callee} calls itself")
        if callee not in program.computations:
            raise _damaged(program, f"computation {callee} is called but missing")
        if len(path) > _DEEPEST_CALLS:
            raise _damaged(program, f"its computations call each other {len(path)} deep")
        if callee not in done:
            return callee
    return None


def _damaged(program: Program, why: str) -> InputError:
    return InputError(
        f"HLO module {program.name!r} is damaged", why=why, next="write the dump or profile again"
    )


_FREE_WORDS = (
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency partition-id "
    "replica-id opt-barrier optimization-barrier domain get-dimension-size"
)
_FREE = frozenset(_FREE_WORDS.split())

_RUNNING = ("while", "conditional", "call", "call-start", "async-start")


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
            if instruction.opcode in _RUNNING:
                fresh = [name for name in instruction.calls if name not in seen]
                seen.update(fresh)
                waiting += fresh


_UNASKED: Any = object()

Answer = TypeVar("Answer")
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
        found = known.get(key, _UNASKED)
        if found is _UNASKED:
            found = known[key] = question(program, instruction)
        return found

    return ask
