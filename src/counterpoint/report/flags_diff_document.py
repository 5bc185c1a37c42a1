"""`flags diff` as a Document and as JSON: what will break first, then what is new."""

from __future__ import annotations

import json
from typing import Any, Final

from counterpoint.flags.catalogue.diff import Changed, Diff
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.report.document import Column, Document, Kind, Section, Table, printable
from counterpoint.report.flags_list_document import flag_data, shown_default

SCHEMA: Final = "counterpoint.flags.diff/1"

_NAME: Final = Column("name", Kind.WORD)  # whole: it is to be copied
_ORDER: Final = (
    "fatal",
    "default",
    "no_op",
    "xla_flags",
    "compile_option",
    "alias_of",
    "type",
    "values",
    "deprecated",
)
"""What changed about a flag, the likeliest to surprise first."""


def diff_document(diff: Diff) -> Document:
    """The report."""
    sections = [Section("Compared", f"jaxlib {diff.before} -> {diff.after}{_nothing(diff)}")]
    sections += [
        section
        for section in (_removed(diff), _renamed(diff), _changed(diff), _added(diff))
        if section is not None
    ]
    return Document(
        sections=tuple(sections),
        legend="",
        next=f"counterpoint flags list --jaxlib {diff.after} --changed-since {diff.before}",
    )


def _nothing(diff: Diff) -> str:
    return ": the same flags with the same defaults" if diff.empty else ""


def _removed(diff: Diff) -> Section | None:
    rows = [(one.flag.name, _ways(one.flag), ", ".join(one.use)) for one in diff.removed]
    columns = (_NAME, Column("was in", Kind.WORD, 2), Column("use", Kind.WORD))
    return _section(
        "Removed",
        "XLA ends the process at such a flag; JAX does not read such a variable",
        columns,
        rows,
    )


def _renamed(diff: Diff) -> Section | None:
    rows = [
        (
            one.before.name,
            one.after.name,
            "still taken in XLA_FLAGS" if one.taken else "ends the process",
        )
        for one in diff.renamed
    ]
    columns = (_NAME, Column("now", Kind.WORD), Column("earlier name", Kind.WORD, 1))
    return _section("Renamed", "", columns, rows)


def _changed(diff: Diff) -> Section | None:
    ordered = sorted(diff.changed, key=lambda one: (_ORDER.index(one.what), one.flag.name))
    rows = [(one.flag.name, *_words(one)) for one in ordered]
    columns = (
        _NAME,
        Column("what", Kind.WORD),
        Column("was", Kind.WORD),
        Column("is", Kind.WORD),
    )
    return _section("Changed", "", columns, rows)


def _added(diff: Diff) -> Section | None:
    rows = [(flag.name, flag.type, shown_default(flag), _ways(flag)) for flag in diff.added]
    columns = (
        _NAME,
        Column("type", Kind.WORD, 2),
        Column("default", Kind.WORD),
        Column("in", Kind.WORD, 3),
    )
    return _section("Added", "", columns, rows)


def _section(
    title: str, remark: str, columns: tuple[Column, ...], rows: list[tuple[str, ...]]
) -> Section | None:
    if not rows:
        return None
    cells = tuple(tuple(printable(cell) for cell in row) for row in rows)
    summary = f"{len(rows)}: {remark}" if remark else str(len(rows))
    return Section(title, summary, (Table(columns=columns, rows=cells),))


def _words(one: Changed) -> tuple[str, str, str]:
    """What changed, what it was, what it is."""
    yes = one.after == "true"
    if one.what == "values":
        return _values(one)
    told = {
        "no_op": "does nothing" if yes else "does something",
        "xla_flags": "in XLA_FLAGS" if yes else "not in XLA_FLAGS",
        "compile_option": "a compile option" if yes else "no compile option",
        "deprecated": "deprecated" if yes else "not deprecated",
        "fatal": "crashes XLA" if yes else "does not crash XLA any more",
    }.get(one.what)
    if told is not None:
        return "effect" if one.what == "no_op" else "status", "", told
    what = "sets" if one.what == "alias_of" else one.what
    return what, one.before or '""', one.after or '""'


def _values(one: Changed) -> tuple[str, str, str]:
    """Only those that came and went."""
    before, after = one.before.split(","), one.after.split(",")
    gone = [f"-{value}" for value in before if value not in after]
    new = [f"+{value}" for value in after if value not in before]
    return "values", "", ",".join(new + gone)


def _ways(flag: Flag) -> str:
    ways = (("XLA_FLAGS", flag.xla_flags), ("compiler_options", flag.compile_option))
    return ", ".join(way for way, there in ways if there) or "environment"


def diff_json(diff: Diff) -> str:
    """The same, uncut."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "before": diff.before,
        "after": diff.after,
        "removed": [{**flag_data(one.flag), "use": [*one.use]} for one in diff.removed],
        "renamed": [
            {"before": one.before.name, "after": one.after.name, "taken": one.taken}
            for one in diff.renamed
        ],
        "changed": [
            {"name": one.flag.name, "what": one.what, "before": one.before, "after": one.after}
            for one in diff.changed
        ],
        "added": [flag_data(flag) for flag in diff.added],
    }
    return json.dumps(data, indent=1) + "\n"
