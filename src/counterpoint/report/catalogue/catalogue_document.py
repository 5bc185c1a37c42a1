"""The reports of `flags list` and `flags diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.history import (
    ChangedFlag,
    FlagChange,
    FlagFilter,
    ListedFlag,
    ReleaseDiff,
    channels,
)
from counterpoint.flags.other_settings import OtherSetting
from counterpoint.report.catalogue.flags_json import OtherSettingJson, RenamedFlagJson
from counterpoint.report.columns import field_columns
from counterpoint.report.document import (
    Document,
    Prose,
    Section,
    TextTable,
    Tone,
    names,
    table,
    words,
)

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


_MOST_OTHERS: Final = 20


def list_document(
    rows: Sequence[ListedFlag],
    others: Sequence[OtherSetting],
    release: Release,
    wanted: FlagFilter,
    about: Mapping[str, str],
) -> Document:
    """Return the table of flags, with only the columns that the query needs, and other settings.

    `about` says by name what a flag does.
    """
    columns = [  # names and values are for copying
        words("name", [listed.flag.name for listed in rows]),
        words("type", [listed.flag.type for listed in rows], 3),
        words("default", [shown_default(listed.flag) for listed in rows]),
        words("channel", [_channel_text(listed.flag) for listed in rows], 4),
        words("since", [listed.first or f"<={releases()[0]}" for listed in rows], 2),
    ]
    if any(listed.gone for listed in rows):
        columns.append(words("until", [listed.last or "" for listed in rows], 1))
    if wanted.changed_since is not None:
        changes = ["; ".join(map(change_text, listed.changes)) for listed in rows]
        columns.append(names("changed", changes))
    else:
        sentences = [_first_sentence(about.get(listed.flag.name, "")) for listed in rows]
        columns.append(names("description", sentences, 5))
    notes = [Prose(note, Tone.WARNING) for note in release_notes(release)]
    blocks = (*notes, table(*columns)) if rows else (*notes,)
    sections = [Section("Flags", _summary(rows, release, wanted), blocks)]
    if others:
        sections.append(_others(others))
    first = next(iter([*(listed.flag.name for listed in rows), *(it.name for it in others)]), None)
    return Document(
        sections=tuple(sections),
        legend="`<=`: in the oldest known release" if rows else "",
        next=f"counterpoint flags show {first}" if first is not None else _wider(wanted),
    )


def _others(others: Sequence[OtherSetting]) -> Section:
    shown = others[:_MOST_OTHERS]
    more = f", {len(shown)} shown; --json has all" if len(others) > len(shown) else ""
    columns = (
        *field_columns(OtherSettingJson, shown, ["name", "reader"]),
        names("description", [_first_sentence(setting.does) for setting in shown], 5),
    )
    return Section("Other settings", f"{len(others)}{more}", (table(*columns),))


def release_notes(release: Release) -> tuple[str, ...]:
    """Return a note if the release that is shown is not the requested one."""
    if release.exact:
        return ()
    return (f"jaxlib {release.asked} is unknown; showing {release.version}, the nearest.",)


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


def _channel_text(flag: Flag) -> str:
    taken = [str(channel) for channel in channels(flag)]
    both = {"XLA_FLAGS", "compiler_options"} <= set(taken)
    return "both" if both else ", ".join(taken)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _summary(rows: Sequence[ListedFlag], release: Release, wanted: FlagFilter) -> str:
    removed = sum(listed.gone for listed in rows)
    parts = [f"{len(rows) - removed} of jaxlib {release.version}"]
    parts += [f"{removed} of earlier releases"] if removed else []
    parts += [f"changed after {wanted.changed_since}"] if wanted.changed_since else []
    parts += [f"with {wanted.text!r}"] if wanted.text else []
    return ", ".join(parts)


def _wider(wanted: FlagFilter) -> str:
    return "counterpoint flags list" if wanted.everything else "counterpoint flags list --all"


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
    flags = table(
        words("name", [removed.flag.name for removed in diff.removed]),  # whole, for copying
        words("channel", [_accepted_by(removed.flag) for removed in diff.removed], 2),
        words("replacement", [", ".join(removed.use) for removed in diff.removed]),
    )
    return _section(
        "Removed", flags, "XLA aborts on these flags; JAX does not read these variables"
    )


def _renamed(diff: ReleaseDiff) -> Section | None:
    taken = {True: "still accepted in XLA_FLAGS", False: "XLA aborts"}
    flags = table(
        *field_columns(RenamedFlagJson, diff.renamed, ["before", "after"]),
        words("old name", [taken[renamed.taken] for renamed in diff.renamed], 1),
    )
    return _section("Renamed", flags)


def _changed(diff: ReleaseDiff) -> Section | None:
    ordered = sorted(
        diff.changed, key=lambda changed: (_ORDER.index(changed.what), changed.flag.name)
    )
    described = [_words(changed) for changed in ordered]
    flags = table(
        words("name", [changed.flag.name for changed in ordered]),
        words("property", [what for what, _, _ in described]),
        words("before", [before for _, before, _ in described]),
        words("after", [after for _, _, after in described]),
    )
    return _section("Changed", flags)


def _added(diff: ReleaseDiff) -> Section | None:
    flags = table(
        words("name", [flag.name for flag in diff.added]),
        words("type", [flag.type for flag in diff.added], 2),
        words("default", [shown_default(flag) for flag in diff.added]),
        words("channel", [_accepted_by(flag) for flag in diff.added], 3),
    )
    return _section("Added", flags)


def _section(title: str, flags: TextTable, remark: str = "") -> Section | None:
    count = len(flags.rows)
    summary = f"{count}: {remark}" if remark else str(count)
    return Section(title, summary, (flags,)) if count else None


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


def _accepted_by(flag: Flag) -> str:
    accepts = (("XLA_FLAGS", flag.xla_flags), ("compiler_options", flag.compile_option))
    return ", ".join(channel for channel, accepted in accepts if accepted) or "environment"
