"""Data flow: a fact about every value of a program, from those about its parameters.

An analysis says what an instruction makes of the facts about its operands (`transfer`), and what is
certain of a value that may be one or the other (`merge`). Followed here is the flow through tuples,
fusions, calls, branches and loops, which is the same for all: a loop is evaluated until nothing
changes, so `merge` must lose facts or keep them, and never gain some.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_done

__all__ = ["Dataflow", "leaves"]

Fact = TypeVar("Fact")

_CALLING = ("fusion", "call", "async-start", "call-start", "fusion-start")
_PASSING = ("opt-barrier", "optimization-barrier")


class Dataflow(ABC, Generic[Fact]):
    """Evaluates computations for given arguments, each combination once.

    A value is a tuple of facts: one for each array in it. `values` has what is known of each
    instruction, merged over all of its executions.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[str, tuple[Fact, ...]] = {}
        self._tuples: dict[str, Sequence[int]] = {}
        self._known: dict[tuple[str, tuple[tuple[Fact, ...], ...]], tuple[Fact, ...]] = {}

    @abstractmethod
    def merge(self, one: Fact, other: Fact) -> Fact:
        """Return what is true of both."""

    @abstractmethod
    def transfer(self, it: Instruction, operands: list[tuple[Fact, ...]]) -> tuple[Fact, ...]:
        """Return the facts about the result of an instruction that only computes."""

    def chosen_by(self, value: tuple[Fact, ...], choice: Fact) -> tuple[Fact, ...]:
        """Return the facts about a value that a branch or the end of a loop decides."""
        del choice
        return value

    def run(self, computation: str, arguments: tuple[tuple[Fact, ...], ...]) -> tuple[Fact, ...]:
        """Return the value of a computation, and note those of its instructions."""
        key = (computation, arguments)
        if key not in self._known:
            called = self.program.computations[computation]
            local: dict[str, tuple[Fact, ...]] = {}
            for it in called.instructions:
                operands = [local[name] for name in it.operands]
                value = local[it.name] = self._value(it, operands, arguments)
                self.values[it.name] = self._merged(self.values.get(it.name, value), value)
            self._known[key] = local[called.root]
        return self._known[key]

    def all_of(self, value: Iterable[Fact], start: Fact) -> Fact:
        """Return what is true of all these, and of `start`."""
        for fact in value:
            start = self.merge(start, fact)
        return start

    def _value(
        self,
        it: Instruction,
        operands: list[tuple[Fact, ...]],
        arguments: tuple[tuple[Fact, ...], ...],
    ) -> tuple[Fact, ...]:
        if it.opcode == "parameter":
            return arguments[it.parameter_number or 0]
        if it.opcode == "tuple":
            return tuple(fact for operand in operands for fact in operand)
        if it.opcode == "get-tuple-element":
            return self._element(it, operands[0])
        if it.calls and it.opcode in ("while", "conditional", *_CALLING):
            return self._called(it, operands)
        if it.opcode in _PASSING or is_done(it):
            return operands[0]
        return self.transfer(it, operands)

    def _element(self, it: Instruction, whole: tuple[Fact, ...]) -> tuple[Fact, ...]:
        begins = self._begins(self.program.operands(it)[0])
        if len(whole) != begins[-1]:  # of a start, whose type has more than the result
            first, *others = whole
            return (self.all_of(others, first),) * leaves(it.shape)
        at = it.tuple_index or 0
        return whole[begins[at] : begins[at + 1]]

    def _begins(self, of: Instruction) -> Sequence[int]:
        """Return where each part of a tuple begins among its facts, and where the last ends."""
        if of.name not in self._tuples:
            self._tuples[of.name] = list(accumulate(map(leaves, of.shape.parts), initial=0))
        return self._tuples[of.name]

    def _called(self, it: Instruction, operands: list[tuple[Fact, ...]]) -> tuple[Fact, ...]:
        if it.opcode == "while":
            return self._loop(it, operands[0])
        if it.opcode == "conditional":
            return self._branches(it, operands)
        return self.run(it.calls[0], tuple(operands))

    def _loop(self, it: Instruction, state: tuple[Fact, ...]) -> tuple[Fact, ...]:
        """Return what is true after every iteration."""
        while True:
            after = self.run(it.calls[0], (state,))
            for condition in it.calls[1:2]:
                (goes_on,) = self.run(condition, (state,))
                after = self.chosen_by(after, goes_on)
            merged = self._merged(state, after)
            if merged == state:
                return state
            state = merged

    def _branches(self, it: Instruction, operands: list[tuple[Fact, ...]]) -> tuple[Fact, ...]:
        first, *others = (
            self.run(name, (operand,)) for name, operand in zip(it.calls, operands[1:], strict=True)
        )
        for other in others:
            first = self._merged(first, other)
        return self.chosen_by(first, operands[0][0])

    def _merged(self, one: tuple[Fact, ...], other: tuple[Fact, ...]) -> tuple[Fact, ...]:
        return one if one == other else tuple(map(self.merge, one, other))


def leaves(shape: Shape) -> int:
    """Return the number of arrays (and tokens) in a value."""
    return sum(1 for _ in shape.leaves)
