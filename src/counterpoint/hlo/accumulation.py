"""Accumulation: sums over devices in a loop whose results the loop only adds up.

Such a sum can be made once, after the loop, because it is linear: that is what gradient
accumulation intends. A collective qualifies for a loop if everything that the loop makes of its
result is linear (a type, an order, a scale, a part, a sum) and ends in a value that the loop adds
to. If the loop uses the running sum (clips it, updates weights with it), nothing is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.dataflow import Dataflow, leaves
from counterpoint.hlo.loops import trip_count
from counterpoint.hlo.model.instruction import Instruction, Shape, element_bits
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import enclosing

__all__ = ["AccumulatedSum", "accumulated_sums"]

_SUMS: Final = ("all-reduce", "all-reduce-start", "reduce-scatter", "reduce-scatter-start")
_LINEAR_WORDS: Final = (
    "convert copy copy-start bitcast reshape transpose broadcast negate slice pad reverse "
    "dynamic-slice concatenate reduce-precision dynamic-update-slice"
)
_LINEAR: Final = frozenset(_LINEAR_WORDS.split())
_ADDING: Final = ("add", "subtract")
_SCALING: Final = ("multiply", "divide")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatedSum:
    """A collective, and the loop after which it could run once instead of `trips` times.

    `widening` is how much larger its elements are where they are added up.
    """

    collective: Instruction
    loop: Instruction
    trips: int
    widening: float

    @property
    def saved_share(self) -> float:
        """The share of its time that it would not take; 0 if reducing more bytes eats it up."""
        return max(0.0, 1 - self.widening / self.trips)


def accumulated_sums(program: Program) -> tuple[AccumulatedSum, ...]:
    """Return the collectives that only feed an accumulation, each with its outermost loop."""
    inside: dict[str, list[Instruction]] = {}
    loops: dict[str, Instruction] = {}
    for computation in launched(program):
        for it in computation.instructions:
            if it.opcode in _SUMS and _adds(program, it):
                for caller in enclosing(program, computation.name):
                    if caller.opcode == "while" and (trip_count(program, caller) or 0) > 1:
                        loops[caller.name] = caller
                        inside.setdefault(caller.name, []).append(it)
    sums: dict[str, AccumulatedSum] = {}
    for name, members in inside.items():
        for one in _of_loop(program, loops[name], members):
            known = sums.get(one.collective.name)
            if known is None or one.trips > known.trips:
                sums[one.collective.name] = one
    return tuple(sums.values())


def _adds(program: Program, it: Instruction) -> bool:
    root = program.root(it.calls[0]) if it.calls else None
    return root is not None and root.opcode == "add"


def _of_loop(
    program: Program, loop: Instruction, members: list[Instruction]
) -> Iterator[AccumulatedSum]:
    """Yield those of the loop's collectives whose results it only adds up."""
    flow = _Flow(program, {it.name: 1 << number for number, it in enumerate(members)})
    state = (_NOTHING,) * leaves(loop.shape)
    while True:
        after = flow.run(loop.calls[0], (state,))
        carried = tuple(
            flow.merge(before, _Sums(carried=now.new | now.carried))
            for before, now in zip(state, after, strict=True)
        )
        if carried == state:
            break
        state = carried
    results = list(zip(loop.shape.leaves, after, strict=True))
    for number, it in enumerate(members):
        own = 1 << number
        ends = [(shape, sums) for shape, sums in results if sums.new & own]
        if flow.used & own or not ends or any(not sums.added & own for _, sums in ends):
            continue
        given = min(element_bits(shape.dtype) for shape in _reduced(program, it))
        held = max(element_bits(shape.dtype) for shape, _ in ends)
        yield AccumulatedSum(
            collective=it,
            loop=loop,
            trips=trip_count(program, loop) or 1,
            widening=max(1.0, held / given) if given else 1.0,
        )


def _reduced(program: Program, it: Instruction) -> Iterator[Shape]:
    return (operand.shape for operand in program.operands(it))


@dataclass(frozen=True, slots=True)
class _Sums:
    """The collectives, as bits, whose results a value contains.

    `new`: of this iteration. `carried`: of earlier ones. `added`: of this one, added to earlier.
    """

    new: int = 0
    carried: int = 0
    added: int = 0

    @property
    def any(self) -> int:
        return self.new | self.carried


_NOTHING: Final = _Sums()


class _Flow(Dataflow[_Sums]):
    """Follows the results of some collectives; `used` has those that are not only added up."""

    def __init__(self, program: Program, bits: Mapping[str, int]) -> None:
        super().__init__(program)
        self.used = 0
        self._bits = bits

    def merge(self, one: _Sums, other: _Sums) -> _Sums:
        return _Sums(one.new | other.new, one.carried | other.carried, one.added | other.added)

    def chosen_by(self, value: tuple[_Sums, ...], choice: _Sums) -> tuple[_Sums, ...]:
        self.used |= choice.any
        return value

    def transfer(self, it: Instruction, operands: list[tuple[_Sums, ...]]) -> tuple[_Sums, ...]:
        whole = [self._all(operand) for operand in operands]
        if it.name in self._bits:
            self.used |= self._all(whole).any  # a sum of sums: it needs the first one's result
            return (_Sums(new=self._bits[it.name]),) * sum(map(len, operands))
        return (self._computed(it, whole),) * leaves(it.shape)

    def _computed(self, it: Instruction, operands: list[_Sums]) -> _Sums:
        touched = [operand for operand in operands if operand.any]
        if not touched:
            return _NOTHING
        result = self._all(operands)
        is_linear = it.opcode in _LINEAR or it.opcode in _ADDING
        if it.opcode in _SCALING:
            is_linear = len(touched) == 1 and (it.opcode == "multiply" or touched[0] is operands[0])
        elif it.opcode == "select":
            is_linear = not operands[0].any
        if not is_linear:
            self.used |= result.any
            return _NOTHING
        if it.opcode in _ADDING:
            one, other = operands
            met = one.new & other.carried | one.carried & other.new
            return _Sums(result.new, result.carried, result.added | met)
        return result

    def _all(self, values: Iterable[_Sums]) -> _Sums:
        return self.all_of(values, _NOTHING)
