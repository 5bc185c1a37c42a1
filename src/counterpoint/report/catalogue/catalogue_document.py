"""The reports of `flags list`, `flags diff` and `flags refresh`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue import Flag, Release, path_of, releases
from counterpoint.flags.history import (
    ChangedFlag,
    FlagChange,
    FlagFilter,
    ListedFlag,
    ReleaseDiff,
    channels,
)
from counterpoint.flags.refresh import JaxlibFlags, PluginComparison
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)


def list_document(
    found: Sequence[ListedFlag], release: Release, wanted: FlagFilter, does: Mapping[str, str]
) -> Document:
    """Return the table, with only the columns that the query needs."""
    titles = ("name", "type", "default", "channel", "since")
    kinds = (ColumnKind.WORD,) * 5  # names and values are for copying
    columns = [Column(*column) for column in zip(titles, kinds, (0, 3, 0, 4, 2), strict=True)]
    cells = [
        [listed.flag.name for listed in found],
        [listed.flag.type for listed in found],
        [shown_default(listed.flag) for listed in found],
        [_through(listed.flag) for listed in found],
        [listed.first or f"<={releases()[0]}" for listed in found],
    ]
    if any(listed.gone for listed in found):
        columns.append(Column("until", ColumnKind.WORD, 1))
        cells.append([listed.last or "" for listed in found])
    if wanted.changed_since is not None:
        columns.append(Column("changed", ColumnKind.NAME))
        cells.append(
            ["; ".join(change_text(change) for change in listed.changes) for listed in found]
        )
    else:
        columns.append(Column("description", ColumnKind.NAME, 5))
        cells.append([_first_sentence(does.get(listed.flag.name, "")) for listed in found])
    rows = tuple(tuple(printable(cell) for cell in row) for row in zip(*cells, strict=True))
    table = TextTable(columns=tuple(columns), rows=rows)
    notes = [Prose(note, Tone.WARNING) for note in release_notes(release)]
    return Document(
        sections=(
            Section(
                "Flags", _summary(found, release, wanted), (*notes, table)[: None if rows else -1]
            ),
        ),
        legend="`<=`: in the oldest known release" if rows else "",
        next=f"counterpoint flags show {found[0].flag.name}" if found else _wider(wanted),
    )


def release_notes(release: Release) -> tuple[str, ...]:
    """Return the notes needed if a release other than the requested one is shown."""
    if release.exact:
        return ()
    note = f"jaxlib {release.asked} is unknown; showing {release.version}, the nearest."
    return (f"{note} `counterpoint flags refresh` reads the installed one.",)


def shown_default(flag: Flag) -> str:
    """Return a default as text; a flag without one is described instead."""
    if flag.fatal:
        return "crashes XLA"
    if flag.alias_of is not None:
        return f"sets {flag.alias_of}"
    if flag.no_op:
        return "no effect"
    return flag.default or ('""' if flag.type == "string" else "")


def change_text(change: FlagChange) -> str:
    """Describe one change in a few words."""
    version, what = change.version, change.what
    if what in ("added", "removed"):
        return f"{version} {what}"
    if what == "xla_flags":
        return f"{version} {'in' if change.after == 'true' else 'not in'} XLA_FLAGS"
    if what == "no_op":
        return f"{version} {'no effect' if change.after == 'true' else 'has an effect'}"
    if what == "default":
        return f"{version} default {change.before or 'empty'} -> {change.after or 'empty'}"
    return f"{version} {what.replace('_', ' ')}"


def _through(flag: Flag) -> str:
    names = [str(channel) for channel in channels(flag)]
    both = {"XLA_FLAGS", "compiler_options"} <= set(names)
    return "both" if both else ", ".join(names)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _summary(found: Sequence[ListedFlag], release: Release, wanted: FlagFilter) -> str:
    removed = sum(listed.gone for listed in found)
    parts = [f"{len(found) - removed} of jaxlib {release.version}"]
    parts += [f"{removed} of earlier releases"] if removed else []
    parts += [f"changed after {wanted.changed_since}"] if wanted.changed_since else []
    parts += [f"with {printable(wanted.text)!r}"] if wanted.text else []
    return ", ".join(parts)


def _wider(wanted: FlagFilter) -> str:
    return "counterpoint flags list" + ("" if wanted.everything else " --all")


_NAME: Final = Column("name", ColumnKind.WORD)  # whole, for copying
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
"""Properties of a flag that can change, most surprising first."""


def diff_document(diff: ReleaseDiff) -> Document:
    """Return the report on two releases."""
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


def _nothing(diff: ReleaseDiff) -> str:
    return ": no differences" if diff.empty else ""


def _removed(diff: ReleaseDiff) -> Section | None:
    rows = [
        (removed.flag.name, _ways(removed.flag), ", ".join(removed.use)) for removed in diff.removed
    ]
    columns = (_NAME, Column("channel", ColumnKind.WORD, 2), Column("replacement", ColumnKind.WORD))
    return _section(
        "Removed",
        "XLA aborts on these flags; JAX does not read these variables",
        columns,
        rows,
    )


def _renamed(diff: ReleaseDiff) -> Section | None:
    rows = [
        (
            renamed.before.name,
            renamed.after.name,
            "still accepted in XLA_FLAGS" if renamed.taken else "XLA aborts",
        )
        for renamed in diff.renamed
    ]
    columns = (_NAME, Column("new name", ColumnKind.WORD), Column("old name", ColumnKind.WORD, 1))
    return _section("Renamed", "", columns, rows)


def _changed(diff: ReleaseDiff) -> Section | None:
    ordered = sorted(
        diff.changed, key=lambda changed: (_ORDER.index(changed.what), changed.flag.name)
    )
    rows = [(changed.flag.name, *_words(changed)) for changed in ordered]
    columns = (
        _NAME,
        Column("property", ColumnKind.WORD),
        Column("before", ColumnKind.WORD),
        Column("after", ColumnKind.WORD),
    )
    return _section("Changed", "", columns, rows)


def _added(diff: ReleaseDiff) -> Section | None:
    rows = [(flag.name, flag.type, shown_default(flag), _ways(flag)) for flag in diff.added]
    columns = (
        _NAME,
        Column("type", ColumnKind.WORD, 2),
        Column("default", ColumnKind.WORD),
        Column("channel", ColumnKind.WORD, 3),
    )
    return _section("Added", "", columns, rows)


def _section(
    title: str, remark: str, columns: tuple[Column, ...], rows: list[tuple[str, ...]]
) -> Section | None:
    if not rows:
        return None
    cells = tuple(tuple(printable(cell) for cell in row) for row in rows)
    summary = f"{len(rows)}: {remark}" if remark else str(len(rows))
    return Section(title, summary, (TextTable(columns=columns, rows=cells),))


def _words(change: ChangedFlag) -> tuple[str, str, str]:
    """Return the property, its old value and its new value."""
    yes = change.after == "true"
    if change.what == "values":
        return _values(change)
    text = {
        "no_op": "no effect" if yes else "has an effect",
        "xla_flags": "in XLA_FLAGS" if yes else "not in XLA_FLAGS",
        "compile_option": "a compiler option" if yes else "not a compiler option",
        "deprecated": "deprecated" if yes else "not deprecated",
        "fatal": "crashes XLA" if yes else "no longer crashes XLA",
    }.get(change.what)
    if text is not None:
        return "effect" if change.what == "no_op" else "status", "", text
    what = "sets" if change.what == "alias_of" else change.what
    return what, change.before or '""', change.after or '""'


def _values(change: ChangedFlag) -> tuple[str, str, str]:
    """Return only the values that were added or removed."""
    before, after = change.before.split(","), change.after.split(",")
    removed = [f"-{value}" for value in before if value not in after]
    added = [f"+{value}" for value in after if value not in before]
    return "values", "", ",".join(added + removed)


def _ways(flag: Flag) -> str:
    accepts = (("XLA_FLAGS", flag.xla_flags), ("compiler_options", flag.compile_option))
    return ", ".join(channel for channel, accepted in accepts if accepted) or "environment"


def refresh_document(
    found: JaxlibFlags, news: ReleaseDiff, where: Path, plugin: PluginComparison | None
) -> Document:
    """Return the report; `news` compares with the nearest known release."""
    release = found.release
    flags = sum(flag.xla_flags for flag in release.flags.values())
    jax = f"{len(release.jax)} of jax {found.jax}" if found.jax else "jax is not installed"
    facts = [
        Fact("jaxlib", found.version),
        Fact("library", printable(str(found.shared_object))),
        Fact("XLA_FLAGS", f"{flags} flags"),
        Fact("compiler_options", f"{sum(f.compile_option for f in release.flags.values())} names"),
        Fact("JAX's options", jax, Tone.PLAIN if found.jax else Tone.WARNING),
        Fact("written to", printable(str(where))),
    ]
    compared = diff_document(news)
    title = "Differences" if news.before != news.after else "Differences from the known release"
    first, *others = compared.sections
    sections = [
        Section("Refreshed", f"jaxlib {found.version}", (FactList(tuple(facts)),)),
        Section(title, first.summary),
        *others,
    ]
    if plugin is not None:
        sections.append(plugin_section(plugin))
    return Document(
        sections=tuple(sections),
        legend=_effect(found.version, where),
        next=f"counterpoint flags list --jaxlib {found.version}",
    )


def _effect(version: str, where: Path) -> str:
    """Describe the effect on later commands if it was saved for the account, and how to undo it."""
    if where != path_of(version):
        return ""
    undo = shlex.join(["rm", str(where)])
    return f"Later commands of this account use this table for jaxlib {version}. To undo: {undo}"


def plugin_document(plugin: PluginComparison) -> Document:
    """Return the report on a plugin alone."""
    return Document(
        sections=(plugin_section(plugin),),
        legend="",
        next=f"counterpoint flags list --jaxlib {plugin.release.version}",
    )


def plugin_section(plugin: PluginComparison) -> Section:
    """Return a plugin compared with a release."""
    count = f"{plugin.fields} options, compared with jaxlib {plugin.release.version}"
    if not plugin.differences:
        return Section("Plugin", f"{count}: no differences", ())
    rows = [
        *((name, "in the plugin only") for name in plugin.more),
        *((name, "in jaxlib only") for name in plugin.fewer),
        *((name, "different type or values") for name in plugin.other),
    ]
    table = TextTable(
        columns=(Column("option", ColumnKind.WORD), Column("where", ColumnKind.WORD)),
        rows=tuple(rows),
    )
    return Section("Plugin", f"{count}: {plugin.differences} differences", (table,))
