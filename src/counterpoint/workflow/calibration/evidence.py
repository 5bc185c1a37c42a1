"""Evidence: when a fitted scalar is believed, and when it stays where it was.

A fit always finds a value. It is taken where the value can be right at all, where more than one
kind of work speaks for it, where work left out in turn is told better by it, and where the steps
that were measured are not told worse: errors of several scalars may cancel out in a step, and one
of them moved alone takes that away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.cost.scalars import Scalars
from counterpoint.hlo import Program
from counterpoint.workflow.calibration.calibration import IDLE, MOST, Fit

PLAUSIBLE: Final[Mapping[str, tuple[float, float]]] = {
    "matmul": (0.3, MOST), "memory": (0.3, 1.2), "attention": (0.3, MOST),
    "network": (0.05, 1.1), "slowdown": (0.0, 0.5),
}  # fmt: skip
"""What values can be right. Slowdown: 18.9 % on average and 40 % at most were measured on four
kinds of GPU (arXiv:2507.03114); more is waiting for something else. Network: a cloud's without
RDMA reaches little."""
_KINDS: Final = 2
_SMALL: Final = 0.05
"""An error on what was left out that needs no better one from before."""
_WORSE: Final = 0.005
"""By how much a step's error may grow: the second digit of a percentage means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A measured step of a program whose schedule is known."""

    name: str
    program: Program
    seconds: float
    idle: float = 0.0  # share of it in which its devices did nothing


StepOf = Callable[[Step, Scalars], float]


def doubt(fit: Fit, kinds: int) -> str:
    """Why the fit is not to be believed by itself; empty where it is."""
    least, most = PLAUSIBLE[fit.name]
    value = fit.after.value
    if not least <= value <= most:
        return (
            f"fitted {value:.3g}, beyond what can be right ({least:g} to {most:g}): these times"
            " hold something else"
        )
    if kinds < _KINDS:
        return f"fitted {value:.3g}, but to one kind of work only"
    if fit.unseen is not None and fit.unseen > max(fit.error_before, _SMALL):
        return (
            f"fitted {value:.3g}, but kinds of work left out in turn are told no better by it"
            f" ({fit.unseen:.0%} off, before {fit.error_before:.0%})"
        )
    return ""


def refused(fit: Fit, why: str) -> Fit:
    """The fit, not taken: the scalar stays."""
    return replace(fit, after=fit.before, how=why, refused=True)


def taken(before: Scalars, fits: Sequence[Fit]) -> Scalars:
    """The scalars with every fit that is believed."""
    return replace(before, **{fit.name: fit.after for fit in fits if fit.fitted})


def kept_by_steps(
    before: Scalars, fits: Sequence[Fit], steps: Sequence[Step], step_of: StepOf
) -> tuple[Fit, ...]:
    """The fits without those that make the measured steps come out worse together."""
    found = list(fits)
    if not steps:
        return tuple(found)
    usual = _off(before, steps, step_of)
    now = _off(taken(before, found), steps, step_of)
    while now > usual + _WORSE and any(fit.fitted for fit in found):
        without: dict[int, float] = {}
        for at, fit in enumerate(found):
            if fit.fitted:
                rest = [it for it in found if it is not fit]
                without[at] = _off(taken(before, rest), steps, step_of)
        worst = min(without, key=lambda at: without[at])
        why = (
            f"fitted {found[worst].after.value:.3g}, but with it the measured step is told worse"
            f" ({now:.1%} off; without {without[worst]:.1%}, before {usual:.1%})"
        )
        found[worst] = refused(found[worst], why)
        now = without[worst]
    return tuple(found)


def idle_notes(steps: Iterable[Step]) -> Iterator[str]:
    """Which steps were no judges."""
    for step in steps:
        if step.idle > IDLE:
            yield (
                f"the devices of {step.name} are idle for {step.idle:.0%} of its step, which no"
                " scalar can tell: it decides nothing"
            )


def _off(scalars: Scalars, steps: Sequence[Step], step_of: StepOf) -> float:
    """How far predictions of the steps are off, on average."""
    apart = [abs(math.log(step_of(it, scalars) / it.seconds)) for it in steps]
    return math.expm1(math.fsum(apart) / len(apart))
