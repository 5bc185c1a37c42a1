"""Questions of the form "what if": the same schedule, priced on other hardware.

Nothing is compiled anew, so a scheduler that knew of the faster network might do even better.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.cost.what_if import WhatIf, parse_what_if
from counterpoint.hlo import Program, collective, is_done, launched, start_of
from counterpoint.workflow.prediction.forecast import Bench
from counterpoint.workflow.prediction.prediction import Answer, Forecast, Unanswered
from counterpoint.workflow.prediction.ranking import difference
from counterpoint.workflow.prediction.step_range import step_range


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
) -> Iterator[Answer | Unanswered]:
    """What the base's schedule would take under each.

    A name that the program lacks costs its question alone, not what was compiled.
    """
    for text, what_if in questions:
        try:
            asked = resolved(what_if, base.program)
        except CounterpointError as error:
            yield Unanswered(question=text, error=error)
            continue
        other = bench.simulate(base.program, base.settings, what_if=asked)
        saves = difference(base.simulation, other)
        yield Answer(
            question=text,
            step_s=other.step_s,
            range_s=step_range(other),
            saves_s=base.step_s - other.step_s,
            saves_range_s=saves,
        )


def resolved(what_if: WhatIf, program: Program) -> WhatIf:
    """With the names under which instructions are priced; refused where the program has none."""
    if not what_if.instructions:
        return what_if
    bodies = list(launched(program))
    priced = {it.name for body in bodies for it in body.instructions}
    kinds = {
        found.kind
        for body in bodies
        for it in body.instructions
        if (found := collective(program, it)) is not None
    }
    names = {
        name if name in kinds else _priced_name(name, program, priced, kinds): factor
        for name, factor in what_if.instructions.items()
    }
    return replace(what_if, instructions=names)


def _priced_name(name: str, program: Program, priced: set[str], kinds: set[str]) -> str:
    """Of an asynchronous instruction the start, whichever of its names was given."""
    found = program.instruction(name)
    if found is not None and is_done(found):
        found = start_of(program, found) or found
    if found is not None and found.name in priced:
        return found.name
    if found is not None:
        holder = program.callers(found.computation)
        raise UsageError(
            f"--what-if {name}: it has no time of its own",
            why=f"it is a part of {holder[0].name}" if holder else "nothing launches it",
            next=f"--what-if op:{holder[0].name}=0" if holder else None,
        )
    near = difflib.get_close_matches(name, [*kinds, *priced], n=3, cutoff=0.6)
    talks = ", ".join(sorted(kinds)) or "none"
    raise UsageError(
        f"--what-if {name}: {program.name} has no such instruction",
        why=f"near it are {', '.join(near)}" if near else f"its kinds of collectives: {talks}",
        next=_instead(near, kinds),
    )


def _instead(near: Sequence[str], kinds: set[str]) -> str | None:
    """A question that the program can answer, if any is near."""
    if near:
        return f"--what-if {'collective' if near[0] in kinds else 'op'}:{near[0]}=0"
    return f"--what-if collective:{min(kinds)}=0" if kinds else None
