"""The report of `flags recommend`: settings with reasons, omissions, and a script."""

from __future__ import annotations

from typing import Final

from counterpoint.flags import Channel
from counterpoint.flags.advice import Recommendation, RecommendedLine
from counterpoint.flags.forms import render
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Fact,
    FactList,
    NumberedItem,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)

_LEGEND: Final = (
    "Candidates, to be confirmed: on a run that is good already most single flags change nothing"
    " or cost something (published sweeps: -4 % to +1 % each, repeated runs 1.3 % apart). Compare"
    " whole runs, several of each."
)

_NONE: Final = "Nothing: what the guides recommend is the default here, or can't matter."
_NONE_ON_TPU: Final = (
    "Nothing: the recipes are about GPUs. Of TPUs only what several slices need is known:"
    " --for multislice."
)


def recommendation_text(found: Recommendation, form: str) -> str:
    """Return the settings in a form that can be run, followed by the reasons as comments."""
    text = render(found.settings, form, found.situation.release)
    return text + "\n" + "\n".join(_comments(found)) + "\n"


def _comments(found: Recommendation) -> list[str]:
    lines = [f"# {_situation(found)}", "# Candidates, to be confirmed by a measurement:"]
    lines += [
        f"# {advised.line.name}: {advised.line.reason} ({advised.line.basis})"
        for advised in found.lines
    ]
    lines += [f"# {name}: {text}" for name, text in found.advice]
    return [printable(line) for line in lines]


def recommendation_document(found: Recommendation, top: int, next: str) -> Document:
    """Return the report; `next` is the command that checks its claims."""
    entries = [_entry(at, advised) for at, advised in enumerate(found.lines, 1)]
    none = Prose(_NONE_ON_TPU if found.situation.on_tpu else _NONE)
    sections = [
        Section("Settings", printable(_situation(found)), tuple(entries) or (none,)),
    ]
    if found.advice or found.layout is not None:
        rows = [Fact(printable(name), printable(text)) for name, text in found.advice]
        if found.layout is not None and found.layout.gpus_per_process is not None:
            rows.append(Fact("GPUs per process", str(found.layout.gpus_per_process)))
        sections.append(Section("Beside settings", "", (FactList(tuple(rows)),)))
    if found.dropped:
        sections.append(_left_out(found, top))
    return Document(
        sections=tuple(sections),
        legend=_LEGEND,
        next=printable(next),
    )


def _situation(found: Recommendation) -> str:
    situation = found.situation
    words = [
        f"for {','.join(situation.workloads)}",
        f"goal {situation.goal}",
        f"jaxlib {situation.release.asked}",
    ]
    if not situation.release.exact:
        words.append(f"(as {situation.release.version})")
    if situation.chip is not None:
        words.append(f"on {situation.chip}")
    if situation.hosts is not None:
        words.append(f"{situation.hosts} host{'s' if situation.hosts > 1 else ''}")
    if situation.devices == 1:
        words.append("one device")
    if situation.program is not None:
        words.append(f"program {situation.program.name}")
    return ", ".join(words)


def _entry(number: int, one: RecommendedLine) -> NumberedItem:
    line = one.line
    rows = [Fact("source", f"{one.source} (recipe {', '.join(one.recipes)})", Tone.QUIET)]
    if line.known:
        rows.insert(0, Fact("known", printable(line.known)))
    return NumberedItem(
        number=number,
        title=printable(_written(one)),
        price=line.basis,
        text=printable(line.reason or ""),
        rows=tuple(rows),
    )


def _written(one: RecommendedLine) -> str:
    flag = one.line.channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
    return f"{'--' if flag else ''}{one.line.name}={one.line.value}"


def _left_out(found: Recommendation, top: int) -> Section:
    columns = (Column("setting", ColumnKind.WORD), Column("why not", ColumnKind.WORD))
    rows = tuple(
        (
            printable(f"{dropped.name}={dropped.value}" if dropped.value else dropped.name),
            printable(dropped.why),
        )
        for dropped in found.dropped[:top]
    )
    more = len(found.dropped) - top
    summary = f"{len(found.dropped)}" + (f", {top} of them here" if more > 0 else "")
    return Section("Left out", summary, (TextTable(columns=columns, rows=rows),))
