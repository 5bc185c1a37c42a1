"""The report of `memory`: the need against the budget, whose it is, and over the schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.hlo.memory.owners import Held, Owner
from counterpoint.report import units
from counterpoint.report.columns import field_columns, known_columns
from counterpoint.report.document import (
    Block,
    Chart,
    Document,
    Fact,
    FactList,
    Section,
    Series,
    Tone,
    table,
)
from counterpoint.report.explain.notes import note_facts
from counterpoint.report.memory.memory_json import FitTryJson, HeldJson, SpaceJson
from counterpoint.report.places import short_path
from counterpoint.workflow.memory.budget import Budget
from counterpoint.workflow.memory.report import MemoryReport

_PARTS: Final = 720
_NAMES: Final = 3
"""Arrays that are named in the row of an owner."""
_WHOLE: Final = 0.999


def memory_document(report: MemoryReport, top: int, next_command: str) -> Document:
    """Return the report, with `top` rows of arrays."""
    sections = [_need(report), _peak(report), _arrays(report, top), _schedule(report)]
    if report.causes:
        rows = [Fact(units.size(it.bytes), f"{it.what}. {it.advice}") for it in report.causes]
        about = "bytes that a cause concerns, not what a change saves"
        sections.insert(2, Section("Why so much", about, (FactList(tuple(rows)),)))
    if report.tries:
        sections.insert(2, _tries(report))
    facts = [*(Fact("unknown", text) for text in report.unknown), *note_facts(report.notes)]
    if facts:
        sections.append(Section("Notes", "", (FactList(tuple(facts)),)))
    return Document(
        sections=tuple(sections),
        legend="bytes of one device, as the compiler plans them; steps are predicted;"
        f" {units.UNKNOWN}: unknown",
        next=next_command,
    )


def headline(report: MemoryReport) -> str:
    """Return the need and the verdict in one sentence."""
    needs = units.size(report.analysis.needs)
    text = f"{report.name} needs {needs}"
    budget = report.budget
    if budget is None or budget.pool_bytes is None:
        return f"{text}; without a target nothing says whether that fits"
    share = units.percent(budget.fraction, 0)
    text += f"; {_room(report)} {units.size(budget.pool_bytes)}"
    if budget.device_bytes is not None and budget.fraction < _WHOLE:
        text += f" ({share} of {units.size(budget.device_bytes)})"
    if report.short_by is not None:
        return f"{text}: DOES NOT FIT by {units.size(report.short_by)}"
    return f"{text}: {report.verdict}"


def _room(report: MemoryReport) -> str:
    return (
        "libtpu leaves a program"
        if report.budget and report.budget.rule == "libtpu"
        else ("JAX's allocator has")
    )


def _need(report: MemoryReport) -> Section:
    analysis = report.analysis
    facts = [*_budget_facts(report.budget)] if report.budget else []
    blocks: list[Block] = [
        table(
            *known_columns(
                field_columns(
                    SpaceJson,
                    [
                        {name: getattr(space, name) for name in SpaceJson.COLUMNS}
                        for space in analysis.spaces
                        if space.on_device or space.name == "host"
                    ],
                )
            )
        )
    ]
    if analysis.host_bytes:
        facts.append(Fact("host", f"{units.size(analysis.host_bytes)} of pinned memory per device"))
    if facts:
        blocks.append(FactList(tuple(facts)))
    return Section("Memory", headline(report), tuple(blocks))


def _budget_facts(budget: Budget) -> Iterator[Fact]:
    yield Fact("set by", budget.rule)
    if budget.outside_bytes:
        yield Fact("outside", f"{units.size(budget.outside_bytes)} for CUDA, NCCL and kernels")
    if budget.scheduler_bytes is not None:
        yield Fact(
            "scheduler",
            f"XLA tries to keep temporaries below {units.size(max(budget.scheduler_bytes, 0))};"
            " above that it gives up overlap",
        )


def _peak(report: MemoryReport) -> Section:
    analysis, peak = report.analysis, report.analysis.peak
    where = short_path(peak.source) if peak.source else peak.scope or "unknown code"
    loop = ", in each turn of its loop" if peak.in_loop else ""
    part = units.percent(peak.position / max(peak.positions - 1, 1), 0)
    summary = (
        f"while {peak.instruction} runs ({where}{loop}), {part} through the schedule; {peak.phase}"
    )
    rows: list[Fact] = []
    for owner, size in analysis.by_owner.items():
        share = units.percent(size / max(analysis.needs, 1))
        rows.append(
            Fact(str(owner), f"{units.size(size)}  {share}  {_largest(analysis.held, owner)}")
        )
    shown = [row for row in rows if not row.text.startswith("0 B")]
    return Section("Peak", summary, (FactList(tuple(shown)),))


def _largest(held: Sequence[Held], owner: Owner) -> str:
    named = [row for row in held if row.owner is owner and row.name]
    texts = [_what(row) for row in named[:_NAMES]]
    more = len(named) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def _what(row: Held) -> str:
    place = f" ({short_path(row.source)})" if row.source else ""
    return f"{row.name.rpartition('/')[2] or row.name}{place} {units.size(row.bytes)}"


def _arrays(report: MemoryReport, top: int) -> Section:
    held = [row for row in report.analysis.held if row.owner is not Owner.FRAGMENTATION]
    rows = held[:top]
    shown = [
        {
            "owner": str(row.owner),
            "name": row.name or row.made_by or None,
            "bytes": row.bytes,
            "shape": None if row.shape is None else str(row.shape),
            "layers": row.layers,
            "count": row.count,
            "source": row.source,
        }
        for row in rows
    ]
    columns = known_columns(field_columns(HeldJson, shown))
    return Section("Largest arrays", f"{len(rows)} of {len(held):,} kinds", (table(*columns),))


def _tries(report: MemoryReport) -> Section:
    """Return what was compiled to make the step fit."""
    fitting = [it for it in report.tries if it.fits]
    summary = (
        f"{len(fitting)} of {len(report.tries)} changes that were compiled"
        if fitting
        else (
            "none of the settings that were compiled is enough: change the program, or the devices"
        )
    )
    rows = [
        {name: getattr(it, name) for name in FitTryJson.COLUMNS}
        | {"fits": {True: "yes", False: "no"}.get(it.fits) if it.fits is not None else None}
        for it in report.tries
    ]
    errors = [
        Fact("error", f"{it.settings}: {it.error}", Tone.WARNING) for it in report.tries if it.error
    ]
    blocks: list[Block] = [table(*field_columns(FitTryJson, rows))]
    if errors:
        blocks.append(FactList(tuple(errors)))
    return Section("What makes it fit", summary, tuple(blocks))


def _schedule(report: MemoryReport) -> Section:
    analysis = report.analysis
    base = sum(space.needs - space.temporaries for space in analysis.spaces if space.on_device)
    held = [base + moment.bytes for moment in analysis.moments]
    most = max(held, default=0) or 1
    parts = (
        [
            max(
                held[
                    at * len(held) // _PARTS : max(
                        (at + 1) * len(held) // _PARTS, at * len(held) // _PARTS + 1
                    )
                ]
            )
            for at in range(_PARTS)
        ]
        if held
        else []
    )
    series = Series(
        label="in use",
        levels=tuple(value / most for value in parts),
        remark=f"full scale {units.size(most)}",
    )
    return Section(
        "Over the schedule",
        "loops once",
        (Chart(series=(series,), first="start", last="end"),),
    )
