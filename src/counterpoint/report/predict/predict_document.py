"""The report of `predict`: the step and its range, what it is based on, and where it goes.

Everything is predicted except the column of `--against`; every figure with a range shows it. Parts
and losses are those that `explain` reports for the simulated Timeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun
from counterpoint.cost.model import PriceSource
from counterpoint.report import units
from counterpoint.report.document import Document, Fact, FactList, Section, Tone
from counterpoint.report.explain.explain_document import answer_sections, detail_sections
from counterpoint.report.explain.notes import note_facts
from counterpoint.report.predict.predict_tables import (
    against_section,
    candidates_section,
    gain_section,
    programs_section,
    unpriced_section,
    what_if_section,
)
from counterpoint.report.predict.step_programs import names_apart
from counterpoint.workflow.forecast import (
    WITHOUT_CYCLES,
    MemoryFit,
    compile_seconds,
    counts_of,
    without_cycles,
)
from counterpoint.workflow.memory.report import largest_owners
from counterpoint.workflow.prediction import Forecast, Prediction

_FAMILIES: Final = 3
_SMALL: Final = 0.001  # share of the step
_LEGEND: Final = "all figures are predicted; expected ranges are in parentheses"
_SOURCES: Final = {
    PriceSource.MEASURED: "measured",
    PriceSource.USER_TABLE: "your tables",
    PriceSource.TABLE: "shipped tables",
    PriceSource.COMPILER: "XLA's estimates",
    PriceSource.ANALYTIC: "formulas",
    PriceSource.BOUND: "bounds only",
}
_PROGRAMS: Final = 8
"""Programs of a step that a line tells apart; if there are more, it counts them by name."""
_OWNERS: Final = 3
"""Owners of memory that are named."""


def predict_document(
    prediction: Prediction, top: int, next: str, *, explained: bool = False
) -> Document:
    """Return the report on a Prediction, with `top` rows in each table.

    `explained` adds the report of `explain` on the simulated step: every finding, and all tables.
    """
    explanation = prediction.explanation
    sections = [_step(prediction)]
    sections += programs_section(prediction)
    sections += candidates_section(prediction)
    sections += answer_sections(explanation, "" if explained else "details: --explain")
    sections += detail_sections(explanation, top) if explained else []
    sections += what_if_section(prediction)
    sections += gain_section(prediction)
    sections += against_section(prediction, top)
    sections += unpriced_section(prediction, top)
    if rows := note_facts(prediction.notes):
        sections.append(Section("Notes", "", (FactList(tuple(rows)),)))
    return Document(sections=tuple(sections), legend=_LEGEND, next=next)


def range_text(middle_s: float, reach: Range) -> str:
    """Format a figure with its range: `812.3 ms (780.1 to 850.2)`."""
    middle, low, high = units.column(
        [seconds * 1e3 for seconds in (middle_s, reach.low, reach.high)]
    )
    return f"{middle} ms ({low} to {high})"


def bounded(step: str, forecast: Forecast) -> str:
    """Return the text of a step, marked as a lower bound if loops are counted once."""
    loops = len(forecast.simulation.uncounted)
    return f"{step} or more, {counted_noun(loops, 'loop')} counted once," if loops else step


def _step(prediction: Prediction) -> Section:
    base = prediction.base
    simulation = base.simulation
    rows = [Fact("WARNING", text, Tone.WARNING) for text in prediction.warnings]
    rows += _memory(base.memory)
    if owners := largest_owners(base, _OWNERS):
        held = ", ".join(f"{owner} {units.size(size)}" for owner, size in owners)
        rows.append(Fact("held by", f"{held} (counterpoint memory)", Tone.QUIET))
    rows += [
        Fact("program", f"{programs_text(base, prediction.workload)}, from {prediction.origin}"),
        Fact("compiled", _compiled(base)),
        Fact("settings", _settings(base)),
        Fact("based on", sources_text(prediction)),
        Fact("range", _reach(base)),
        Fact(
            "communication",
            f"{units.milliseconds(simulation.communicating_s * 1e3)}, exposed"
            f" {_exposed(prediction)}; the step without it and async copies:"
            f" {units.milliseconds(simulation.critical_path_s * 1e3)}",
        ),
        _tokens(prediction),
    ]
    rows += _jitter(base)
    rows += [
        Fact(
            "LOOP",
            f"{loop.instruction}: trip count unknown; one iteration is counted,"
            f" {units.milliseconds(loop.each_s * 1e3)}"
            f"{f', {loop.source}' if loop.source else ''}. Say it with"
            f" --trips {loop.instruction}=N, or measure it with --trips-from RUN",
            Tone.WARNING,
        )
        for loop in simulation.uncounted
    ]
    step = bounded(range_text(base.step_s, base.range_s), base)
    summary = f"{step} on {prediction.target}, not measured"
    return Section("Predicted step", summary, (FactList(tuple(rows)),))


def programs_text(base: Forecast, workload: str) -> str:
    """Return the programs of a step, in the order in which they run first."""
    if not base.parts:
        return workload
    programs = [part.program for part in base.parts]
    many = len(programs) > _PROGRAMS
    names = [program.name for program in programs] if many else names_apart(programs)
    counts: Counter[str] = Counter()
    for name, count in zip(names, counts_of(base), strict=True):
        counts[name] += count
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def _tokens(prediction: Prediction) -> Fact:
    tokens, rate = prediction.tokens, prediction.tokens_per_s
    if tokens is None or rate is None:
        unknown = f"{units.UNKNOWN} (no argument of the step shows them)"
        return Fact("tokens/s", unknown, Tone.QUIET)
    reach = prediction.base.range_s
    low, high = (tokens.count / seconds for seconds in (reach.high, reach.low))
    return Fact(
        "tokens/s",
        f"{'at most ' * prediction.base.simulation.lower_bound}{rate:,.0f} ({low:,.0f} to"
        f" {high:,.0f}) on all devices: {tokens.count:,} in a step, by"
        f" {tokens.source}",
    )


def _exposed(prediction: Prediction) -> str:
    parts = prediction.explanation.breakdown
    return units.milliseconds(parts.collective_exposed_ms if parts else None)


def _memory(memory: MemoryFit) -> Iterator[Fact]:
    available = f"{memory.room} {units.size(memory.available_bytes)}"
    if memory.fraction < 1:
        available += (
            f" ({units.percent(memory.fraction, 0)} of {units.size(memory.memory_bytes)},"
            f" {memory.fraction_source})"
        )
    if memory.fits is None:
        least = memory.least_bytes
        peak = units.UNKNOWN if least is None else f"at least {units.size(least)} (buffers alone)"
        yield Fact("memory", f"{peak} at the peak; {available}")
    elif memory.fits:
        yield Fact("memory", f"{peak_text(memory)}; {available}: it fits")
    else:
        yield Fact(
            "OUT OF MEMORY",
            f"{peak_text(memory)}, and {available}: it does not fit",
            Tone.WARNING,
        )


def peak_text(memory: MemoryFit) -> str:
    """Return what a step allocates on a device, and of the host's memory if it offloads."""
    text = f"{units.size(memory.peak_bytes)} at the peak"
    if memory.host_bytes:
        text += f" and {units.size(memory.host_bytes)} of pinned host memory"
    return text


def _compiled(base: Forecast) -> str:
    if base.compiled is None:
        return "elsewhere; the schedule is used as it is"
    jaxlib = base.compiled.versions.get("jaxlib", units.UNKNOWN)
    compiler = base.compiled.versions.get("libtpu")
    by = f"libtpu {compiler}, jaxlib {jaxlib}" if compiler else f"jaxlib {jaxlib}"
    device = "TPU" if compiler else "GPU"
    took = f"{compile_seconds(base):,.1f} s"
    if base.compiled.schedule_only:
        took += ", up to its schedule"
    parts = [part.compiled for part in base.parts or (base,)]
    if all(compiled is not None and compiled.from_cache for compiled in parts):
        return f"by {by} earlier ({took} then), from the cache, without a {device}"
    return f"by {by} in {took}, without a {device}"


def _settings(base: Forecast) -> str:
    settings = base.settings
    words = [f"{name}={value}" for name, value in settings.flags.items()]
    words += [f"{name}={value}" for name, value in (*settings.options, *settings.env)]
    return " ".join(words) or (
        "XLA's defaults" if base.compiled else "unknown: a schedule does not record its settings"
    )


def sources_text(prediction: Prediction) -> str:
    """Return which sources the prices of the step come from, with their shares of its time."""
    known = [
        f"{_SOURCES[source]} {units.percent(share)}"
        for source, share in prediction.basis.items()
        if share > 0 and source in _SOURCES
    ]
    return ", ".join(known) + " of the priced time" if known else "nothing that takes time"


def _reach(base: Forecast) -> str:
    """Return how sure the range is, and the families of prices whose errors affect it most."""
    step = base.step_s
    moves = {
        str(family): max(abs(low), abs(high)) / step
        for family, (low, high) in base.simulation.reach_s.items()
        if step > 0
    }
    largest = sorted(moves.items(), key=lambda move: -move[1])[:_FAMILIES]
    shown = [f"{name} {units.part(share)}" for name, share in largest if share >= _SMALL]
    effect = f"largest price errors: {', '.join(shown)}" if shown else "no price affects it"
    return f"{coverage_text(base)}; {effect}"


def coverage_text(base: Forecast) -> str:
    """Return how often measured steps lie within such a range, if that is known."""
    known = base.range_covers
    if base.by_bounds:
        return (
            "set by the bounds of unpriced instructions; how often steps lie within it is unknown"
        )
    if known is None and base.simulation.on_tpus:
        rule = "a rule of thumb: few published steps on TPUs were compared"
        if without_cycles(base.simulation):
            return f"{rule}; up to {WITHOUT_CYCLES:.0%} longer without libtpu's estimates of cycles"
        return rule
    if known is None and base.simulation.rests_on.get(PriceSource.MEASURED):
        return "with measured costs, the coverage of the range is unknown"
    if known is None:
        return (
            "how often steps lie within it is unknown: published steps are mostly products and"
            " communication, this one is not"
        )
    return f"{known.share:.0%} of {known.steps} published steps lie within such a range"


def _jitter(base: Forecast) -> Iterator[Fact]:
    jittered = base.simulation.jittered
    if jittered is not None:
        low, middle, high = units.column(
            [seconds * 1e3 for seconds in (jittered.p10_s, jittered.median_s, jittered.p90_s)]
        )
        yield Fact(
            "with jitter",
            f"{middle} ms median, p10 {low}, p90 {high} of {len(jittered.samples):,} steps"
            " (the amount of jitter is a rule of thumb)",
        )
