"""`flags list` as a Document and as JSON: one row per flag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.history import Change
from counterpoint.flags.catalogue.listing import Listed, Wanted, channels
from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.catalogue.release import Release
from counterpoint.report.document import (
    Column,
    Document,
    Kind,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)

SCHEMA: Final = "counterpoint.flags.list/1"

_LEGEND: Final = "types and defaults are read out of the release itself; what a flag does is"


def list_document(
    found: Sequence[Listed], release: Release, wanted: Wanted, does: Mapping[str, str]
) -> Document:
    """The table; only as many columns as the question needs."""
    titles = ("name", "type", "default", "through", "since")
    kinds = (Kind.WORD,) * 5  # names and values are to be copied
    columns = [Column(*one) for one in zip(titles, kinds, (0, 3, 0, 4, 2), strict=True)]
    cells = [
        [one.flag.name for one in found],
        [one.flag.type for one in found],
        [shown_default(one.flag) for one in found],
        [_through(one.flag) for one in found],
        [one.first or f"<={releases()[0]}" for one in found],
    ]
    if any(one.gone for one in found):
        columns.append(Column("until", Kind.WORD, 1))
        cells.append([one.last or "" for one in found])
    if wanted.changed_since is not None:
        columns.append(Column("changed", Kind.NAME))
        cells.append(["; ".join(change_text(change) for change in one.changes) for one in found])
    else:
        columns.append(Column("does", Kind.NAME, 5))
        cells.append([_first_sentence(does.get(one.flag.name, "")) for one in found])
    rows = tuple(tuple(printable(cell) for cell in row) for row in zip(*cells, strict=True))
    table = Table(columns=tuple(columns), rows=rows)
    notes = [Prose(note, Tone.WARNING) for note in release_notes(release)]
    return Document(
        sections=(
            Section(
                "Flags", _summary(found, release, wanted), (*notes, table)[: None if rows else -1]
            ),
        ),
        legend="`<=`: as old as the oldest release that is known" if rows else "",
        next=f"counterpoint flags show {found[0].flag.name}" if found else _wider(wanted),
    )


def release_notes(release: Release) -> tuple[str, ...]:
    """What has to be said where a release other than the one asked for is shown."""
    if release.exact:
        return ()
    note = f"jaxlib {release.asked} is not known; this is {release.version}, the nearest known one."
    return (f"{note} `counterpoint flags refresh` learns the installed one.",)


def shown_default(flag: Flag) -> str:
    """A default as text; what has none of its own says what it is."""
    if flag.fatal:
        return "crashes XLA"
    if flag.alias_of is not None:
        return f"sets {flag.alias_of}"
    if flag.no_op:
        return "does nothing"
    return flag.default or ('""' if flag.type == "string" else "")


def change_text(change: Change) -> str:
    """One change in a few words."""
    version, what = change.version, change.what
    if what in ("added", "removed"):
        return f"{version} {what}"
    if what == "xla_flags":
        return f"{version} {'in' if change.after == 'true' else 'not in'} XLA_FLAGS"
    if what == "no_op":
        return f"{version} {'does nothing' if change.after == 'true' else 'does something'}"
    if what == "default":
        return f"{version} default {change.before or 'empty'} -> {change.after or 'empty'}"
    return f"{version} {what.replace('_', ' ')}"


def _through(flag: Flag) -> str:
    names = [str(channel) for channel in channels(flag)]
    both = {"XLA_FLAGS", "compiler_options"} <= set(names)
    return "both" if both else ", ".join(names)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _summary(found: Sequence[Listed], release: Release, wanted: Wanted) -> str:
    gone = sum(one.gone for one in found)
    parts = [f"{len(found) - gone} of jaxlib {release.version}"]
    parts += [f"{gone} of earlier ones"] if gone else []
    parts += [f"changed after {wanted.changed_since}"] if wanted.changed_since else []
    parts += [f"with {printable(wanted.text)!r}"] if wanted.text else []
    return ", ".join(parts)


def _wider(wanted: Wanted) -> str:
    return "counterpoint flags list" + ("" if wanted.everything else " --all")


def list_json(
    found: Sequence[Listed], release: Release, wanted: Wanted, does: Mapping[str, str]
) -> str:
    """The same, uncut."""
    data = {
        "schema": SCHEMA,
        "jaxlib": release.version,
        "asked": release.asked,
        "changed_since": wanted.changed_since,
        "flags": [
            {
                **flag_data(one.flag),
                "since": one.first,
                "until": one.last,
                "does": does.get(one.flag.name),
                "changes": [
                    {"version": c.version, "what": c.what, "before": c.before, "after": c.after}
                    for c in one.changes
                ],
            }
            for one in found
        ],
    }
    return json.dumps(data, indent=1) + "\n"


def flag_data(flag: Flag) -> dict[str, Any]:
    """A flag as JSON can hold it."""
    return {
        "name": flag.name,
        "type": flag.type,
        "default": flag.default,
        "values": [*flag.values],
        "enum": [*flag.enum],
        "channels": [str(channel) for channel in channels(flag)],
        "no_op": flag.no_op,
        "deprecated": flag.deprecated,
        "alias_of": flag.alias_of,
        "fatal": flag.fatal,
    }
