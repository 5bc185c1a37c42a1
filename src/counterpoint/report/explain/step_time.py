"""The step time of an Explanation, and the interval that its other figures describe.

Without step markers a profile's steps are a guess: runs of the program with the most device time.
If the Run counted its own steps and they are clearly longer or shorter than that, its step time is
reported, and the figures of the profile describe a run of that program instead of a step.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.between_steps import BETWEEN
from counterpoint.diagnose.explanation import Explanation
from counterpoint.diagnose.selection import WindowKind
from counterpoint.report import units
from counterpoint.report.document import Prose, Section, Tone
from counterpoint.timeline.steps import EACH_RUN

if TYPE_CHECKING:
    from counterpoint.diagnose.step import StepTimes
    from counterpoint.runs.run import Run
    from counterpoint.runs.scores import Score

_NOTICEABLE: Final = (
    0.99  # of the step: if its program runs for less, the step clearly includes a wait
)
_UNEVEN: Final = 0.05  # of the median: so much longer or shorter, the mean is shown, too
_DISAGREE: Final = 0.25  # of the shorter time; noise and profiler overhead are usually less
_ENOUGH: Final = 3  # steps inside the profile that tell how long such steps take
_OTHERS: Final = 0.05  # share of device time; above it the guess is doubtful
_GUESSED: Final = "no markers: one run of "
_TAKEN: Final = "is taken as one step"  # without knowledge of what other programs do
_LITTLE: Final = 0.01  # of the time of a step's programs; below it, one is a helper of others
_MARK: Final = "mark steps with jax.profiler.StepTraceAnnotation"


def step_section(explanation: Explanation, run: Run | None) -> Section:
    """Return the step time, and how well the profile determines it."""
    own = own_step(explanation, run)
    below = [Prose(explanation.hidden)] if explanation.hidden else []
    below += [Prose(note) for note in explanation.notes if BETWEEN in note]
    if own is not None:
        return Section("Step time", _counted(own), (*below, *_beside_own(explanation, run)))
    timed = outside_profile(run)
    if timed is not None:
        below.append(Prose(f"by the run's own count: {counted_outside(timed)}"))
    if explanation.steps.median_ms is None:
        return Section(
            "Step time",
            f"{units.UNKNOWN}   {_no_step(explanation)}",
            (*below, _how(explanation)),
        )
    share = others_share(explanation)
    if _TAKEN in explanation.steps.how and share > _OTHERS:
        below.append(
            Prose(
                f"no step markers: one run of {_program(explanation)}, the program with most"
                f" device time, counts as one step; other programs take"
                f" {units.percent(share, 0)} of device time. If a step is more than that, {_MARK}"
            )
        )
    if parts := step_programs(explanation):
        below.append(Prose(f"one step runs {parts}"))
    below += [Prose(note) for note in explanation.notes if EACH_RUN in note]
    return Section("Step time", _in_profile(explanation), tuple(below))


def step_programs(explanation: Explanation) -> str:
    """Return the programs of a step with their runs and times; nothing if it is one run of one.

    Helpers that take next to nothing are counted, not named.
    """
    parts = [program for program in explanation.programs if program.runs_per_step]
    least = _LITTLE * sum(part.step_ms for part in parts)
    main = [part for part in parts if part.step_ms >= least]
    if len(main) == 1 and main[0].runs_per_step == 1:
        return ""
    words = [
        f"{f'{part.runs_per_step} x ' if part.runs_per_step > 1 else ''}{part.name}"
        f" {units.milliseconds(part.step_ms)}"
        for part in sorted(main, key=lambda part: part.place or 0)
    ]
    helpers = sum(part.runs_per_step for part in parts if part not in main)
    if helpers:
        words.append(counted_noun(helpers, "run") + " of little programs")
    return ", ".join(words)


def counted_outside(timed: Score) -> str:
    """Return the Run's own count of its steps, and which they are."""
    steps_of = f"the {timed.steps:,} steps outside the profile"
    if timed.disturbed:  # nearly all of them were profiled
        which = "after the first" if timed.left_out < 2 else "without compilation"
        steps_of = f"the {timed.steps:,} steps {which}, including profiled ones"
    return f"{units.milliseconds(timed.seconds * 1e3)}, median of {steps_of}"


def step_line(explanation: Explanation, run: Run | None) -> str:
    """Return the step time in one line, with its source."""
    own = own_step(explanation, run)
    hidden = f"; {explanation.hidden}" if explanation.hidden else ""
    if own is None:
        step = step_section(explanation, None).summary.replace("   ", ", ")
        several = [f"; {note}" for note in explanation.notes if EACH_RUN in note]
        if parts := step_programs(explanation):
            several.insert(0, f"; one step runs {parts}")
        return f"{step}; {explanation.basis} by the profile{''.join(several)}{hidden}"
    if explanation.steps.median_ms is None:
        seen = _no_step(explanation)
    else:
        seen = f"by the profile, {_takes(explanation)}"
    return f"{_counted(own).replace('   ', ', ')}; {seen}{hidden}"


def outside_profile(run: Run | None) -> Score | None:
    """Return the Run's own count of its steps, if there is one."""
    if run is None:
        return None

    from counterpoint.runs.scores import score_of_steps

    return score_of_steps(run)


def own_step(explanation: Explanation, run: Run | None) -> Score | None:
    """Return the Run's own count of its steps if it is more reliable than the profile.

    It says nothing about chosen steps, which may differ from the others for their own reasons.
    """
    timed = None if _chosen(explanation) else outside_profile(run)
    if timed is None:
        return None
    seen_ms, own_ms = explanation.steps.median_ms, timed.seconds * 1e3
    if seen_ms is None:
        return timed
    disagree = abs(own_ms - seen_ms) > _DISAGREE * min(own_ms, seen_ms)
    return timed if disagree and is_guess(explanation) else None


def count_beside_chosen(explanation: Explanation, run: Run | None) -> Score | None:
    """Return the Run's own count of its steps where chosen steps are clearly different."""
    timed = outside_profile(run) if _chosen(explanation) else None
    seen_ms = explanation.steps.median_ms
    if timed is None or seen_ms is None:
        return None
    own_ms = timed.seconds * 1e3
    return timed if abs(own_ms - seen_ms) > _DISAGREE * min(own_ms, seen_ms) else None


def _chosen(explanation: Explanation) -> bool:
    return explanation.step is not None or explanation.chosen_steps is not None


def subject(explanation: Explanation, run: Run | None) -> str:
    """Return what the figures of the profile describe, as a noun."""
    if explanation.steps.window is not WindowKind.STEP or own_step(explanation, run) is None:
        return explanation.subject
    return _guess(explanation)


def others_share(explanation: Explanation) -> float:
    """Return the share of device time in programs other than the step's."""
    programs = explanation.programs
    builds = {build for program in programs if program.is_step for build in program.builds}
    others = sum(
        program.device_ms
        for program in programs
        if not program.is_step and program.index not in builds
    )
    return others / max(sum(program.device_ms for program in programs), 1e-12)


def _guess(explanation: Explanation) -> str:
    """Return what is taken as a step, for lack of markers."""
    which = "one run" if explanation.step is None else f"run {explanation.step}"
    which += f" of {_program(explanation)}"
    return f"the time from {which} to the next" if _waits(explanation) else which


def is_guess(explanation: Explanation) -> bool:
    """Return whether runs of a program were taken as steps, for lack of markers."""
    return _GUESSED in explanation.steps.how


def _program(explanation: Explanation) -> str:
    return next(
        (program.name for program in explanation.programs if program.is_step), "the program"
    )


def _waits(explanation: Explanation) -> bool:
    """Return whether the step's program runs for clearly less than the whole step."""
    steps = explanation.steps
    if steps.execution_ms is None or steps.median_ms is None:
        return False
    return steps.execution_ms < _NOTICEABLE * steps.median_ms


def _counted(own: Score) -> str:
    median = units.milliseconds(own.seconds * 1e3)
    return f"{median} median   {own.steps:,} steps, by the run's own count"


def _beside_own(explanation: Explanation, run: Run | None) -> list[Prose]:
    if explanation.steps.median_ms is None:
        return [Prose(_no_step(explanation)), _how(explanation)]
    inside = _inside_profile(explanation, run)
    if inside is not None:
        return [
            Prose(
                f"{_takes(explanation)}: the steps inside the profile take"
                f" {units.milliseconds(inside)} by the run's own count, too, and the figures below"
                " describe those; the others differ because of the profiler, or of the machine"
            )
        ]
    why = (
        "no step markers in the profile, so the figures below describe that, which may not be a"
        " step"
    )
    return [Prose(f"{_takes(explanation)}: {why}; {_MARK}")]


def _inside_profile(explanation: Explanation, run: Run | None) -> float | None:
    """Return the Run's own count of the steps inside the profile, if the profile agrees."""
    from counterpoint.runs.scores import profiled_steps

    seen_ms = explanation.steps.median_ms
    rank = run.timed if run is not None else None
    seconds, count = profiled_steps(rank) if rank is not None else ((), 0)
    if seen_ms is None or count < _ENOUGH:
        return None
    own_ms = median(seconds) * 1e3
    return own_ms if abs(own_ms - seen_ms) <= _DISAGREE * min(own_ms, seen_ms) else None


def _takes(explanation: Explanation) -> str:
    """Return what is taken as a step, with its duration."""
    verb = "is" if _waits(explanation) else "takes"
    lasts = units.milliseconds(explanation.steps.median_ms)
    return f"{_guess(explanation)} {verb} {lasts}"


def _how(explanation: Explanation) -> Prose:
    steps = explanation.steps
    addition = ""
    if steps.window_ms is not None:
        addition = f". The figures per step below describe {explanation.subject}."
    return Prose(f"{steps.how}{addition}", Tone.QUIET)


def _in_profile(explanation: Explanation) -> str:
    """Return the median and spread of the profile's steps."""
    steps = explanation.steps
    figures = [
        steps.median_ms,
        steps.mean_ms,
        steps.min_ms,
        steps.max_ms,
        steps.p10_ms,
        steps.p90_ms,
    ]
    median, mean, least, most, p10, p90 = units.column(figures)
    words = [f"{median} ms"]
    if steps.count > 1:
        spread = [f"min {least}", f"max {most}"]
        if steps.p10_ms is not None:
            spread = [f"p10 {p10}", f"p90 {p90}"]
        words = [f"{median} ms median", *([f"mean {mean}"] if _is_uneven(steps) else []), *spread]
    words.append(counted_noun(steps.count, "step"))
    if _waits(explanation):
        several = "s" if step_programs(explanation) else ""
        words.append(f"{units.milliseconds(steps.execution_ms)} in its program{several}")
    return "   ".join(words)


def _is_uneven(steps: StepTimes) -> bool:
    """Return whether a stopwatch around all steps shows something else than the median."""
    if steps.mean_ms is None or steps.median_ms is None:
        return False
    return abs(steps.mean_ms / steps.median_ms - 1) > _UNEVEN


def _no_step(explanation: Explanation) -> str:
    """Return that there is no step, and what stands for it, with its duration."""
    steps, number = explanation.steps, explanation.step
    seen = "no whole step in this profile"
    if number is not None:
        seen = f"step {number} is not whole in this profile"
    if steps.window_ms is None:
        return seen
    lasts = units.milliseconds(steps.window_ms)
    if steps.window is WindowKind.PROFILE:
        if any(program.is_step for program in explanation.programs):
            seen += f", and no whole run of {_program(explanation)}"
        return f"{seen}, which lasts {lasts}"
    return f"{seen}; {_program(explanation)} runs for {lasts}"
