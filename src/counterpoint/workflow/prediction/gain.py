"""What real PGLE could gain at most: compiled with predicted costs, then simulated with the same.

The costs that the scheduler is told are those that the simulator then uses, so nothing it decides
is decided by a wrong one. Nobody has to use a profile: where the schedule with it is longer, the
gain is nothing. That happens where memory is scarce: with true costs XLA starts long collectives
earlier, so more buffers live at once, and above its limit it schedules again and overlaps less.
"""

from __future__ import annotations

import difflib
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.compile import Compiled, compile_workload
from counterpoint.compile.inputs import Workload
from counterpoint.core import CounterpointError, Range, UsageError
from counterpoint.cost import WhatIf, parse_what_if
from counterpoint.flags.versions import PROFILE, scheduler_on
from counterpoint.hlo import Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model import launched
from counterpoint.hlo.schedule import is_done, start_of
from counterpoint.pgle.applying import weigh
from counterpoint.pgle.profiles import Profile, check_place, write_profile
from counterpoint.pgle.proving import LOUD
from counterpoint.workflow.forecast.forecast import Bench, asked, forecast
from counterpoint.workflow.forecast.prediction import Answer, Forecast, Unanswered
from counterpoint.workflow.forecast.ranking import difference, same_schedule
from counterpoint.workflow.forecast.step_range import step_range
from counterpoint.workflow.forecast.synthetic_profile import synthetic_profile
from counterpoint.workflow.forecast.unknown_flags import Question
from counterpoint.workflow.subject.subject import Variant

# As latency_hiding_scheduler.cc of XLA logs it.
_CROWDED: Final = re.compile(
    r"LatencyHidingScheduler current memory usage: (\d+) bytes\. Current limit: (\d+)"
)
NAME: Final = "with predicted PGLE"


@dataclass(frozen=True, slots=True)
class Crowding:
    """What XLA's first schedule needed, and the limit that made it schedule again."""

    wanted_bytes: int
    limit_bytes: int


def crowding(log: str) -> Crowding | None:
    """What the scheduler says of the memory of its first schedule, where that was too much."""
    found = [Crowding(int(wanted), int(limit)) for wanted, limit in _CROWDED.findall(log)]
    over = [it for it in found if it.wanted_bytes > it.limit_bytes]
    return max(over, key=lambda it: it.wanted_bytes) if over else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gain:
    """A step that was scheduled by a synthetic profile, and what it saves."""

    forecast: Forecast
    saves_s: float
    saves_range_s: Range
    costs: int
    used: bool
    reason: str  # why it was, or was not
    changed: bool  # whether the schedule is another one
    crowded: Crowding | None = None  # where memory forbade the schedule that the costs ask for
    path: Path | None = None  # where the profile is kept, if it is


def gain(workload: Workload, bench: Bench, base: Forecast, question: Question) -> Gain | None:
    """The base once more, with a profile of what the model says its instructions cost."""
    if base.compiled is None:
        return None
    about = f"{base.program.name} on {bench.target}"
    profile = synthetic_profile(base.program, bench.model(), about)
    out, timeout_s = question.pgle_out, question.timeout_s
    if out is not None:
        write_profile(profile, out, overwrite=question.overwrite)
    with tempfile.TemporaryDirectory(prefix="counterpoint-pgle-") as scratch:
        place = write_profile(profile, Path(scratch) / "predicted.pbtxt")
        return _compiled_with(place, profile, workload, bench, base, out, timeout_s)


def check_gain_place(out: Path, *, overwrite: bool) -> None:
    """Refuse a place that can't be written to, before any work is done."""
    try:
        check_place(out, overwrite=overwrite)
    except UsageError as error:  # it speaks of -o, which is the Timeline's here
        then = error.next.replace("-o ", "--pgle-out ", 1) if error.next else None
        parent = shlex.quote(str(out.parent))
        raise UsageError(error.what, why=error.why, next=then or f"mkdir -p {parent}") from None


def _compiled_with(
    place: Path,
    profile: Profile,
    workload: Workload,
    bench: Bench,
    base: Forecast,
    out: Path | None,
    timeout_s: float,
) -> Gain:
    # A profile has the scheduler run where it would not without: then it is asked for here, too.
    flags = {**dict(scheduler_on()), **base.settings.flags, PROFILE: str(place)}
    variant = Variant(NAME, replace(base.settings, xla=tuple(flags.items())))
    wanted = asked(workload, bench.target, variant, timeout_s)
    compiled = compile_workload(
        workload, bench.target, wanted.task.options, dict(LOUD), timeout_s=timeout_s
    )
    made = forecast(bench, wanted, compiled)
    used, reason = _proof(place, profile, base.compiled or compiled, compiled)
    saves = difference(base.simulation, made.simulation)
    return Gain(
        forecast=made,
        saves_s=base.step_s - made.step_s,
        saves_range_s=saves,
        costs=len(profile.costs),
        used=used,
        reason=reason,
        changed=_changed(base.program, made.program),
        crowded=crowding(compiled.log),
        path=out,
    )


def _proof(
    place: Path, profile: Profile, without: Compiled, compiled: Compiled
) -> tuple[bool, str]:
    applied = weigh(place, profile, without, compiled)
    return applied.used, applied.reason


def _changed(one: Program, other: Program) -> bool:
    return not same_schedule(one, other)


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
