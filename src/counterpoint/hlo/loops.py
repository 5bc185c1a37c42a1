"""The trip counts of loops: noted by XLA, or evaluated here.

XLA records the trip count of most loops in the backend config of the while. Otherwise a loop that
counts an integer by a constant step is evaluated: its start and its bound may be constants, values
that an outer loop passes on, or depend on how often outer loops have turned, as in attention over
the blocks up to the diagonal. A loop that ends when its data says so has no count (None).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, cached_on_program
from counterpoint.hlo.scalars import Affine, Scalar, computed
from counterpoint.hlo.schedule import enclosing

__all__ = [
    "TOLD",
    "is_noted",
    "loop_multiplier",
    "mean_trips",
    "steering_loops",
    "times_per_run",
    "trip_count",
    "trips_at",
]


_KNOWN: Final = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d{1,18})')
TOLD: Final = "counterpoint_trips"
"""The attribute of a loop whose trip count was told: `told_trips`."""
_SAME: Final = ("copy", "bitcast", "convert", "reshape", "optimization-barrier", "opt-barrier")
_DEEPEST: Final = 64
_KEY: Final = "hlo.loop_multiplier"
_MOST_TURNS: Final = 1 << 13

Turns = Mapping[str, int]
"""The number of earlier iterations of loops, by name."""

# The calls around an instruction, the innermost last: a parameter has the value given there.
_Calls = tuple[Instruction, ...]


class _Needs(Exception):
    """The count depends on how often this outer loop has turned."""

    def __init__(self, loop: Instruction) -> None:
        super().__init__(loop.name)
        self.loop = loop


@cached_on_program
def trip_count(program: Program, instruction: Instruction) -> int | None:
    """Return how often the body of a while runs each time.

    None: it is unknown, it differs from time to time (`mean_trips`), or this is no while.
    """
    return trips_at(program, instruction, {})


def is_noted(instruction: Instruction) -> bool:
    """Return whether XLA noted the trip count: then it runs the loop without its condition."""
    return _KNOWN.search(instruction.backend_config) is not None


def trips_at(program: Program, loop: Instruction, turns: Turns) -> int | None:
    """Return how often a loop runs when the outer loops have turned that often."""
    try:
        return _trips(program, loop, turns)
    except _Needs:
        return None


@cached_on_program
def steering_loops(program: Program, loop: Instruction) -> tuple[Instruction, ...]:
    """Return the outer loops on whose iteration the loop's trip count depends."""
    loops: dict[str, Instruction] = {}
    turns: dict[str, int] = {}
    while True:
        try:
            _trips(program, loop, turns)
        except _Needs as needs:
            loops[needs.loop.name] = needs.loop
            turns[needs.loop.name] = 0
        else:
            return tuple(loops.values())


@cached_on_program
def mean_trips(program: Program, loop: Instruction) -> float | None:
    """Return the mean trip count of a while over all its executions; None if unknown."""
    if loop.opcode != "while" or not loop.calls:
        return None
    if not steering_loops(program, loop):
        return trip_count(program, loop)
    whole = loop_multiplier(program, loop.calls[0])
    times = loop_multiplier(program, loop.computation)
    if whole is None or times is None:
        return None
    return whole / times if times else 0.0


def loop_multiplier(program: Program, computation: str) -> int | None:
    """Return how often the computation runs per execution of the program; None if unknown."""
    known: dict[str, int | None] = program.answers.setdefault(_KEY, {})
    if computation not in known:
        known[computation] = _multiplier(program, computation)
    return known[computation]


def times_per_run(program: Program, computation: str) -> int | None:
    """Return how often one run of the program runs a computation, each branch taken; or None.

    It is unknown where several instructions call it; and a loop's condition runs once more than its
    body.
    """
    at = computation
    for caller in enclosing(program, computation):
        is_condition = caller.opcode == "while" and caller.calls[0] != at
        if is_condition or len(program.callers(at)) > 1:
            return None
        at = caller.computation
    return loop_multiplier(program, computation)


def _multiplier(program: Program, computation: str) -> int | None:
    around = enclosing(program, computation)
    loops = [caller for caller in reversed(around) if caller.opcode == "while"]
    steering = {steers.name for loop in loops for steers in steering_loops(program, loop)}
    left = _MOST_TURNS

    def times(at: int, turns: dict[str, int]) -> int | None:
        nonlocal left
        if at == len(loops):
            return 1
        loop = loops[at]
        steered = steering_loops(program, loop)
        trips = trips_at(program, loop, turns) if steered else trip_count(program, loop)
        if trips is None:
            return None
        if loop.name not in steering:
            inside = times(at + 1, turns)
            return None if inside is None else trips * inside
        left -= trips
        if left < 0:
            return None
        parts = [times(at + 1, {**turns, loop.name: turn}) for turn in range(trips)]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == trips else None

    return times(0, {})


def _trips(program: Program, loop: Instruction, turns: Turns) -> int | None:
    """Return the count of `for (i = first; i < last; i += step)`."""
    if loop.opcode != "while":
        return None
    known = _KNOWN.search(loop.backend_config)
    stated = known[1] if known else dict(loop.frontend_attributes).get(TOLD)
    if stated is not None:
        return int(stated)
    if len(loop.calls) != 2:
        return None
    walk = _Evaluation(program, turns, loop)
    condition = program.root(loop.calls[1])
    limit = walk.limit(condition) if condition else None
    if limit is None:
        return None
    counter, last, upward = limit
    first = walk.initial(loop, counter.element)
    step = walk.step(loop, counter.element)
    if first is None or step is None or (step > 0) is not upward:
        return None
    way = last - counter.plus - first
    return max(0, -(-way // step)) if step else None


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Evaluates integers, given how often outer loops have turned.

    The element that `loop` counts in is unknown: what depends on it is an Affine.
    """

    program: Program
    turns: Turns
    loop: Instruction

    def limit(self, condition: Instruction) -> tuple[Affine, int, bool] | None:
        """Return the counter that the condition compares, its exclusive bound, and its way."""
        calls: _Calls = ()
        while condition.opcode == "fusion" and condition.calls:
            calls = (*calls, condition)
            root = self.program.root(condition.calls[0])
            if root is None:
                return None
            condition = root
        if condition.opcode != "compare" or len(condition.operands) != 2:
            return None
        left, right = (self.value(it, calls) for it in self.program.operands(condition))
        direction = condition.comparison
        if isinstance(right, Affine):
            left, right = right, left
            direction = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, "")
        reach = {"LT": 0, "LE": 1, "GT": 0, "GE": -1}.get(direction)
        if not isinstance(left, Affine) or not isinstance(right, int) or reach is None:
            return None
        return left, right + reach, direction in ("LT", "LE")

    def initial(self, loop: Instruction, element: int) -> int | None:
        """Return the element's value before the loop."""
        value = self._element(self.program.operands(loop)[0], element, (), 0)
        return value if isinstance(value, int) else None

    def step(self, loop: Instruction, element: int) -> int | None:
        """Return by how much an iteration raises the element; 0 if it passes it on."""
        root = self.program.root(loop.calls[0])
        if root is None:
            return None
        own = _Evaluation(self.program, self.turns, loop)
        value = own._element(root, element, (), 0)
        return value.plus if isinstance(value, Affine) and value.element == element else None

    def value(  # noqa: PLR0911 - one for each kind
        self, it: Instruction, calls: _Calls = (), depth: int = 0
    ) -> Scalar:
        """Return an integer, an Affine of the loop's counter, or None: not known."""
        if it.opcode == "constant":
            return it.literal
        if depth > _DEEPEST:
            return None
        operands = self.program.operands(it)
        if it.opcode == "parameter":
            given = self._given(it, calls)
            return self.value(given[0], given[1], depth + 1) if given else None
        if it.opcode == "get-tuple-element" and operands:
            return self._element(operands[0], it.tuple_index or 0, calls, depth + 1)
        if it.opcode in ("fusion", "call") and it.calls:
            root = self.program.root(it.calls[0])
            return self.value(root, (*calls, it), depth + 1) if root else None
        if it.shape.is_tuple or it.shape.dims:
            return None
        if it.opcode in _SAME and operands:
            return self.value(operands[0], calls, depth + 1)
        return computed(it, [self.value(operand, calls, depth + 1) for operand in operands])

    def _given(self, parameter: Instruction, calls: _Calls) -> tuple[Instruction, _Calls] | None:
        """Return what the caller passes as this parameter, and the calls around the caller."""
        number = parameter.parameter_number or 0
        if calls:
            caller, outer = calls[-1], calls[:-1]
        else:
            callers = self.program.callers(parameter.computation)
            if len(callers) != 1:
                return None
            caller, outer = callers[0], ()
        if caller.opcode == "conditional":
            number = caller.calls.index(parameter.computation) + 1
        elif caller.opcode not in ("fusion", "call", "async-start", "call-start"):
            return None
        operands = self.program.operands(caller)
        return (operands[number], outer) if number < len(operands) else None

    def _element(  # noqa: PLR0911 - one for each kind
        self, of: Instruction, at: int, calls: _Calls, depth: int
    ) -> Scalar:
        """Return an element of a tuple."""
        if depth > _DEEPEST:
            return None
        operands = self.program.operands(of)
        if of.opcode == "tuple":
            return self.value(operands[at], calls, depth + 1) if at < len(operands) else None
        if of.opcode in _SAME and operands:
            return self._element(operands[0], at, calls, depth + 1)
        if of.opcode in ("fusion", "call") and of.calls:
            root = self.program.root(of.calls[0])
            return self._element(root, at, (*calls, of), depth + 1) if root else None
        if of.opcode == "while":
            return self._after(of, at, depth + 1)
        if of.opcode != "parameter":
            return None
        given = self._given(of, calls)
        if given:
            return self._element(given[0], at, given[1], depth + 1)
        callers = self.program.callers(of.computation)
        whole = len(callers) == 1 and callers[0].opcode == "while"
        return self._inside(callers[0], at, depth + 1) if whole else None

    def _inside(self, loop: Instruction, at: int, depth: int) -> Scalar:
        """Return an element of a loop's tuple while it runs."""
        if self._passes(loop, at):
            return self._element(self.program.operands(loop)[0], at, (), depth)
        if loop is self.loop:
            return Affine(at)
        if loop.name not in self.turns:
            raise _Needs(loop)
        first, step = self.initial(loop, at), self.step(loop, at)
        if first is None or step is None:
            return None
        return first + step * self.turns[loop.name]

    def _after(self, loop: Instruction, at: int, depth: int) -> Scalar:
        """Return an element of a loop's tuple after it; only one that it passes on is known."""
        if not self._passes(loop, at):
            return None
        return self._element(self.program.operands(loop)[0], at, (), depth)

    def _passes(self, loop: Instruction, at: int) -> bool:
        """Return whether every iteration passes the element on as it is."""
        root = self.program.root(loop.calls[0]) if loop.calls else None
        if root is None or root.opcode != "tuple" or at >= len(root.operands):
            return False
        it = self.program.operands(root)[at]
        while it.opcode in _SAME and len(it.operands) == 1:
            it = self.program.operands(it)[0]
        sources: Sequence[Instruction] = self.program.operands(it)
        whole = it.opcode == "get-tuple-element" and (it.tuple_index or 0) == at
        return whole and sources[0].opcode == "parameter"
