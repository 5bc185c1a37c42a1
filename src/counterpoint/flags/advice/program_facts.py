"""ProgramFacts: what a program has that settings could change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.advice.thresholds import Thresholds, thresholds
from counterpoint.hlo import Program, collective, in_loop
from counterpoint.hlo.launches import launched

BEYOND_MODEL: Final = frozenset({"send", "recv", "ragged-all-to-all", "collective-broadcast"})
"""Collectives that XLA's model of transfer times lacks; computation on the host is the same to it.

One of them may keep the scheduler from running unasked, for the whole module. See
HasOnlySupportedCollectives in xla/service/gpu/model/sol_latency_estimator.cc.
"""
_ON_HOST: Final = "DEVICE_TYPE_HOST"


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
    has_loop = on_host = False
    for computation in launched(program):
        inside = in_loop(program, computation.name)
        for it in computation.instructions:
            has_loop |= it.opcode == "while"
            found = collective(program, it)
            on_host |= _ON_HOST in it.backend_config
            if found is not None:
                kinds.add(found.kind)
                looped |= {found.kind} if inside else set()
    return ProgramFacts(
        name=program.name,
        kinds=frozenset(kinds),
        in_loops=frozenset(looped),
        has_loop=has_loop,
        beyond_model=on_host or bool(kinds & BEYOND_MODEL),
        thresholds=thresholds(program, version),
    )
