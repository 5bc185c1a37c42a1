"""Recommended settings, compiled and predicted on the program that they are for.

What does not compile, changes nothing or makes the step longer is no recommendation; the rest has
its predicted gain, and is compiled together once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.compile.inputs.workload import Workload
from counterpoint.core.printable import printable
from counterpoint.flags.recipe import settings_of
from counterpoint.flags.recommendation import (
    DroppedLine,
    LineEffect,
    Recommendation,
    RecommendedLine,
)
from counterpoint.flags.settings import Channel
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.workflow.forecast.ranking import Forecast, RankedCandidate
from counterpoint.workflow.prediction import Prediction, predict
from counterpoint.workflow.variant import Variant

__all__ = ["compiled_program", "with_predictions"]

Say = Callable[[str], None]

_SLOWER: Final = 0.001
"""Share of the step from which a longer one counts: the simulation repeats to the last digit."""
_LONGEST: Final = 120


@dataclass(frozen=True, slots=True)
class _Trial:
    line: RecommendedLine
    candidate: RankedCandidate


def compiled_program(workload: Workload, target: Target, say: Say) -> Program:
    """Return the program as XLA compiles it without any of the settings."""
    return predict(workload, target=target, say=say).base.program


def with_predictions(
    recommendation: Recommendation, workload: Workload, target: Target, say: Say
) -> Recommendation:
    """Return the recommendation with the predicted effect of each flag, the best first.

    For another goal than speed, a flag may cost time; it only has to compile.
    """
    flags = [line for line in recommendation.lines if line.line.channel is Channel.XLA_FLAGS]
    others = [line for line in recommendation.lines if line.line.channel is not Channel.XLA_FLAGS]
    if not flags:
        return recommendation
    say(f"predicting {len(flags)} flags one by one")
    prediction = predict(
        workload, target=target, candidates=[_variant([line]) for line in flags], say=say
    )
    base = prediction.base
    kept: list[RecommendedLine] = []
    dropped: list[DroppedLine] = []
    for trial in _trials(flags, prediction):
        line, why = _judged(trial, base, for_speed=recommendation.situation.goal == "speed")
        if why is None:
            kept.append(line)
        else:
            dropped.append(_dropped(line, why))
    kept.sort(key=lambda line: line.effect.change if line.effect else 0.0)
    together: LineEffect | None = None
    if len(kept) > 1:
        say("predicting the rest together")
        kept, more, together = _together(kept, base, workload, target, say)
        dropped += more
    elif kept:
        together = kept[0].effect
    return replace(
        recommendation,
        lines=(*kept, *others),
        dropped=(*dropped, *recommendation.dropped),
        together=together,
    )


def _trials(flags: Sequence[RecommendedLine], prediction: Prediction) -> list[_Trial]:
    by_name = {candidate.name: candidate for candidate in prediction.candidates}
    return [_Trial(line, by_name[_variant([line]).name]) for line in flags]


def _variant(lines: Sequence[RecommendedLine]) -> Variant:
    names = [f"--{line.line.name}={line.line.value}" for line in lines]
    return Variant(" ".join(names), settings_of(tuple(line.line for line in lines)))


def _judged(
    trial: _Trial, base: Forecast, *, for_speed: bool
) -> tuple[RecommendedLine, str | None]:
    """Return the line with its effect, and why it is not recommended."""
    line, candidate = trial.line, trial.candidate
    if candidate.error is not None:
        words = " ".join((candidate.error.why or candidate.error.what).split())
        return line, f"does not compile: {printable(words)[:_LONGEST]}"
    if candidate.forecast is None:
        return line, "not predicted"
    effect = _effect(candidate.forecast, base)
    if candidate.same_as is not None and effect.change == 0:
        return line, "the same program with it"
    if for_speed and not candidate.forecast.memory.fits and base.memory.fits:
        return line, "the program no longer fits into memory"
    if for_speed and effect.change > _SLOWER:
        return line, f"predicted {effect}"
    return replace(line, effect=effect), None


def _effect(forecast: Forecast, base: Forecast) -> LineEffect:
    return LineEffect(before_s=base.step_s, after_s=forecast.step_s)


def _together(
    kept: list[RecommendedLine], base: Forecast, workload: Workload, target: Target, say: Say
) -> tuple[list[RecommendedLine], list[DroppedLine], LineEffect | None]:
    """Compile what is left in one; keep the best alone if that fails, or is slower than it."""
    whole = _variant(kept)
    prediction = predict(workload, target=target, candidates=[whole], say=say)
    candidate = next(it for it in prediction.candidates if it.name == whole.name)
    best, rest = kept[0], kept[1:]
    if candidate.forecast is None:
        why = f"does not compile together with {best.line.name}"
        return [best], [_dropped(line, why) for line in rest], best.effect
    effect = _effect(candidate.forecast, base)
    if best.effect is not None and effect.after_s > best.effect.after_s * (1 + _SLOWER):
        why = f"together with {best.line.name}: {effect}, and that alone: {best.effect}"
        return [best], [_dropped(line, why) for line in rest], best.effect
    return kept, [], effect


def _dropped(line: RecommendedLine, why: str) -> DroppedLine:
    return DroppedLine(line.line.name, line.line.value, line.recipes[0], why)
