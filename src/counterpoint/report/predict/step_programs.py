"""The names by which a report tells the programs of a step apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.report.places import short_path


def names_apart(programs: Sequence[Program]) -> list[str]:
    """Return the names; of equal ones with the source line, or with the arguments' shapes.

    JAX names all functions of `lambda` alike, and a function alike for all shapes.
    """
    names = [program.name for program in programs]
    for about in (_place, _arguments):
        counts = Counter(names)
        extended = [
            f"{name} ({about(program)})" if counts[name] > 1 else name
            for name, program in zip(names, programs, strict=True)
        ]
        apart = Counter(extended)
        names = [
            extended[number] if apart[extended[number]] < counts[name] else name
            for number, name in enumerate(names)
        ]
    return names


def _place(program: Program) -> str:
    """Return a line of the function that it is of; else the line that its result comes from."""
    entry = program.computations[program.entry].instructions
    origins = [provenance(program, it) for it in reversed(entry)]
    for origin in origins:
        for frame in origin.stack:
            inner = re.sub(r"\W+", "_", frame.function).strip("_")
            if inner and inner == program.name.removeprefix("jit_").strip("_"):
                return short_path(f"{frame.file}:{frame.line}")
    return next((short_path(it.source) for it in origins if it.source is not None), "?")


def _arguments(program: Program) -> str:
    """Return the shapes of its arguments."""
    entry = program.computations[program.entry].instructions
    return ", ".join(str(it.shape) for it in entry if it.opcode == "parameter")
