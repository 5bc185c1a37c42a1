"""`flags effective` as a Document and as JSON: what was asked for and lost, then the rest."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.flags.effective import Difference, Outcome, Used
from counterpoint.report.document import (
    Column,
    Document,
    Fact,
    Facts,
    Kind,
    Section,
    Table,
    printable,
)

SCHEMA: Final = "counterpoint.flags.effective/1"

_ORDER: Final = (
    Outcome.IGNORED,
    Outcome.ALTERED,
    Outcome.UNSEEN,
    Outcome.APPLIED,
    Outcome.DEFAULT,
)
_MODULES: Final = 3
_DEFAULT: Final = "(default)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """What there is to report of one Run or dump. `asked` is None where that is not known."""

    where: str
    module: str
    modules: tuple[str, ...]
    jaxlib: str
    asked: str | None
    used: tuple[Used, ...]
    differences: tuple[Difference, ...]

    @property
    def lost(self) -> tuple[Used, ...]:
        """What was asked for and did not come about."""
        lost = (Outcome.IGNORED, Outcome.ALTERED)
        return tuple(one for one in self.used if one.outcome in lost)


def effective_document(found: Effective) -> Document:
    """The report."""
    sections = [_head(found), *_asked(found), *_elsewhere(found), *_differences(found)]
    return Document(sections=tuple(sections), legend="", next=printable(_next(found)))


def _head(found: Effective) -> Section:
    others = len(found.modules) - 1
    which = found.module + (f" (and {others} more: --module)" if others else "")
    rows = [
        Fact("module", printable(which)),
        Fact("asked by", printable(found.asked or "? (name a source: --asked)")),
        Fact("jaxlib", found.jaxlib),
    ]
    return Section("Flags", _counted(found), (Facts(tuple(rows)),))


def _counted(found: Effective) -> str:
    counts = Counter(one.outcome for one in found.used)
    order = (*_ORDER, Outcome.ELSEWHERE)
    words = [f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome]]
    return ", ".join(words) or "none beside the defaults"


def _asked(found: Effective) -> list[Section]:
    asked = [one for one in found.used if one.outcome is not Outcome.ELSEWHERE]
    if not asked:
        return []
    rows = sorted(asked, key=lambda one: _ORDER.index(one.outcome))
    columns = (
        Column("flag", Kind.WORD),
        Column("asked", Kind.WORD),
        Column("used", Kind.WORD),
        Column("outcome", Kind.WORD),
        Column("why", Kind.WORD, 1),
    )
    cells = tuple(
        (one.name, _value(one.asked), _value(one.used), str(one.outcome), one.note) for one in rows
    )
    return [Section("Asked", "", (Table(columns=columns, rows=_printable(cells)),))]


def _elsewhere(found: Effective) -> list[Section]:
    there = [one for one in found.used if one.outcome is Outcome.ELSEWHERE]
    if not there:
        return []
    title, words = ("Set elsewhere", "not asked, and in effect")
    if found.asked is None:
        title, words = ("In effect", "whatever differs from the defaults")
    columns = (Column("flag", Kind.WORD), Column("used", Kind.WORD), Column("by", Kind.WORD, 1))
    cells = tuple((one.name, _value(one.used), one.note) for one in there)
    return [Section(title, words, (Table(columns=columns, rows=_printable(cells)),))]


def _differences(found: Effective) -> list[Section]:
    if not found.differences:
        return []
    columns = (
        Column("flag", Kind.WORD),
        Column("used", Kind.WORD),
        Column("in", Kind.NAME),
    )
    cells = tuple(
        (one.name, _value(value) if value is not None else _DEFAULT, modules)
        for one in found.differences
        for value, modules in _by_value(one.by_module)
    )
    words = f"flags that the {len(found.modules)} modules don't share"
    table = Table(columns=columns, rows=_printable(cells))
    return [Section("Between modules", words, (table,))]


def _by_value(by_module: Mapping[str, str | None]) -> list[tuple[str | None, str]]:
    values = dict.fromkeys(by_module.values())
    found: list[tuple[str | None, str]] = []
    for value in values:
        names = [name for name, used in by_module.items() if used == value]
        more = len(names) - _MODULES
        shown = ", ".join(names[:_MODULES]) + (f" and {more} more" if more > 0 else "")
        found.append((value, shown))
    return found


def _value(value: str | None) -> str:
    if value is None:
        return "?"
    return value or "(empty)"


def _printable(cells: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(printable(cell) for cell in row) for row in cells)


def _next(found: Effective) -> str:
    if found.lost:
        return shlex.join(["counterpoint", "flags", "show", found.lost[0].name])
    if found.asked is None:
        shown = [found.used[0].name] if found.used else []
        return shlex.join(["counterpoint", "flags", *(["show", *shown] if shown else ["list"])])
    return shlex.join(["counterpoint", "flags", "check", found.asked])


def effective_json(found: Effective) -> str:
    """The same as data, uncut. Null is what is not known, or the default of a module."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "source": found.where,
        "module": found.module,
        "modules": [*found.modules],
        "jaxlib": found.jaxlib,
        "asked_by": found.asked,
        "flags": [
            {
                "name": one.name,
                "outcome": one.outcome.name.lower(),
                "asked": one.asked,
                "used": one.used,
                "note": one.note,
            }
            for one in found.used
        ],
        "differences": [
            {"name": one.name, "by_module": dict(one.by_module)} for one in found.differences
        ],
        "next": _next(found),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"
