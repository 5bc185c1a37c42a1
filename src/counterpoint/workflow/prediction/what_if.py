"""What-if questions: the predicted step on other hardware, with the schedule unchanged."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from counterpoint.core import CounterpointError, Range, UsageError
from counterpoint.cost.what_if import WhatIf, parse_what_if
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.program import Program, launched
from counterpoint.hlo.schedule import is_done, start_of
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.iteration import simulated_again
from counterpoint.workflow.forecast.ranking import Forecast, difference
from counterpoint.workflow.forecast.step_range import step_range


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """The predicted step on other hardware, with the schedule unchanged."""

    question: str
    step_s: float
    range_s: Range
    saves_s: float  # negative: it takes longer
    saves_range_s: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredWhatIf:
    """A question about something that the program lacks, which shows only once it is compiled."""

    question: str
    error: CounterpointError


def read_questions(texts: Sequence[str], *, tpus: bool | None = None) -> list[tuple[str, WhatIf]]:
    """Parse each part of a text by itself, then all of them together; reject errors early."""
    questions: list[tuple[str, WhatIf]] = []
    for text in texts:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        whole = parse_what_if(text, tpus=tpus)
        if len(parts) > 1:
            questions += [(part, parse_what_if(part)) for part in parts]
        questions.append((", ".join(parts), whole))
    return questions


def answers(
    pricing: PricingContext, base: Forecast, questions: Sequence[tuple[str, WhatIf]]
) -> Iterator[WhatIfAnswer | UnansweredWhatIf]:
    """Simulate the base's schedule under each question.

    A name that the program lacks invalidates its question alone, not the compile.

    Nothing is compiled again; a scheduler that knew of the faster hardware might do even better.
    """
    for text, what_if in questions:
        try:
            queries = _resolved_in_each(what_if, base)
        except CounterpointError as error:
            yield UnansweredWhatIf(question=text, error=error)
            continue
        changed = simulated_again(pricing, base, queries)
        saves = difference(base.simulation, changed)
        yield WhatIfAnswer(
            question=text,
            step_s=changed.step_s,
            range_s=step_range(changed),
            saves_s=base.step_s - changed.step_s,
            saves_range_s=saves,
        )


def _resolved_in_each(what_if: WhatIf, base: Forecast) -> list[WhatIf]:
    """Return the question for each program of the step; one of them must have its names."""
    questions: list[WhatIf] = []
    errors: list[CounterpointError] = []
    for part in base.parts or (base,):
        try:
            questions.append(resolved(what_if, part.program))
        except CounterpointError as error:
            errors.append(error)
            questions.append(replace(what_if, instructions={}))
    if len(errors) == len(questions):
        raise errors[0]
    return questions


def resolved(what_if: WhatIf, program: Program) -> WhatIf:
    """Replace names by those under which instructions are priced; reject unknown names."""
    if not what_if.instructions:
        return what_if
    bodies = list(launched(program))
    priced = {instruction.name for body in bodies for instruction in body.instructions}
    kinds = {
        communication.kind
        for body in bodies
        for instruction in body.instructions
        if (communication := collective(program, instruction)) is not None
    }
    names = {
        name if name in kinds else _priced_name(name, program, priced, kinds): factor
        for name, factor in what_if.instructions.items()
    }
    return replace(what_if, instructions=names)


def _priced_name(name: str, program: Program, priced: set[str], kinds: set[str]) -> str:
    """Return the name of an instruction's start if it is asynchronous, whichever name was given."""
    instruction = program.instruction(name)
    if instruction is not None and is_done(instruction):
        instruction = start_of(program, instruction) or instruction
    if instruction is not None and instruction.name in priced:
        return instruction.name
    if instruction is not None:
        holder = program.callers(instruction.computation)
        raise UsageError(
            f"--what-if {name}: it has no time of its own",
            why=f"it is part of {holder[0].name}" if holder else "nothing launches it",
            next=f"use --what-if op:{holder[0].name}=0" if holder else None,
        )
    near = difflib.get_close_matches(name, [*kinds, *priced], n=3, cutoff=0.6)
    kinds_text = ", ".join(sorted(kinds)) or "none"
    raise UsageError(
        f"--what-if {name}: {program.name} has no such instruction",
        why=f"similar names: {', '.join(near)}"
        if near
        else f"its kinds of collectives: {kinds_text}",
        next=_instead(near, kinds),
    )


def _instead(near: Sequence[str], kinds: set[str]) -> str | None:
    """Suggest a question that the program can answer, if a name is close."""
    if near:
        return f"use --what-if {'collective' if near[0] in kinds else 'op'}:{near[0]}=0"
    return f"use --what-if collective:{min(kinds)}=0" if kinds else None
