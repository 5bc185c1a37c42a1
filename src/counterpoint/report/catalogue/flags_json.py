"""The flags of releases as JSON: `flags list`, `show` and `diff`. Nothing is cut.

The types can be imported without loading any terminal library or table of flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from counterpoint.core.field import Field
from counterpoint.report.json import At, Result, TextOrNull, fill, json_text

if TYPE_CHECKING:
    from counterpoint.flags.catalogue.flag import Flag, Release
    from counterpoint.flags.history import FlagChange, FlagFilter, ListedFlag, ReleaseDiff
    from counterpoint.flags.other_settings import OtherSetting
    from counterpoint.flags.showing import SettingDescription


class FlagEntry(Result):
    """A flag of a release of jaxlib."""

    name: Annotated[str, Field("its name, without dashes; of an option of JAX, its variable")]
    type: Annotated[
        str,
        Field(
            "`bool`, `int32`, `int64`, `float`, `string`, `enum` or `message`; lists: `enums`, "
            "`strings`, `map`"
        ),
    ]
    default: Annotated[str, Field("spelled as in XLA_FLAGS")]
    values: Annotated[
        tuple[str, ...],
        Field("the values that it accepts, spelled as in XLA_FLAGS; empty: any of its type"),
    ]
    enum: Annotated[
        tuple[str, ...], Field("the same in the same order, spelled as in compiler_options")
    ]
    channels: Annotated[
        tuple[str, ...],
        Field(
            "where it can be given: `XLA_FLAGS`, `compiler_options`; an option of JAX: "
            "`environment`, `jax.config`"
        ),
    ]
    no_op: Annotated[bool, Field("true if the release ignores it")]
    deprecated: Annotated[bool, Field("true if the release calls it deprecated")]
    alias_of: Annotated[str | None, Field("the flag whose value this one sets; null: its own")]
    fatal: Annotated[bool, Field("true if XLA knows the name and crashes on any value")]


class FlagChangeJson(Result):
    """A change of a flag in a release."""

    version: Annotated[str, Field("the release with the change")]
    what: Annotated[
        str,
        Field("what changed: `default`, `values` or another fact of the flag; `added`, `removed`"),
    ]
    before: Annotated[str, Field("as text; empty for `added` and `removed`")]
    after: Annotated[str, Field("as text; empty for `added` and `removed`")]


class ListedFlagJson(FlagEntry):
    """A flag, the releases that have it, and what it does."""

    since: Annotated[
        str | None, Field("the release that added it; null: the oldest known release has it")
    ]
    until: Annotated[
        str | None, Field("the newest release with it; null: the listed release has it")
    ]
    does: Annotated[str | None, Field("what it does; null: not described")]
    changes: Annotated[
        tuple[FlagChangeJson, ...],
        Field("its changes since `changed_since`, oldest first; empty without it"),
    ]


class OtherSettingJson(Result):
    """A setting that is no flag of this list: of NCCL, JAX, libtpu, or gone."""

    name: Annotated[str, Field("its name", "name")]
    reader: Annotated[str, Field("what reads it: `NCCL`, `JAX`, `libtpu` and others", "read by")]
    does: Annotated[TextOrNull, Field("what it does; null: only its name is known")]


class FlagsList(Result, tag_field="schema", tag="counterpoint.flags.list/1"):
    """The flags of a release: `counterpoint flags list --json`."""

    jaxlib: Annotated[str, At("version"), Field("the release whose table was used")]
    asked: Annotated[str, Field("the release that was asked for")]
    changed_since: Annotated[
        str | None, Field("the release given with `--changed-since`; null: none")
    ]
    flags: Annotated[tuple[ListedFlagJson, ...], Field("the flags, by name")]
    others: Annotated[
        tuple[OtherSettingJson, ...],
        Field("other settings with the text of `--grep` in their name or description"),
    ]


def list_json(
    listed_flags: Sequence[ListedFlag],
    others: Sequence[OtherSetting],
    release: Release,
    wanted: FlagFilter,
    about: Mapping[str, str],
) -> str:
    """Return `flags list` as text; `about` says by name what a flag does."""
    flags = [_listed(listed, about.get(listed.flag.name)) for listed in listed_flags]
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

    asked: Annotated[str, Field("the release that was asked for")]
    table: Annotated[str, Field("the known release whose tables were used")]


class DocumentedSettingJson(Result):
    """An environment variable, and the releases that read it."""

    type: Annotated[
        TextOrNull,
        Field(
            "`bool`, `int`, `float`, `string`, `path`, `bytes` or `enum`; `choices`: names with "
            "commas, `union`: names with `|`, `levels`: file=level, `none`: nothing reads it; "
            "null: only its name is known"
        ),
    ]
    values: Annotated[
        tuple[str, ...],
        Field(
            "the names that it accepts, or its lowest and highest number as `1..32`; empty: any "
            "of its type"
        ),
    ]
    since: Annotated[
        str | None,
        Field(
            "the first version of its reader (jaxlib for JAX) that has it; null: unknown, or all"
        ),
    ]
    until: Annotated[str | None, Field("the first version that no longer has it; null: none")]


class ValueVerdict(Result):
    """The effect of a value in a channel."""

    channel: Annotated[
        TextOrNull, Field("the channel that was asked; null: the setting is no flag")
    ]
    taken: Annotated[bool, Field("whether the channel accepts the value")]
    takes: Annotated[
        TextOrNull,
        Field(
            "what the channel accepts instead; null: it accepts the value, or does not have the "
            "name"
        ),
    ]
    meant: Annotated[
        str | None, Field("the same value as the channel spells it; null: no need, or not clear")
    ]
    is_default: Annotated[bool, Field("whether the value has the effect of the default")]
    ends: Annotated[bool, Field("whether the value ends the process, or the compile")]
    instead: Annotated[tuple[str, ...], Field("`NAME=value` to write where the name is gone")]


class SettingNoteJson(Result):
    """A surprising fact about a setting, and whether it holds for this release and chip."""

    text: Annotated[str, Field("the fact")]
    since: Annotated[str | None, Field("the release from which on it holds; null: from the oldest")]
    until: Annotated[str | None, Field("the release from which on it no longer holds; null: none")]
    chips: Annotated[tuple[str, ...], Field("the families of chips of which it holds; empty: all")]
    holds: Annotated[
        bool,
        Field(
            "whether it holds for the release and the chip that were asked for; of an unknown "
            "chip it does"
        ),
    ]


class SettingDocumentationJson(Result):
    """The documentation of a setting."""

    does: Annotated[str, Field("its effect")]
    trades: Annotated[str | None, Field("its cost")]
    workloads: Annotated[tuple[str, ...], Field("kinds of workloads for which it matters")]
    needs: Annotated[tuple[str, ...], Field("related settings, such as those that it needs")]
    process_only: Annotated[
        bool,
        Field(
            "true if it is read when the program runs, so that compiler_options accepts it "
            "without effect"
        ),
    ]
    notes: Annotated[
        tuple[SettingNoteJson, ...],
        Field("surprising facts about it, whatever release they are of"),
    ]
    sources: Annotated[tuple[str, ...], Field("where this is from")]


class InRecipe(Result):
    """The use of a setting in a recipe."""

    name: Annotated[str, Field("the recipe")]
    what: Annotated[
        str, Field("`NAME=value` as the recipe sets it, or why it leaves the setting out")
    ]


class RuleAbout(Result):
    """A rule about a setting."""

    code: Annotated[str, Field("its code")]
    title: Annotated[str, Field("its title")]


class WebPageJson(Result):
    """A published page, and the values it gives to a setting."""

    title: Annotated[str, Field("its title")]
    values: Annotated[tuple[str, ...], Field("the values that it gives")]


class FlagsShow(Result, tag_field="schema", tag="counterpoint.flags.show/1"):
    """All that is known of a setting: `counterpoint flags show --json`."""

    jaxlib: Annotated[Versions, Field("the release")]
    chip: Annotated[str | None, Field("the chip given with `--chip`; null: none")]
    name: Annotated[str, Field("the setting")]
    reader: Annotated[str, Field("what reads it: `XLA`, `JAX`, `NCCL`, `libtpu` and others")]
    state: Annotated[
        str,
        Field(
            "of the name in the release: `taken`, `no_op` (ignored), `alias` (an old name), "
            "`option` (compiler_options only), `newer` (of a later release), `gone`, `unread` "
            "(nothing reads it)"
        ),
    ]
    flag: Annotated[
        FlagEntry | None, Field("the flag in that release; null: it has none of this name")
    ]
    variable: Annotated[
        DocumentedSettingJson | None,
        Field(
            "the environment variable or option; null: it is a flag, or not known to the release"
        ),
    ]
    default: Annotated[str | None, Field("in that release; null: it has none of its own")]
    first: Annotated[
        str | None,
        At("history.first"),
        Field("the oldest release whose XLA_FLAGS accept it; null: none does"),
    ]
    last: Annotated[
        str | None,
        At("history.last"),
        Field(
            "the newest release whose XLA_FLAGS accept it; null: the newest known one does, or none"
        ),
    ]
    changes: Annotated[tuple[FlagChangeJson, ...], Field("its changes, oldest first")]
    use: Annotated[tuple[str, ...], Field("settings to use instead, or today")]
    value: Annotated[str | None, Field("the value that was given; null: none")]
    verdicts: Annotated[
        tuple[ValueVerdict, ...], Field("what each channel makes of that value; empty without one")
    ]
    about: Annotated[
        SettingDocumentationJson | None, Field("what is known about it; null: it is not described")
    ]
    recipes: Annotated[tuple[InRecipe, ...], Field("recipes that set it, or say why not")]
    rules: Annotated[tuple[RuleAbout, ...], Field("rules of `flags check` about it")]
    pages: Annotated[tuple[WebPageJson, ...], Field("published pages that give it values")]


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

    use: Annotated[tuple[str, ...], Field("its replacements in the later release")]


class RenamedFlagJson(Result):
    """A flag with a new name."""

    before: Annotated[str, At("before.name"), Field("its name in the earlier release", "name")]
    after: Annotated[str, At("after.name"), Field("its name in the later release", "new name")]
    taken: Annotated[bool, Field("whether the later XLA_FLAGS still accept the old name")]


class ChangedFlagJson(Result):
    """Another change of a flag."""

    name: Annotated[str, At("flag.name"), Field("the flag")]
    what: Annotated[str, Field("what changed: `default`, `values` or another fact of the flag")]
    before: Annotated[str, Field("in the earlier release, as text")]
    after: Annotated[str, Field("in the later release, as text")]


class FlagsDiff(Result, tag_field="schema", tag="counterpoint.flags.diff/1"):
    """Two releases side by side: `counterpoint flags diff --json`."""

    before: Annotated[str, Field("the earlier release")]
    after: Annotated[str, Field("the later release")]
    removed: Annotated[tuple[RemovedFlagJson, ...], Field("flags that the later release lacks")]
    renamed: Annotated[tuple[RenamedFlagJson, ...], Field("flags with a new name")]
    changed: Annotated[tuple[ChangedFlagJson, ...], Field("other changes, one for each fact")]
    added: Annotated[tuple[FlagEntry, ...], Field("flags that the earlier release lacks")]


def diff_json(diff: ReleaseDiff) -> str:
    """Return `flags diff` as text."""
    removed = [
        fill(RemovedFlagJson, removed.flag, channels=_channels(removed.flag), use=removed.use)
        for removed in diff.removed
    ]
    added = [_flag(flag) for flag in diff.added]
    return json_text(fill(FlagsDiff, diff, removed=removed, added=added))
