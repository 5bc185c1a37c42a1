"""`flags recommend` as a Document: settings with reasons, what was left out, and as a script."""

from __future__ import annotations

from typing import Final

from counterpoint.flags import Channel
from counterpoint.flags.advice import Advised, Recommendation
from counterpoint.flags.forms import render
from counterpoint.report.document import (
    Column,
    Document,
    Entry,
    Fact,
    Facts,
    Kind,
    Prose,
    Section,
    Table,
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
    """The settings in a form that can be run, and why behind it, as comments."""
    text = render(found.settings, form, found.situation.release)
    return text + "\n" + "\n".join(_comments(found)) + "\n"


def _comments(found: Recommendation) -> list[str]:
    told = [f"# {_situation(found)}", "# Candidates, to be confirmed by a measurement:"]
    told += [f"# {one.line.name}: {one.line.reason} ({one.line.basis})" for one in found.lines]
    told += [f"# {name}: {text}" for name, text in found.advice]
    return [printable(line) for line in told]


def recommendation_document(found: Recommendation, top: int, next: str) -> Document:
    """The report; `next` is the command that checks what it says."""
    entries = [_entry(at, one) for at, one in enumerate(found.lines, 1)]
    none = Prose(_NONE_ON_TPU if found.situation.on_tpu else _NONE)
    sections = [
        Section("Settings", printable(_situation(found)), tuple(entries) or (none,)),
    ]
    if found.advice or found.layout is not None:
        rows = [Fact(printable(name), printable(text)) for name, text in found.advice]
        if found.layout is not None and found.layout.gpus_per_process is not None:
            rows.append(Fact("GPUs per process", str(found.layout.gpus_per_process)))
        sections.append(Section("Beside settings", "", (Facts(tuple(rows)),)))
    if found.dropped:
        sections.append(_left_out(found, top))
    return Document(
        sections=tuple(sections),
        legend=_LEGEND,
        next=printable(next),
    )


def _situation(found: Recommendation) -> str:
    here = found.situation
    words = [f"for {','.join(here.workloads)}", f"goal {here.goal}", f"jaxlib {here.release.asked}"]
    if not here.release.exact:
        words.append(f"(as {here.release.version})")
    if here.chip is not None:
        words.append(f"on {here.chip}")
    if here.hosts is not None:
        words.append(f"{here.hosts} host{'s' if here.hosts > 1 else ''}")
    if here.devices == 1:
        words.append("one device")
    if here.program is not None:
        words.append(f"program {here.program.name}")
    return ", ".join(words)


def _entry(number: int, one: Advised) -> Entry:
    line = one.line
    rows = [Fact("source", f"{one.source} (recipe {', '.join(one.recipes)})", Tone.QUIET)]
    if line.known:
        rows.insert(0, Fact("known", printable(line.known)))
    return Entry(
        number=number,
        title=printable(_written(one)),
        price=line.basis,
        text=printable(line.reason or ""),
        rows=tuple(rows),
    )


def _written(one: Advised) -> str:
    flag = one.line.channel in (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
    return f"{'--' if flag else ''}{one.line.name}={one.line.value}"


def _left_out(found: Recommendation, top: int) -> Section:
    columns = (Column("setting", Kind.WORD), Column("why not", Kind.WORD))
    rows = tuple(
        (printable(f"{it.name}={it.value}" if it.value else it.name), printable(it.why))
        for it in found.dropped[:top]
    )
    more = len(found.dropped) - top
    summary = f"{len(found.dropped)}" + (f", {top} of them here" if more > 0 else "")
    return Section("Left out", summary, (Table(columns=columns, rows=rows),))
