"""The flags of releases as JSON: `flags list`, `show` and `diff`. Nothing is cut.

The types can be imported without loading any terminal library or table of flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from counterpoint.report.json import At, Result, TextOrNull, fill, json_text

if TYPE_CHECKING:
    from counterpoint.flags.catalogue.flag import Flag, Release
    from counterpoint.flags.history import FlagChange, FlagFilter, ListedFlag, ReleaseDiff
    from counterpoint.flags.other_settings import OtherSetting
    from counterpoint.flags.showing import SettingDescription


class FlagEntry(Result):
    """A flag of a release of jaxlib."""

    name: str
    type: str
    default: str
    values: tuple[str, ...]
    enum: tuple[str, ...]
    channels: tuple[str, ...]
    no_op: bool
    deprecated: bool
    alias_of: str | None
    fatal: bool


class FlagChangeJson(Result):
    """A change of a flag in a release."""

    version: str
    what: str
    before: str
    after: str


class ListedFlagJson(FlagEntry):
    """A flag, the releases that have it, and what it does."""

    since: str | None
    until: str | None
    does: str | None
    changes: tuple[FlagChangeJson, ...]


class OtherSettingJson(Result):
    """A setting that is no flag of this list: of NCCL, JAX, libtpu, or gone."""

    name: str
    reader: str
    does: TextOrNull


class FlagsList(Result, tag_field="schema", tag="counterpoint.flags.list/1"):
    """The flags of a release: `counterpoint flags list --json`."""

    jaxlib: Annotated[str, At("version")]
    asked: str
    changed_since: str | None
    flags: tuple[ListedFlagJson, ...]
    others: tuple[OtherSettingJson, ...]


def list_json(
    found: Sequence[ListedFlag],
    others: Sequence[OtherSetting],
    release: Release,
    wanted: FlagFilter,
    about: Mapping[str, str],
) -> str:
    """Return `flags list` as text; `about` says by name what a flag does."""
    flags = [_listed(listed, about.get(listed.flag.name)) for listed in found]
    own = {"changed_since": wanted.changed_since, "flags": flags, "others": others}
    return json_text(fill(FlagsList, release, **own))


def _listed(listed: ListedFlag, does: str | None) -> ListedFlagJson:
    return fill(
        ListedFlagJson,
        listed.flag,
        channels=_channels(listed.flag),
        since=listed.first,
        until=listed.last,
        does=does,
        changes=listed.changes,
    )


def _flag(flag: Flag) -> FlagEntry:
    return fill(FlagEntry, flag, channels=_channels(flag))


def _channels(flag: Flag) -> tuple[str, ...]:
    from counterpoint.flags.history import channels

    return channels(flag)


class Versions(Result):
    """The jaxlib that was asked for, and the one whose tables were used."""

    asked: str
    table: str


class DocumentedSettingJson(Result):
    """An environment variable, and the releases that read it."""

    type: TextOrNull
    values: tuple[str, ...]
    since: str | None
    until: str | None


class ValueVerdict(Result):
    """The effect of a value in a channel."""

    channel: TextOrNull
    taken: bool
    takes: TextOrNull
    meant: str | None
    is_default: bool
    ends: bool
    instead: tuple[str, ...]


class SettingNoteJson(Result):
    """A surprising fact about a setting, and whether it holds for this release and chip."""

    text: str
    since: str | None
    until: str | None
    chips: tuple[str, ...]
    holds: bool


class SettingDocumentationJson(Result):
    """The documentation of a setting."""

    does: str
    trades: str | None
    workloads: tuple[str, ...]
    needs: tuple[str, ...]
    process_only: bool
    notes: tuple[SettingNoteJson, ...]
    sources: tuple[str, ...]


class InRecipe(Result):
    """The use of a setting in a recipe."""

    name: str
    what: str


class RuleAbout(Result):
    """A rule about a setting."""

    code: str
    title: str


class WebPageJson(Result):
    """A published page, and the values it gives to a setting."""

    title: str
    values: tuple[str, ...]


class FlagsShow(Result, tag_field="schema", tag="counterpoint.flags.show/1"):
    """All that is known of a setting: `counterpoint flags show --json`."""

    jaxlib: Versions
    chip: str | None
    name: str
    reader: str
    state: str
    flag: FlagEntry | None
    variable: DocumentedSettingJson | None
    default: str | None
    first: Annotated[str | None, At("history.first")]
    last: Annotated[str | None, At("history.last")]
    changes: tuple[FlagChangeJson, ...]
    use: tuple[str, ...]
    value: str | None
    verdicts: tuple[ValueVerdict, ...]
    about: SettingDocumentationJson | None
    recipes: tuple[InRecipe, ...]
    rules: tuple[RuleAbout, ...]
    pages: tuple[WebPageJson, ...]


def show_json(shown: SettingDescription, changes: Sequence[FlagChange]) -> str:
    """Return `flags show` as text, with all notes, whatever release they apply to."""
    release = shown.release
    about = shown.about and fill(
        SettingDocumentationJson,
        shown.about,
        notes=[
            fill(
                SettingNoteJson,
                note,
                chips=[kind.value for kind in note.chips],
                holds=note.holds(release.version, shown.chip),
            )
            for note in shown.about.notes
        ],
    )
    return json_text(
        fill(
            FlagsShow,
            shown,
            jaxlib={"asked": release.asked, "table": release.version},
            state=shown.state.name.lower(),
            flag=shown.flag and _flag(shown.flag),
            changes=changes,
            verdicts=[
                fill(
                    ValueVerdict,
                    verdict,
                    instead=[f"{name}={value}" for name, value in verdict.instead],
                )
                for verdict in shown.verdicts
            ],
            about=about,
        )
    )


class RemovedFlagJson(FlagEntry):
    """A flag that the later release does not know, and what to use instead."""

    use: tuple[str, ...]


class RenamedFlagJson(Result):
    """A flag with a new name; `taken`: the old one still works."""

    before: Annotated[str, At("before.name")]
    after: Annotated[str, At("after.name")]
    taken: bool


class ChangedFlagJson(Result):
    """Another change of a flag."""

    name: Annotated[str, At("flag.name")]
    what: str
    before: str
    after: str


class FlagsDiff(Result, tag_field="schema", tag="counterpoint.flags.diff/1"):
    """Two releases side by side: `counterpoint flags diff --json`."""

    before: str
    after: str
    removed: tuple[RemovedFlagJson, ...]
    renamed: tuple[RenamedFlagJson, ...]
    changed: tuple[ChangedFlagJson, ...]
    added: tuple[FlagEntry, ...]


def diff_json(diff: ReleaseDiff) -> str:
    """Return `flags diff` as text."""
    removed = [
        fill(RemovedFlagJson, removed.flag, channels=_channels(removed.flag), use=removed.use)
        for removed in diff.removed
    ]
    added = [_flag(flag) for flag in diff.added]
    return json_text(fill(FlagsDiff, diff, removed=removed, added=added))
