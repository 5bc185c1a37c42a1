"""The forecast of a step that runs several programs: an iteration of the training loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from counterpoint.cost.what_if import WhatIf
from counterpoint.simulate.in_turn import ProgramRuns, in_turn
from counterpoint.simulate.simulation import Simulation
from counterpoint.workflow.forecast.forecast import PricingContext
from counterpoint.workflow.forecast.ranking import Forecast, MemoryFit


def forecast_in_turn(
    pricing: PricingContext,
    parts: Sequence[Forecast],
    order: Sequence[int],
    main: int,
    alive_bytes: Sequence[int | None],
    updates: Collection[int] = (),
) -> Forecast:
    """Return the forecast of a step that runs these programs in turn.

    `updates` are the numbers of those that are the optimizer's.

    Its memory is that of the program with the highest peak, together with what the loop keeps alive
    beside it: `alive_bytes`, as far as they are known.
    """
    runs = ProgramRuns(
        simulations=tuple(part.simulation for part in parts),
        order=tuple(order),
        main=main,
        launch_s=pricing.model().launch_s,
        updates=frozenset(updates),
    )
    fits = [_beside(part.memory, alive) for part, alive in zip(parts, alive_bytes, strict=True)]
    return replace(
        parts[main],
        simulation=in_turn(runs),
        memory=_largest(fits),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        parts=tuple(replace(part, memory=fit) for part, fit in zip(parts, fits, strict=True)),
        order=tuple(order),
    )


def _beside(fit: MemoryFit, alive: int | None) -> MemoryFit:
    if not alive:
        return fit
    peak, least = fit.peak_bytes, fit.least_bytes
    return replace(
        fit,
        peak_bytes=None if peak is None else peak + alive,
        least_bytes=None if least is None else least + alive,
    )


def _largest(fits: Sequence[MemoryFit]) -> MemoryFit:
    """Return the fit with the highest peak; one that is unknown decides."""
    unknown = [fit for fit in fits if fit.peak_bytes is None]
    if unknown:
        return max(unknown, key=lambda fit: fit.least_bytes or 0)
    return max(fits, key=lambda fit: fit.peak_bytes or 0)


def counts_of(forecast: Forecast) -> list[int]:
    """Return how often a step runs each part."""
    counts = Counter(forecast.order)
    return [counts[number] for number in range(len(forecast.parts))]


def programs_seconds(forecast: Forecast) -> float:
    """Return the seconds of a step in which its programs run, without the launches between two."""
    if not forecast.parts:
        return forecast.step_s
    counted = zip(forecast.parts, counts_of(forecast), strict=True)
    return sum(part.step_s * count for part, count in counted)


def planned_bytes(forecast: Forecast, alive_bytes: Sequence[int | None]) -> int | None:
    """Return the most that the compiler plans for a program of the step, and what stays beside it.

    None if nothing was compiled here.
    """
    parts = [part.compiled for part in forecast.parts or (forecast,)]
    beside = alive_bytes or [None] * len(parts)
    planned = [None if compiled is None else compiled.memory.allocated for compiled in parts]
    return max(
        (
            size + (alive or 0)
            for size, alive in zip(planned, beside, strict=True)
            if size is not None
        ),
        default=None,
    )


def compile_seconds(forecast: Forecast) -> float:
    """Return the seconds that the compiles of all programs of a step took, one after the other."""
    parts = [part.compiled for part in forecast.parts or (forecast,)]
    return sum(compiled.seconds for compiled in parts if compiled is not None)


def simulated_again(
    pricing: PricingContext, base: Forecast, what_if: Sequence[WhatIf]
) -> Simulation:
    """Simulate the same schedules on other hardware, with a what-if for each part."""
    if not base.parts:
        return pricing.simulate(base.program, base.settings, what_if=what_if[0])
    simulations = tuple(
        pricing.of_part(number).simulate(part.program, part.settings, what_if=question)
        for number, (part, question) in enumerate(zip(base.parts, what_if, strict=True))
    )
    launch_s = pricing.model(what_if[0]).launch_s
    runs = ProgramRuns(simulations=simulations, order=base.order, main=base.main, launch_s=launch_s)
    return in_turn(runs)
