"""Questions of the form "what if": the same schedule, priced on other hardware.

Nothing is compiled anew, so a scheduler that knew of the faster network might do even better.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from counterpoint.core.basis import Range
from counterpoint.core.errors import UsageError
from counterpoint.cost.what_if import WhatIf, parse_what_if
from counterpoint.hlo import Program, collective, launched
from counterpoint.workflow.forecast import Bench
from counterpoint.workflow.prediction import Answer, Forecast
from counterpoint.workflow.ranking import difference


def read_questions(texts: Sequence[str]) -> list[tuple[str, WhatIf]]:
    """Each part of a text by itself, then all of them together; refused before any work."""
    found: list[tuple[str, WhatIf]] = []
    for text in texts:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        whole = parse_what_if(text)
        if len(parts) > 1:
            found += [(part, parse_what_if(part)) for part in parts]
        found.append((", ".join(parts), whole))
    return found


def answers(
    bench: Bench, base: Forecast, questions: Sequence[tuple[str, WhatIf]]
) -> Iterator[Answer]:
    """What the base's schedule would take under each."""
    for text, what_if in questions:
        check_names(what_if, base.program)
        other = bench.simulate(base.program, base.settings, what_if=what_if)
        saves = difference(base.simulation, other)
        yield Answer(
            question=text,
            step_s=other.step_s,
            range_s=Range(other.low_s, other.high_s),
            saves_s=base.step_s - other.step_s,
            saves_range_s=saves,
        )


def check_names(what_if: WhatIf, program: Program) -> None:
    """Refuse an instruction or a kind of collective that the program does not have."""
    kinds = {
        found.kind
        for computation in launched(program)
        for it in computation.instructions
        if (found := collective(program, it)) is not None
    }
    for name in what_if.instructions:
        if name in kinds or program.instruction(name) is not None:
            continue
        names = [it.name for it in program.instructions]
        near = difflib.get_close_matches(name, [*kinds, *names], n=3, cutoff=0.6)
        talks = ", ".join(sorted(kinds)) or "no collective"
        raise UsageError(
            f"--what-if {name}: {program.name} has no such instruction",
            why=f"near it are {', '.join(near)}" if near else f"its collectives are {talks}",
            next="counterpoint predict ... --json | jq -r '.collectives[].op'   # all names",
        )
