"""The role of each program in a training loop: what it does with the state of the others.

Without step markers, the programs that run tell what one iteration is. A profile records their
order, but not which arrays they hand to each other. Shapes do: a gradient has the shapes of the
weights, and so has what applies it, while an evaluation returns a few numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from counterpoint.hlo.definition import same_definition
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.phase import Phase, phase

_MOSTLY = 0.5
"""Least share of another program's state that a program returns if it takes part in its loop."""
_ALL = 0.75
"""Least share of its arguments' bytes that a whole step overwrites: weights, optimizer state."""
_MORE = 1.25
"""A program that reads so many times the state that it returns leaves the update to another."""
_ALIKE = 0.5
"""Least share of source lines that two builds of one function have in common."""
_PASSING = ("copy", "bitcast", "convert", "transpose", "get-tuple-element", "reshape")

_Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class _Signature:
    """Arrays that a program takes and returns, with their bytes, and what it overwrites."""

    takes: Counter[_Key]
    returns: Counter[_Key]
    updated: Counter[_Key]  # of what it returns: not a gradient alone
    overwritten: float

    @cached_property
    def state(self) -> frozenset[_Key]:
        """Arrays that it both takes and returns: weights, their gradients, optimizer state."""
        return frozenset(self.takes.keys() & self.returns.keys())

    @property
    def applies(self) -> bool:
        """Whether most of the state that it returns is updated, not a gradient alone."""
        returned, updated = (_bytes(arrays, self.state) for arrays in (self.returns, self.updated))
        return updated >= _MOSTLY * returned


class ProgramRoles:
    """Roles of the programs of a Timeline, by their index; what is not known is None."""

    def __init__(self, ops: pl.DataFrame, hlo: Callable[[int], Program | None]) -> None:
        self._hlo = hlo
        self._signatures: dict[int, _Signature | None] = {}
        trained = ops.filter(pl.col("phase") == Phase.BACKWARD)["program"]
        self._training = frozenset(trained.unique().to_list())
        self._ops = ops

    def trains(self, program: int) -> bool:
        """Return whether it has a backward pass."""
        return program in self._training

    def updates(self, program: int) -> bool | None:
        """Return whether it returns all of the state that it takes, updated: a whole step."""
        own = self._signature(program)
        if own is None:
            return None
        if own.overwritten >= _ALL:
            return True
        taken, returned = (_bytes(arrays, own.state) for arrays in (own.takes, own.returns))
        return 0 < taken <= _MORE * returned and own.applies

    def feeds(self, program: int, other: int) -> bool | None:
        """Return whether its results have the shapes of the state of another program."""
        own, fed = self._signature(program), self._signature(other)
        if own is None or fed is None:
            return None
        kept = _bytes(Counter(dict.fromkeys(fed.state, 1)), fed.state)
        returned = _bytes(Counter(dict.fromkeys(own.returns, 1)), fed.state)
        return kept > 0 and returned >= _MOSTLY * kept

    def same_function(self, one: int, other: int) -> bool:
        """Return whether two programs of one name are of one function, as far as known."""
        both = self._hlo(one), self._hlo(other)
        known = None if both[0] is None or both[1] is None else same_definition(both[0], both[1])
        if known is not None:
            return known
        mine, theirs = self._lines(one), self._lines(other)
        return len(mine & theirs) >= _ALIKE * min(len(mine), len(theirs)) if mine else not theirs

    def interchangeable(self, one: int, other: int) -> bool:
        """Return whether two builds of one function stand for each other, as far as known.

        They do the same with the same state. Without state or training, a function of several
        source lines is one that a loop calls; an op that is called eagerly has one line, and may
        have another shape at its next call in the same iteration.
        """
        own, others = self._signature(one), self._signature(other)
        if own is None or others is None:
            return True
        if own.applies is not others.applies:
            return False
        if self.feeds(one, other) or self.feeds(other, one):
            return True
        stateless = not own.state and not others.state
        return stateless and (self.trains(one) or len(self._lines(one)) > 1)

    def _lines(self, program: int) -> set[str]:
        own = self._ops.filter(pl.col("program") == program)["source"]
        return set(own.drop_nulls().to_list())

    def _signature(self, program: int) -> _Signature | None:
        if program not in self._signatures:
            hlo = self._hlo(program)
            self._signatures[program] = None if hlo is None else _signature(hlo)
        return self._signatures[program]


def _signature(program: Program) -> _Signature | None:
    root = program.root(program.entry)
    if root is None:
        return None
    entry = program.computations[program.entry].instructions
    arguments = {it.parameter_number: it.shape for it in entry if it.opcode == "parameter"}
    results = program.operands(root) if root.opcode == "tuple" else [root]
    updated = [result for result in results if _is_updated(program, result)]
    overwritten = {(it.parameter, it.parameter_index) for it in program.aliases}
    whole = sum(shape.bytes for shape in arguments.values())
    reused = sum(
        arguments[parameter].bytes
        for parameter, index in overwritten
        if parameter in arguments and not index
    )
    return _Signature(
        takes=_arrays(arguments.values()),
        returns=_arrays(result.shape for result in results),
        updated=_arrays(result.shape for result in updated),
        overwritten=reused / whole if whole else 0.0,
    )


def _arrays(shapes: Iterable[Shape]) -> Counter[_Key]:
    arrays: Counter[_Key] = Counter()
    for shape in shapes:
        for leaf in shape.leaves:
            if leaf.elements > 1:
                arrays[leaf.dtype, leaf.dims] += 1
    return arrays


def _bytes(arrays: Counter[_Key], among: frozenset[_Key]) -> int:
    return sum(
        count * Shape(dtype, dims).bytes
        for (dtype, dims), count in arrays.items()
        if (dtype, dims) in among
    )


def _is_updated(program: Program, result: Instruction) -> bool:
    """Return whether a result is more than a gradient: other work follows the backward pass."""
    seen = 0
    while result.opcode in _PASSING and result.operands and seen < len(_PASSING) * 2:
        result = program.operands(result)[0]
        seen += 1
    return result.opcode != "parameter" and phase(program, result) is Phase.OPTIMIZER
