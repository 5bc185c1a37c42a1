"""Finds what one iteration of the training loop calls, from calls that return zeros.

A step is an iteration of the loop: often one function, but also four gradients, three sums and an
update, or the two networks of a GAN. Arrays that one function returns and another takes tell which
belong together: an update hands weights to the gradient, an evaluation hands nothing to anyone. An
operation outside of `jax.jit`, as a sum of gradients, is a program of JAX's own, and belongs to an
iteration if results pass through it from one function to the next, or if it moves much.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from .function import JaxObject, LoweredFunction

_CALLS = 128
"""Calls of the step that are waited for: an iteration may have so many, half as many repeat."""
_SETTLED_S = 1.5
"""Seconds of work after which a cycle that repeats, or a function that takes its own results, is
all."""
_WAIT_S = 3.0
"""Seconds of work for which the rest of an iteration is waited for, while the program calls
something."""
_PATIENCE = 4.0
"""How many times as long a program may take that waits, or gets little of a busy machine."""
_FIRST_S = 30.0
"""Seconds of work for which its second call is waited for, while operations are new: each is
traced and compiled, which takes several times as long on a machine that does other things, too."""
_KEPT = 1 << 14
"""Calls that are remembered."""
_MOST = 8
"""Functions of one iteration."""
_MOST_OPERATIONS = 64
"""Operations outside of `jax.jit` in one iteration, by what they compute; all are compiled."""
_MEASURED = 32
"""Calls of an operation before which the memory beside it is measured."""
_ALONE = 3
"""Calls after which a function that the user named is known as later calls run it."""
_NOTABLE = 1 << 20
"""Bytes from which on a call of JAX's own functions keeps the program from being silent, and counts
as a part of an iteration whatever it is for."""

Key = tuple[str, str]  # the name and the place of a function


class Cycle:
    """The calls of one iteration in order, and where iterations that were called whole are."""

    def __init__(
        self, order: list[Key], functions: list[LoweredFunction], spans: list[tuple[int, int]]
    ) -> None:
        self.order = order
        self.spans = spans  # the numbers of their first calls, and of those after the last
        self.functions = functions  # of distinct keys, the first called first
        self.keys = [function.key for function in functions]

    @property
    def is_one_call(self) -> bool:
        return len(self.order) == 1


class _Shape:
    """A function as it was lowered for some shapes, and how often it was called so."""

    def __init__(self, function: LoweredFunction, arguments: Iterable[JaxObject]) -> None:
        self.function = function  # keeps its id unique
        self.shapes = [tuple(getattr(array, "shape", ())) for array in arguments]
        self.times = 0


class _Moment:
    """A moment, and the work of the program since: its processor time, or the clock if it waits.

    The clock alone would give up on a program whose machine does other things.
    """

    def __init__(self) -> None:
        self._worked_s = time.process_time()
        self._at_s = time.monotonic()

    def is_past(self, for_s: float) -> bool:
        """Return whether the program has worked for so long since."""
        worked_s, passed_s = time.process_time() - self._worked_s, time.monotonic() - self._at_s
        return passed_s > for_s and (worked_s > for_s or passed_s > _PATIENCE * for_s)


class LoopCalls:
    """The calls of the program's functions since its step was found."""

    def __init__(self, step: LoweredFunction, *, alone: bool = False) -> None:
        self.step = step
        self._is_alone = alone  # named by the user: it is the step, whatever the loop runs beside
        self.cycle: Cycle | None = None
        self._heard = _Moment()  # when anything was lowered or called
        self._functions: dict[Key, LoweredFunction] = {}
        self._calls: list[Key] = []
        self._times: Counter[Key] = Counter()
        self._made: dict[int, tuple[Any, Key]] = {}  # by which function, by id of the array
        self._taken: dict[int, tuple[Any, int]] = {}  # in which call last
        self._found_at = 0  # the call after which the cycle was known
        self._fed: set[tuple[Key, Key]] = set()
        self._alive: dict[Key, list[int]] = {}
        self._first: _Moment | None = None  # when the step was called first
        self._met: list[LoweredFunction] = []
        self._operations: dict[Key, int] = {}  # JAX's own functions, and bytes of a call
        self._resharded: dict[str, None] = {}  # functions lowered again for what later calls pass
        self._is_usual = True  # the shape of the last call
        self._shapes: dict[int, _Shape] = {}  # of functions that were called, by their id

    @property
    def times(self) -> int:
        """Number of calls of the step."""
        return self._times[self.step.key]

    def hear(self) -> None:
        """Note that the program does something, so is not silent."""
        self._heard = _Moment()

    def meet(self, function: LoweredFunction) -> None:
        """Handle a function that was lowered or called."""
        self.hear()
        if self._first is None or function is self.step:
            return
        if function not in self._met:
            self._met.append(function)

    def call(
        self,
        function: LoweredFunction,
        arguments: Iterable[JaxObject],
        results: Iterable[JaxObject],
    ) -> None:
        """Handle a call, with the arrays that it takes and returns."""
        key = function.key
        if function.is_own:
            self.meet(function)
        elif key not in self._operations:
            self._operations[key] = sum(_bytes(array) for array in (*arguments, *results))
        if self._operations.get(key, 0) > _NOTABLE:
            self.hear()
        if len(self._calls) >= _KEPT:
            return
        if function.is_own:
            self._count_shape(function, arguments)
        else:
            self._functions[key] = function  # as it was lowered last
        if key == self.step.key and self._first is None:
            self._first = _Moment()
        for array in arguments:
            with suppress(TypeError):  # not an array
                self._taken[id(array)] = (weakref.ref(array), len(self._calls))
            made = self._made.get(id(array))
            if made is not None and made[0]() is array:
                self._fed.add((made[1], key))
        for array in results:
            with suppress(TypeError):
                self._made[id(array)] = (weakref.ref(array), key)
        self._calls.append(key)
        self._times[key] += 1

    def _count_shape(self, function: LoweredFunction, arguments: Iterable[JaxObject]) -> None:
        """Count a call; of several shapes of a function, the one that is called most stands for it.

        Others are of a first call, or of an epoch's last batch.
        """
        mine = self._shapes.setdefault(id(function), _Shape(function, arguments))
        mine.times += 1
        known = self._functions.setdefault(function.key, function)
        its = self._shapes[id(known)]
        if known is not function and known.computation == function.computation:
            self._take_over(mine, its)
            its = mine
        if mine.shapes != its.shapes and mine.times > its.times:
            self._functions[function.key] = function
            if function.key == self.step.key:
                self.step = function
        self._is_usual = self._functions[function.key] is function or mine.shapes == its.shapes

    def _take_over(self, mine: _Shape, its: _Shape) -> None:
        """Let the same function for other shardings stand for it, as later calls run it.

        The first call often gets arrays as they were created, the later ones its own results.
        """
        function = mine.function
        mine.times = its.times + 1
        self._functions[function.key] = function
        self._resharded[function.name] = None
        if self.step is its.function:
            self.step = function

    def measures(self, function: LoweredFunction) -> bool:
        """Return whether it is known to be part of an iteration, whose memory is then measured."""
        if self.cycle is None or function.key not in self.cycle.keys:
            return False
        return function.is_own or len(self._alive.get(function.key, ())) < _MEASURED

    def measure(
        self,
        function: LoweredFunction,
        call: list[JaxObject],
        live: list[JaxObject],
        cached: dict[int, int],
    ) -> None:
        """Count the bytes of a device that stay alive beside the arrays of a call.

        `cached` has the references that are ours, by id: of the zeros that are handed out again. An
        array that nobody else refers to is one that the program has let go, and so is one that was
        taken once and no longer is: frames of JAX's keep the arguments of first calls.
        """
        now = {id(array) for array in call}
        since = len(self._calls) - 2 * (len(self.cycle.order) if self.cycle else 1)
        total = 0
        for at in range(len(live)):
            array = live[at]
            ours = cached.get(id(array), 0) + 3  # this list, this name and the argument of the call
            if id(array) in now or sys.getrefcount(array) <= ours:
                continue
            taken = self._taken.get(id(array))
            if taken is None or taken[0]() is not array or taken[1] >= since:
                total += _bytes(array)
        self._alive.setdefault(function.key, []).append(total)

    def look(self) -> bool:
        """Find the cycle anew; return whether it has changed."""
        before, cycle = self.cycle, None if self._is_alone else self._find_cycle()
        if cycle is None or self._is_within_first(cycle):
            self.cycle = None if cycle is not None else before
            return self.cycle is not before
        if before is None or before.order != cycle.order:
            self.cycle, self._found_at = cycle, len(self._calls)
            return True
        self.cycle = cycle
        return before.functions != cycle.functions  # other shapes of them

    @property
    def is_over(self) -> bool:
        """Whether nothing new is to be expected."""
        if self._first is None:
            return False
        if self.times == 1 and not self.is_silent(_WAIT_S):
            return self._first.is_past(_FIRST_S)
        if self.times >= _CALLS or self._first.is_past(2 * _WAIT_S):
            return True
        return self._is_settled and self._is_measured and self._first.is_past(_SETTLED_S)

    def is_silent(self, for_s: float) -> bool:
        """Return whether the program has done nothing that is seen here for so long."""
        return self._heard.is_past(for_s)

    @property
    def _is_measured(self) -> bool:
        """Whether an iteration was called whole since its functions are known."""
        more = len(self.cycle.order) if self.cycle and not self.cycle.is_one_call else 0
        return len(self._calls) >= self._found_at + more

    @property
    def _is_settled(self) -> bool:
        """Whether the results of each function of the cycle are taken by one of it.

        Nor is it settled as long as the last call was of another shape than is called most.
        """
        if self._is_alone:
            return self._is_usual and self.times >= _ALONE
        if self.cycle is None or not self._is_usual:
            return False
        keys = set(self.cycle.keys)
        functions = keys - self._operations.keys()
        return all(any((key, taker) in self._fed for taker in keys) for key in functions)

    def _is_within_first(self, cycle: Cycle) -> bool:
        """Return whether the calls of one function may all be of one iteration, as of a critic.

        Another function that trains was called once since, and the step not much longer after it
        than before.
        """
        if len(set(cycle.keys) - self._operations.keys()) > 1:
            return False
        steps = [place for place, key in enumerate(self._calls) if key == self.step.key]
        for key, function in self._functions.items():
            if function.is_training and key not in cycle.keys and self._times[key] == 1:
                at = self._calls.index(key)
                before = sum(place < at for place in steps)
                if before and len(steps) - before <= 2 * before:
                    return True
        return False

    def _core(self) -> list[Key]:
        """Return the functions that an iteration must have, the heaviest first.

        They are those that train, and those that hand results of these back to them.
        """
        core = {
            key for key, it in self._functions.items() if it.is_training and self._times[key] > 1
        }
        core.add(self.step.key)
        reached = set(core)
        while True:
            more = {taker for maker, taker in self._fed if maker in reached} - reached
            if not more:
                break
            reached |= more
        while True:
            more = {maker for maker, taker in self._fed if taker in core and maker in reached}
            if more <= core:
                break
            core |= more
        return sorted(core, key=self._weight, reverse=True)

    def _weight(self, key: Key) -> tuple[bool, bool, float]:
        function = self._functions.get(key)
        return (
            key == self.step.key,
            function is not None and function.is_training,
            0.0 if function is None else function.flops,
        )

    def _find_cycle(self) -> Cycle | None:
        everything = [key for key in self._core() if self._is_on_all_devices(key)]
        core = [key for key in everything if key not in self._operations]
        operations = self._operations.keys() & {*everything}
        operations |= {
            key
            for key, size in self._operations.items()
            if size > _NOTABLE and self._is_on_all_devices(key)
        }
        while core:
            at = [place for place, key in enumerate(self._calls) if key in core]
            size = _shortest([self._calls[place] for place in at], set(core))
            cycle = self._cycle(at, size, operations) if size else None
            if cycle is not None and self._returns(cycle):
                return cycle
            core.pop()
        return None

    def _is_on_all_devices(self, key: Key) -> bool:
        """Return whether it runs on the step's devices: one alone may make the next batch."""
        return self._functions[key].devices == self.step.devices

    def _returns(self, cycle: Cycle) -> bool:
        """Return whether an iteration hands the step what it needs for the next.

        Else the step's results went elsewhere: what applies them was not called twice yet.
        """
        return any((key, self.step.key) in self._fed for key in cycle.keys)

    def _cycle(self, at: list[int], size: int, operations: set[Key]) -> Cycle:
        """Return the last iteration that was called whole, with what else is in every one.

        Of operations outside of `jax.jit`, it has those that are given.
        """
        sequence = [self._calls[place] for place in at]
        first = self._beginning(sequence, size)
        whole = [
            place
            for place in range(first, len(sequence) - size, size)
            if sequence[place : place + size] == sequence[first : first + size]
        ]
        places = [(at[place], at[place + size]) for place in whole]
        left_out = self._operations.keys() - operations
        left_out |= {key for key in self._functions if not self._is_on_all_devices(key)}
        spans = [
            [key for key in self._calls[begin:end] if key not in left_out] for begin, end in places
        ]
        order = list(sequence[first : first + size])
        if len(spans) > 1:
            later = spans[1:]  # the first has what is done once, as a first log line
            in_all = [key for key in later[-1] if all(key in span for span in later)]
            order = in_all
            if len(later) > 1:
                usual = Counter(tuple(span) for span in later).most_common(1)[0][0]
                order = [key for key in usual if key in in_all]
        if len(operations.intersection(order)) > _MOST_OPERATIONS:
            order = [key for key in order if key not in operations]
        distinct = list(dict.fromkeys(order))
        if sum(key not in operations for key in distinct) > _MOST:
            order = sequence[first : first + size]
            distinct = list(dict.fromkeys(order))
        return Cycle(order, [self._functions[key] for key in distinct], places)

    def _beginning(self, sequence: list[Key], size: int) -> int:
        """Return where an iteration begins: with training, after what is called least."""
        counts = Counter(sequence[-size:])
        last = len(sequence) - size
        known = [
            (counts[sequence[place - 1]], place)
            for place in range(1, min(size + 1, last + 1))
            if self._functions[sequence[place]].is_training
            and not self._functions[sequence[place - 1]].is_training
        ]
        if not known:
            return 0
        place = min(known)[1]
        return place - size if place >= size else place

    def _beside(self) -> dict[str, Any]:
        """Return JAX's own functions in every iteration that are no part of it, and their bytes.

        Without a cycle, an iteration lasts from one call of the step to the next.
        """
        steps = [place for place, key in enumerate(self._calls) if key == self.step.key]
        spans = self.cycle.spans if self.cycle else [*zip(steps, steps[1:])]  # noqa: B905, RUF007  Python 3.9 has neither
        later = spans[1:] or spans  # the first has what is done once, as a first log line
        inside = set(self.cycle.keys) if self.cycle else set[Key]()
        outside = self._operations.keys() - inside
        calls = [
            Counter(key for key in self._calls[begin:end] if key in outside) for begin, end in later
        ]
        if not calls:
            return {"calls": {}, "bytes": 0}
        always = calls[0]
        for each in calls[1:]:
            always = always & each
        names: Counter[str] = Counter()
        for key, count in always.items():
            names[key[0]] += count
        moved = sum(self._operations[key] * count for key, count in always.items())
        return {"calls": dict(names.most_common()), "bytes": moved}

    def facts(self) -> dict[str, Any]:
        """Return the facts for the outcome."""
        inside = set(self.cycle.keys) if self.cycle else {self.step.key}
        beside = [it for it in self._met if it.key not in inside]
        called = [shape.function for shape in self._shapes.values()]
        shapes = {it.key: it for it in (*called, *self._met) if self._is_other_shape(it, inside)}
        return {
            "beside": list(dict.fromkeys(it.name for it in beside if it.name != self.step.name)),
            "shapes": [it.name for it in shapes.values()],
            "resharded": [*self._resharded],
            "helpers": self._beside(),
            "times": self.times,
            "alone": self._is_alone,
            "trains": self.step.is_training,
            "cycle": self._cycle_facts(),
        }

    def _is_other_shape(self, function: LoweredFunction, inside: set[Key]) -> bool:
        """Return whether it is a function of the step, but not as it is predicted."""
        known = self._functions.get(function.key)
        own = {it.computation for it in (self.step, known) if it is not None}
        return function.key in inside and function.computation not in own

    def _cycle_facts(self) -> dict[str, Any] | None:
        if self.cycle is None:
            return None
        order = self.cycle.order
        updates = self._updates(self.cycle)
        functions: list[dict[str, Any]] = []
        for function in self.cycle.functions:
            last = self._alive.get(function.key, [])[-order.count(function.key) :]
            functions.append(
                {
                    "name": function.name,
                    "alive": max(last, default=None),
                    "operation": not function.is_own,
                    "updates": function.key in updates,
                }
            )
        return {
            "order": [self.cycle.keys.index(key) for key in order],
            "functions": functions,
            "main": self.cycle.keys.index(self.step.key),
        }

    def _updates(self, cycle: Cycle) -> set[Key]:
        """Return those that apply gradients or add them up: what trains hands them its results.

        They multiply no matrices, unlike the forward pass, which gets weights from them.
        """
        trains = {function.key for function in cycle.functions if function.is_training}
        plain = {it.key for it in cycle.functions if not it.is_training and not it.flops}
        updates: set[Key] = set()
        while True:
            more = {
                taker
                for maker, taker in self._fed
                if taker in plain and (maker in trains or maker in updates)
            }
            if more <= updates:
                return updates
            updates |= more


def _shortest(sequence: list[Key], core: set[Key]) -> int:
    """Return the shortest length after which calls repeat, with all of the core; 0 if none do."""
    for size in range(len(core), len(sequence) // 2 + 1):
        last = sequence[-size:]
        if last == sequence[-2 * size : -size] and core.issubset(last):
            return size
    return 0


def _bytes(array: JaxObject) -> int:
    """Return the bytes of an array on one device."""
    try:
        shape = array.sharding.shard_shape(array.shape)
        return math.prod(shape) * int(array.dtype.itemsize)
    except Exception:  # noqa: BLE001  deleted, or of a type without a size
        return 0
