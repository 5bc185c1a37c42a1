"""Who reads an array, and what it is made of: across tuples, views, loops, branches and calls.

An array is named by the instruction that makes it, and by its place in that instruction's tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import RUNNING, Program, launched
from counterpoint.hlo.schedule import is_done, start_of

Path = tuple[int, ...]

_SAME = ("bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "domain")
_CALLS = tuple(opcode for opcode in RUNNING if opcode not in ("while", "conditional"))


@dataclass(frozen=True, slots=True)
class ArrayAt:
    """An array: an instruction, and the place in its tuple."""

    instruction: str
    path: Path = ()


class Uses:
    """The readers and the sources of the arrays of a program's launched instructions."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._launched = {computation.name for computation in launched(program)}
        self._readers: dict[ArrayAt, tuple[Instruction, ...]] = {}

    def readers(self, array: ArrayAt) -> tuple[Instruction, ...]:
        """Return the instructions that compute with it, or move it, in no order."""
        known = self._readers.get(array)
        if known is None:
            readers: dict[str, Instruction] = {}
            for _, reader in self._followed(array):
                if reader is not None:
                    readers[reader.name] = reader
            known = self._readers[array] = tuple(readers.values())
        return known

    def names(self, array: ArrayAt) -> Iterator[ArrayAt]:
        """Yield every name that the same array has: behind tuples, in loops."""
        return (at for at, reader in self._followed(array) if reader is None)

    def is_returned(self, array: ArrayAt) -> bool:
        """Return whether it is a result of the program."""
        entry = self._program.computations[self._program.entry]
        return any(at.instruction == entry.root for at in self.names(array))

    def made_of(self, arrays: Iterable[ArrayAt]) -> set[ArrayAt]:
        """Return the arrays that these depend on, themselves included."""
        front = list(arrays)
        seen = set(front)
        while front:
            for source in self._sources(front.pop()):
                if source not in seen:
                    seen.add(source)
                    front.append(source)
        return seen

    def arrays_in(self, it: Instruction) -> Iterator[ArrayAt]:
        """Yield the arrays that an instruction makes or passes on."""
        return (ArrayAt(it.name, path) for path in paths(it.shape))

    def _followed(self, array: ArrayAt) -> Iterator[tuple[ArrayAt, Instruction | None]]:
        """Yield each name of an array, and each instruction that reads it there."""
        front, seen = [array], {array}
        while front:
            at = front.pop()
            yield at, None
            for step in self._steps(at):
                if isinstance(step, Instruction):
                    yield at, step
                elif step not in seen:
                    seen.add(step)
                    front.append(step)

    def _steps(self, at: ArrayAt) -> Iterator[ArrayAt | Instruction]:
        it = self._program.instruction(at.instruction)
        if it is None:
            return
        for user in self._program.users(it):
            yield from self._step(it, at.path, user)
        computation = self._program.computations[it.computation]
        if computation.root == it.name:
            for caller in self._program.callers(computation.name):
                if caller.opcode == "while" and caller.calls[0] == computation.name:
                    yield ArrayAt(caller.name, at.path)
                    yield from self._parameters_of(caller.calls, 0, at.path)
                elif caller.opcode in ("conditional", *_CALLS):
                    yield ArrayAt(caller.name, at.path)

    def _step(
        self, it: Instruction, path: Path, user: Instruction
    ) -> Iterator[ArrayAt | Instruction]:
        if user.opcode == "get-tuple-element":
            if path and path[0] == user.tuple_index:
                yield ArrayAt(user.name, path[1:])
        elif user.opcode == "tuple":
            for number, name in enumerate(user.operands):
                if name == it.name:
                    yield ArrayAt(user.name, (number, *path))
        elif user.opcode in _SAME:
            yield ArrayAt(user.name, path)
        elif user.opcode == "while":
            yield ArrayAt(user.name, path)
            yield from self._parameters_of(user.calls, 0, path)
        elif user.opcode in ("conditional", *_CALLS) and user.calls:
            yield from self._entered(it, path, user)
        elif is_done(user) and (result := _behind_start(self._program, user, it, path)) is not None:
            yield ArrayAt(user.name, result)
        else:
            yield user

    def _entered(
        self, it: Instruction, path: Path, user: Instruction
    ) -> Iterator[ArrayAt | Instruction]:
        """Yield the parameters that a call or a branch gets the array as."""
        numbers = [number for number, name in enumerate(user.operands) if name == it.name]
        for number in numbers:
            if user.opcode != "conditional":
                yield from self._parameters_of(user.calls[:1], number, path)
            elif number == 0:  # it decides
                yield user
            else:
                yield from self._parameters_of(user.calls[number - 1 : number], 0, path)

    def _parameters_of(
        self, computations: Iterable[str], number: int, path: Path
    ) -> Iterator[ArrayAt]:
        for name in computations:
            for it in self._program.computations[name].instructions:
                if it.opcode == "parameter" and (it.parameter_number or 0) == number:
                    yield ArrayAt(it.name, path)

    def _sources(self, at: ArrayAt) -> Iterator[ArrayAt]:
        program, path = self._program, at.path
        it = program.instruction(at.instruction)
        if it is None or it.computation not in self._launched:
            return
        operands = program.operands(it)
        if it.opcode == "parameter":
            yield from self._given(it, path)
        elif it.opcode == "get-tuple-element":
            yield ArrayAt(operands[0].name, (it.tuple_index or 0, *path))
        elif it.opcode == "tuple":
            if path:
                yield ArrayAt(operands[path[0]].name, path[1:])
        elif it.opcode in _SAME:
            yield ArrayAt(operands[0].name, path)
        elif it.opcode == "while":
            yield ArrayAt(operands[0].name, path)
            yield from self._roots(it.calls[:1], path)
        elif it.opcode in ("conditional", *_CALLS) and it.calls:
            yield from self._roots(it.calls, path)
        else:
            for operand in operands:
                yield from self.arrays_in(operand)

    def _roots(self, computations: Iterable[str], path: Path) -> Iterator[ArrayAt]:
        for name in computations:
            yield ArrayAt(self._program.computations[name].root, path)

    def _given(self, parameter: Instruction, path: Path) -> Iterator[ArrayAt]:
        """Yield what callers give for a parameter; of a loop, also what its last turn gave."""
        number = parameter.parameter_number or 0
        for caller in self._program.callers(parameter.computation):
            if caller.opcode == "while":
                yield ArrayAt(caller.operands[0], path)
                yield from self._roots(caller.calls[:1], path)
            elif caller.opcode == "conditional":
                for branch, operand in zip(caller.calls, caller.operands[1:], strict=False):
                    if branch == parameter.computation:
                        yield ArrayAt(operand, path)
            elif caller.opcode in _CALLS and number < len(caller.operands):
                yield ArrayAt(caller.operands[number], path)


def paths(shape: Shape, prefix: Path = ()) -> Iterator[Path]:
    """Yield the places of the arrays in a value, in the order of its leaves."""
    if not shape.is_tuple:
        yield prefix
        return
    for number, part in enumerate(shape.parts):
        yield from paths(part, (*prefix, number))


def shape_at(shape: Shape, path: Path) -> Shape | None:
    """Return the shape of one array of a value; None if it has no such."""
    for number in path:
        if number >= len(shape.parts):
            return None
        shape = shape.parts[number]
    return shape


def _behind_start(program: Program, done: Instruction, it: Instruction, path: Path) -> Path | None:
    """Return where a done passes on an array of its start; None: it only ends its use.

    `copy-start` gives (copy, original, context), `all-reduce-start` the result alone, others
    (operands, results).
    """
    start = start_of(program, done)
    if start is None or it.name != start.name:
        return None
    if start.opcode == "all-reduce-start" and not (len(path) > 0 and start.shape != done.shape):
        return path
    result = 0 if start.opcode == "copy-start" else 1
    return path[1:] if path[:1] == (result,) else None
