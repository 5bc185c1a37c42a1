"""`flags render`: what two settings differ in as a Document, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from counterpoint.flags.channel import Channel
from counterpoint.flags.difference import Changed
from counterpoint.flags.settings import Settings
from counterpoint.flags.written import Place, SlipKind, Written
from counterpoint.report.document import Column, Document, Kind, Section, Table, printable

SCHEMA: Final = "counterpoint.flags.render/1"
DIFFERENCE_SCHEMA: Final = "counterpoint.flags.render-diff/1"

_LOST: Final = {
    SlipKind.STRAY: "not a flag",
    SlipKind.DASH: "not a flag",
    SlipKind.SINGLE_DASH: "not a flag",
    SlipKind.UNKNOWABLE: "known only when it runs",
    SlipKind.NAMES_FILE: "names a file that is not read",
    SlipKind.MISSING_FILE: "no such file",
    SlipKind.TOO_LATE: "set too late",
}
_TITLES: Final = {
    Channel.XLA_FLAGS: "XLA_FLAGS",
    Channel.COMPILER_OPTIONS: "Compiler options",
    Channel.ENVIRONMENT: "Environment",
}


def unread(written: Written) -> Iterator[str]:
    """What is not in the settings that were read, one line each."""
    for place, text, why in _left_out(written):
        yield printable(f"left out: {place}: {text} ({why})")
    for part in written.not_read:
        yield printable(f"not read: {written.where}: {part}")
    for note in written.notes:
        yield printable(f"note: {written.where}: {note}")


def unwritten(settings: Settings, form: str) -> Iterator[str]:
    """What the form has no place for but a comment."""
    if not settings.options or form == "compiler_options":
        return
    yield (
        f"note: compiler options ({len(settings.options)}) stand in comments: they are of one"
        " compile, and XLA_FLAGS would hold for all; --as compiler_options writes them"
    )


def _left_out(written: Written) -> Iterator[tuple[Place, str, str]]:
    """Where, what, and why in a few words."""
    for slip in written.slips:
        if slip.kind in _LOST:
            yield slip.place, slip.text, _LOST[slip.kind]
        yield from ((one.place, one.text, "behind what stops XLA") for one in slip.lost)
    yield from ((one.place, one.text, why) for one, why in written.refused)


def render_json(settings: Settings, form: str, text: str, sources: Sequence[Written]) -> str:
    """The settings, the text, and what was left out of which source."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "sources": [{"where": one.where, "form": one.form} for one in sources],
        "xla_flags": [list(pair) for pair in settings.xla],
        "compiler_options": dict(settings.options),
        "environment": settings.variables,
        "layout": asdict(settings.layout) if settings.layout else None,
        "form": form,
        "text": text,
        "left_out": [
            {"where": at.where, "line": at.line, "text": text, "why": why}
            for one in sources
            for at, text, why in _left_out(one)
        ],
        "unread": [{"where": one.where, "part": it} for one in sources for it in one.not_read],
        "notes": [{"where": one.where, "note": note} for one in sources for note in one.notes],
    }
    return json.dumps(data, indent=1) + "\n"


def difference_document(changes: Sequence[Changed], before: Sequence[str], after: str) -> Document:
    """What changes, channel by channel."""
    compared = f"{' + '.join(before)} -> {after}"
    nothing = "" if changes else ": the same settings"
    sections = [Section("Compared", printable(compared + nothing))]
    for channel, title in _TITLES.items():
        rows = tuple(_row(one) for one in changes if one.channel is channel)
        if rows:
            columns = (
                Column("name", Kind.WORD),
                Column("before", Kind.WORD),
                Column("after", Kind.WORD),
            )
            sections.append(Section(title, f"{len(rows)}", (Table(columns=columns, rows=rows),)))
    return Document(
        sections=tuple(sections),
        legend="- stands for a setting that is not given" if changes else "",
        next=printable(f"counterpoint flags check {after}"),
    )


def _row(one: Changed) -> tuple[str, str, str]:
    return one.name, _value(one.before), _value(one.after)


def _value(value: str | None) -> str:
    return "-" if value is None else printable(value) or '""'


def difference_json(changes: Sequence[Changed], before: Sequence[str], after: str) -> str:
    """The same as data; null stands for a setting that is not given."""
    data = {
        "schema": DIFFERENCE_SCHEMA,
        "before": list(before),
        "after": after,
        "changes": [
            {
                "channel": str(one.channel),
                "name": one.name,
                "before": one.before,
                "after": one.after,
            }
            for one in changes
        ],
    }
    return json.dumps(data, indent=1) + "\n"
