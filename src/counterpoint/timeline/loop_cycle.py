"""Finds the iteration of a training loop: the shortest cycle of programs that devices run.

A profile without step markers has the order of its programs. An iteration may consist of several,
of one several times (four gradients, three sums, one update), and rare others run in between:
evaluation, checkpoints, what a log line computes. So the cycle is searched among the programs that
train, and those that hand them state (`ProgramRoles`); what else runs in nearly every iteration is
part of it, too, and the rest is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.program_roles import ProgramRoles

_LONGEST: Final = 1024
"""Runs of a cycle at most."""
_CLOSE: Final = 0.6
"""Least share of runs that equal the one a cycle later, for a length to be tried."""
_BROKEN: Final = 0.25
"""Largest share of cycles that others of the same programs may follow, out of cycle."""
_MANY: Final = 4
"""Fewest cycles of which one may be out of order."""
_EVERY: Final = 0.9
"""Least share of cycles in which a program runs that is part of them."""
_HEAVY: Final = 0.01
"""Share of the time of all runs from which a program in between ends the step before it."""
_PAUSE: Final = 2.0
"""A cycle begins after a pause so many times longer than any other within it."""


@dataclass(frozen=True, slots=True)
class CycleProgram:
    """A program of the step with all builds of its function, and how often one step runs any."""

    program: int
    runs: int
    builds: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LoopCycle:
    """The cycle, its runs with the `step` of each, and runs that are in no step and end one."""

    programs: tuple[CycleProgram, ...]
    runs: pl.DataFrame
    others: pl.DataFrame
    is_one_run: bool  # of one program, but for little ones beside it


def cycle_text(programs: Sequence[CycleProgram], names: Sequence[str]) -> str:
    """Return the programs of a cycle: `4 x jit_grad, jit_apply`."""
    return ", ".join(
        f"{each.runs} x {names[each.program]}" if each.runs > 1 else names[each.program]
        for each in programs
    )


def find_cycle(
    runs: pl.DataFrame, names: Sequence[str], roles: ProgramRoles | None
) -> LoopCycle | None:
    """Return the cycle of these runs (with `index`); None if they show none.

    Without `roles` it is one of the programs that run about equally often.
    """
    of_device = _by_device(runs)
    if not of_device:
        return None
    first = max(of_device, key=lambda device: (len(of_device[device]), -device))
    reference = of_device[first]
    cycle = _usual_word(reference, _kinds(runs, names, roles), roles)
    if cycle is None:
        return None
    return _on_all_devices(cycle, of_device, reference)


def _by_device(runs: pl.DataFrame) -> dict[int, pl.DataFrame]:
    parts = runs.sort("device", "start_ps").partition_by("device", as_dict=True)
    return {int(str(device)): part for (device,), part in parts.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Word:
    """The runs of one iteration, as the kind of each, and how a kind of run is told.

    `kinds` maps a program to the first program of its function. `core` are the kinds in the word;
    `beside` are those that run in nearly every iteration, and how often; all else is between them.
    """

    word: tuple[int, ...]
    kinds: Mapping[int, int]
    beside: Mapping[int, int]
    heavy: frozenset[int]
    ending: frozenset[int]  # where they run in no step, it is over

    def builds(self, kind: int) -> tuple[int, ...]:
        """Return all programs of a kind."""
        return tuple(program for program, own in self.kinds.items() if own == kind)

    def steps(self, runs: pl.DataFrame) -> tuple[NDArray[np.int64], list[int]]:
        """Return the rows of core runs, and at which of these rows a whole word begins."""
        kinds = _kinds_of(runs, self.kinds)
        rows = np.flatnonzero(np.isin(kinds, [*{*self.word}]))
        return rows, list(_matches(kinds[rows].tolist(), self.word))


def _kinds_of(runs: pl.DataFrame, kinds: Mapping[int, int]) -> NDArray[np.int64]:
    return np.array([kinds[program] for program in runs["program"].to_list()], np.int64)


def _matches(sequence: list[int], word: tuple[int, ...]) -> Iterator[int]:
    """Yield where the word occurs, one after the other."""
    at, size = 0, len(word)
    while at + size <= len(sequence):
        if tuple(sequence[at : at + size]) == word:
            yield at
            at += size
        else:
            at += 1


def _kinds(
    runs: pl.DataFrame, names: Sequence[str], roles: ProgramRoles | None
) -> list[dict[int, int]]:
    """Return which programs are one kind: builds of a function that stand for each other, or all.

    A function that is compiled for several shapes or static arguments is several programs of one
    name, and a call of either is a call of it. Builds with states or roles of their own may be
    parts of one iteration, as where one function trains two networks: so these are first apart.
    """
    present: list[int] = runs["program"].unique().sort().to_list()
    alone = {program: program for program in present}
    if roles is None:
        return [alone]
    alike, of_function = dict(alone), dict(alone)
    for at, program in enumerate(present):
        for earlier in present[:at]:
            if names[earlier] != names[program] or not roles.same_function(earlier, program):
                continue
            of_function[program] = min(of_function[program], of_function[earlier])
            if roles.interchangeable(earlier, program):
                alike[program] = min(alike[program], alike[earlier])
    return [alike, of_function] if of_function != alike else [alike]


def _usual_word(
    runs: pl.DataFrame, choices: list[dict[int, int]], roles: ProgramRoles | None
) -> _Word | None:
    for last, kinds in enumerate(choices, start=1 - len(choices)):
        word = _word(runs, kinds, roles, every=last < 0)
        if word is not None:
            return word
    return None


def _word(
    runs: pl.DataFrame, kinds: Mapping[int, int], roles: ProgramRoles | None, *, every: bool
) -> _Word | None:
    """Return the shortest cycle of the programs that train; `every`: only one that has them all.

    A program that fits into no cycle is left out, the lightest first.
    """
    kind_of_run = _kinds_of(runs, kinds)
    spent = (runs["end_ps"] - runs["start_ps"]).to_numpy()
    time = {kind: int(spent[kind_of_run == kind].sum()) for kind in {*kind_of_run.tolist()}}
    kinds_in_order: list[int] = kind_of_run.tolist()
    counts = Counter(kinds_in_order)
    core = _core(time, counts, roles)
    word, rows = None, np.empty(0, np.int64)
    while core:
        rows = np.flatnonzero(np.isin(kind_of_run, core))
        word = _shortest(kind_of_run[rows].tolist(), frozenset(core))
        if word is not None or len(core) == 1 or every:
            break
        core.pop()
    if word is None:
        return None
    trains = {kind for kind in core if roles is not None and roles.trains(kind)}
    word = _from_its_beginning(word, runs[pl.Series(rows)], kind_of_run[rows].tolist(), trains)
    heavy = frozenset(kind for kind in time if time[kind] > _HEAVY * sum(time.values()))
    unknown = {kind for kind in heavy if roles is None or roles.feeds(kind, core[0]) is None}
    beside = _beside(_Word(word, kinds, {}, heavy, heavy), runs, kind_of_run)
    return _Word(word, kinds, beside, heavy, frozenset({*heavy} - unknown - {*beside} | {*core}))


def _core(time: Mapping[int, int], counts: Counter[int], roles: ProgramRoles | None) -> list[int]:
    """Return the programs that a cycle must have, the heaviest first.

    They are those that train, and those that compute the state of one which does not update its
    own: sums of gradients, the optimizer.
    """
    order = sorted(time, key=lambda kind: (-time[kind], kind))
    trains = [kind for kind in order if roles is not None and roles.trains(kind)]
    trains = [kind for kind in trains if counts[kind] > 1]
    if roles is None or not trains:
        return order[:1]
    partial = [kind for kind in trains if roles.updates(kind) is False]
    fed = [
        kind
        for kind in order
        if kind not in trains
        and counts[kind] > 1
        and any(roles.feeds(kind, other) for other in partial)
    ]
    return sorted([*trains, *fed], key=order.index)


def _shortest(sequence: list[int], core: frozenset[int]) -> tuple[int, ...] | None:
    """Return the shortest word with all of the core whose repetition is the sequence."""
    codes = np.array(sequence)
    for size in range(len(core), min(len(codes) // 2, _LONGEST) + 1):
        if (codes[size:] == codes[:-size]).mean() < _CLOSE:
            continue
        words = Counter(tuple(sequence[at : at + size]) for at in range(len(sequence) - size + 1))
        word = max(words, key=lambda each: words[each])
        if core.issubset(word) and _covers(sequence, word):
            return word
    return None


def _covers(sequence: list[int], word: tuple[int, ...]) -> bool:
    """Return whether the word is repeated, but for a cut off one at either end.

    Some cycles may be followed by other runs of the same programs, as where an epoch ends within
    one; with a few cycles, none may.
    """
    at, size = list(_matches(sequence, word)), len(word)
    if len(at) < 2:
        return False
    broken = sum(after - before != size for before, after in pairwise(at))
    if len(at) >= _MANY:
        head, tail = at[0], len(sequence) - at[-1] - size
        broken += max(0, head // size - 1) + max(0, tail // size - 1)
        return broken <= _BROKEN * (len(at) - 1)
    head, tail = sequence[: at[0]], sequence[at[-1] + size :]
    return (
        not broken
        and list(word * 2)[2 * size - len(head) :] == head
        and (list(word)[: len(tail)] == tail)
    )


def _from_its_beginning(
    word: tuple[int, ...], runs: pl.DataFrame, sequence: list[int], trains: set[int]
) -> tuple[int, ...]:
    """Return the word from where an iteration begins.

    That is with training after what runs least, an update, or after a clear pause, or else as the
    profile begins.
    """
    size = len(word)
    turned = [word[at:] + word[:at] for at in range(size)]
    known = [one for one in turned if one[0] in trains and one[-1] not in trains]
    fewest = min((word.count(one[-1]) for one in known), default=0)
    known = [one for one in known if word.count(one[-1]) == fewest]
    candidates = list(dict.fromkeys(known or turned))
    start, end = runs["start_ps"].to_list(), runs["end_ps"].to_list()

    def pause(one: tuple[int, ...]) -> float:
        at = [place for place in _matches(sequence, one) if place]
        return median(start[place] - end[place - 1] for place in at) if at else 0.0

    if len(candidates) > 1:
        pauses = sorted(((pause(one), -number) for number, one in enumerate(candidates)))
        if pauses[-1][0] > _PAUSE * max(pauses[-2][0], 1.0):
            return candidates[-pauses[-1][1]]
    places = [next(_matches(sequence, one), len(sequence)) for one in candidates]
    return candidates[places.index(min(places))]


def _beside(cycle: _Word, runs: pl.DataFrame, kinds: NDArray[np.int64]) -> dict[int, int]:
    """Return other programs that run in nearly every iteration, with their usual number of runs."""
    rows, at = cycle.steps(runs)
    begins = rows[at]
    if len(begins) < 2:
        return {}
    beside: dict[int, int] = {}
    step = np.searchsorted(begins, np.arange(len(kinds)), side="right") - 1
    inside = (step >= 0) & (step < len(begins) - 1)
    for kind in sorted({*kinds.tolist()} - {*cycle.word}):
        per_step = np.bincount(step[inside & (kinds == kind)], minlength=len(begins) - 1)
        if (per_step > 0).mean() >= _EVERY:
            beside[kind] = Counter(per_step[per_step > 0].tolist()).most_common(1)[0][0]
    return beside


def _on_all_devices(
    cycle: _Word, of_device: Mapping[int, pl.DataFrame], reference: pl.DataFrame
) -> LoopCycle:
    """Return the cycle with its runs on every device, numbered alike.

    The first program's runs have the same `index` on all devices, which tells equal steps.
    """
    size = len(cycle.word)
    number = {run: step for step, run in enumerate(_first_runs(cycle, reference))}
    once = size == 1 and len({program for program, _ in number}) == 1
    parts: list[pl.DataFrame] = []
    others: list[pl.DataFrame] = []
    for runs in of_device.values():
        rows, at = cycle.steps(runs)
        step_of = np.full(len(runs), -1)
        for place, run in zip(at, _first_runs(cycle, runs), strict=True):
            if run in number:
                step_of[rows[place : place + size]] = run[1] if once else number[run]
        kinds = _kinds_of(runs, cycle.kinds)
        ends = np.isin(kinds, [*cycle.ending])
        ends &= np.arange(len(runs)) < rows[at[-1]] if at else False  # else nothing is known to end
        numbered = runs.with_columns(step=pl.Series(step_of, dtype=pl.Int32))
        parts.append(numbered.filter(pl.Series(step_of >= 0)))
        others.append(runs.filter(pl.Series(ends & (step_of < 0))))
    counted = Counter(cycle.word)
    order = [*dict.fromkeys(cycle.word), *(kind for kind in cycle.beside if kind in cycle.heavy)]
    order.sort(key=_places(cycle, reference).__getitem__)
    programs = tuple(
        CycleProgram(kind, counted.get(kind) or cycle.beside[kind], cycle.builds(kind))
        for kind in order
    )
    alone = size == 1 and len(programs) == 1
    return LoopCycle(programs, pl.concat(parts), pl.concat(others), is_one_run=alone)


def _places(cycle: _Word, runs: pl.DataFrame) -> dict[int, float]:
    """Return at which run of an iteration each kind of program usually begins."""
    rows, at = cycle.steps(runs)
    places: dict[int, list[int]] = {}
    for begin, end in pairwise([*rows[at].tolist(), len(runs)]):
        kinds = _kinds_of(runs[begin:end], cycle.kinds).tolist()
        for kind in {*kinds}:
            places.setdefault(kind, []).append(kinds.index(kind))
    return {kind: median(turns) for kind, turns in places.items()}


def _first_runs(cycle: _Word, runs: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the program and the index of the run with which each step begins."""
    rows, at = cycle.steps(runs)
    begins = runs[pl.Series(rows[at], dtype=pl.UInt32)]
    return list(zip(begins["program"].to_list(), begins["index"].to_list(), strict=True))
