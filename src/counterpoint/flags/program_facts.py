"""ProgramFacts: what a program has that settings could change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.flags.thresholds import Thresholds, thresholds
from counterpoint.program import Category, Program, category, collective, in_loop
from counterpoint.program.launches import launched

BEYOND_MODEL = ("send", "recv")
"""Collectives under which XLA's model of transfer times steps back for the whole module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """Kinds of collectives, those in loops, and how thresholds merge them."""

    name: str
    kinds: frozenset[str]
    in_loops: frozenset[str]
    has_loop: bool
    beyond_model: bool  # the scheduler then runs only if asked for
    thresholds: Thresholds

    @property
    def choices(self) -> Mapping[str, int | None]:
        """By flag: the threshold that merges a loop's collectives; None where none is needed."""
        return {kind.flag: kind.choice for kind in self.thresholds.kinds}


def program_facts(program: Program, version: str | None = None) -> ProgramFacts:
    """Look at all that a program launches."""
    kinds: set[str] = set()
    looped: set[str] = set()
    has_loop = offloads = False
    for computation in launched(program):
        inside = in_loop(program, computation.name)
        for it in computation.instructions:
            has_loop |= it.opcode == "while"
            found = collective(program, it)
            offloads |= category(program, it) is Category.HOST
            if found is not None:
                kinds.add(found.kind)
                looped |= {found.kind} if inside else set()
    return ProgramFacts(
        name=program.name,
        kinds=frozenset(kinds),
        in_loops=frozenset(looped),
        has_loop=has_loop,
        beyond_model=offloads or bool(kinds & set(BEYOND_MODEL)),
        thresholds=thresholds(program, version),
    )
