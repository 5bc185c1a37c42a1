"""History: one flag across releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from counterpoint.core import ArgumentError
from counterpoint.flags.catalogue.about import ReadingProgram
from counterpoint.flags.catalogue.flag import Flag, Release, flag_of
from counterpoint.flags.catalogue.libtpu import libtpu_setting
from counterpoint.flags.catalogue.lookup import names_ever, releases, states
from counterpoint.flags.catalogue.variable import DocumentedSetting, arguments, variables
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions import version_number

__all__ = [
    "ChangedFlag",
    "FlagChange",
    "FlagFilter",
    "FlagState",
    "ListedFlag",
    "ReleaseDiff",
    "channels",
    "diff",
    "listing",
    "release_added",
    "require_earlier",
    "state_of",
]


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A change in one release: `what` is the name of a field of Flag, the values are text."""

    version: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class History:
    """`first` and `last`: the oldest and newest release that accept the flag in XLA_FLAGS.

    `last` is None if the newest known release accepts it; both are None if it was only a compile
    option. A flag of the oldest known release may be older than that.
    """

    name: str
    first: str | None
    last: str | None
    changes: tuple[FlagChange, ...] = ()

    @property
    def since(self) -> str | None:
        """The oldest release that no longer accepts it; None if the newest does."""
        known = releases()
        return None if self.last is None else known[known.index(self.last) + 1]


def history(name: str) -> History | None:
    """Return the history of a name; None if no known release has it."""
    flags = [(since, flag_of(name, facts) if facts else None) for since, facts in states(name)]
    if not flags:
        return None
    first, last = _presence(flags)
    return History(name, first, last, tuple(_changes(flags)))


def _presence(flags: list[tuple[str, Flag | None]]) -> tuple[str | None, str | None]:
    known = releases()
    taken = [(since, flag is not None and flag.xla_flags) for since, flag in flags]
    first = next((since for since, present in taken if present), None)
    if first is None or taken[-1][1]:
        return first, None
    gone = taken[-1][0]
    for since, present in reversed(taken):
        if present:
            break
        gone = since
    return first, known[known.index(gone) - 1]


def _changes(flags: list[tuple[str, Flag | None]]) -> list[FlagChange]:
    changes: list[FlagChange] = []
    before: Flag | None = None
    for version, flag in flags:
        if flag is not None and before is not None:
            changes += [FlagChange(version, *change) for change in differences(before, flag)]
        elif version != releases()[0]:
            presence = ("added", "", "") if flag else ("removed", "", "")
            changes.append(FlagChange(version, *presence))
        before = flag
    return changes


def differences(before: Flag, after: Flag) -> list[tuple[str, str, str]]:
    """Return what differs between two releases of one flag: the field, its old and new value."""
    fields = (
        *("type", "default", "values", "xla_flags"),
        *("compile_option", "no_op", "deprecated", "alias_of", "fatal"),
    )
    return [
        (field, _text(getattr(before, field)), _text(getattr(after, field)))
        for field in fields
        if getattr(before, field) != getattr(after, field)
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class RemovedFlag:
    """A name that the later release does not have. `use`: its known replacements."""

    flag: Flag
    use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenamedFlag:
    """A setting with a new name; `taken`: XLA_FLAGS still accepts the old one."""

    before: Flag
    after: Flag
    taken: bool


@dataclass(frozen=True, slots=True)
class ChangedFlag:
    """Another change of a name: `what` is a field of Flag, the values are text."""

    flag: Flag  # as in the later release
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDiff:
    """Changes from one release to another: flags, and JAX's options by their variables."""

    before: str
    after: str
    added: tuple[Flag, ...]
    removed: tuple[RemovedFlag, ...]
    renamed: tuple[RenamedFlag, ...]
    changed: tuple[ChangedFlag, ...]

    @property
    def empty(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.removed or self.renamed or self.changed)


def diff(before: Release, after: Release, use: Mapping[str, tuple[str, ...]]) -> ReleaseDiff:
    """Return all differences; `use` maps removed names to their replacements.

    JAX's options are compared if they are known for both releases.
    """
    options_known = before.jax_options and after.jax_options
    old = {**before.flags, **(before.jax_options if options_known else {})}
    new = {**after.flags, **(after.jax_options if options_known else {})}
    renamed = _renamed(old, new, use)
    heirs = {rename.after.name for rename in renamed}
    moved = {rename.before.name for rename in renamed}
    return ReleaseDiff(
        before=before.version,
        after=after.version,
        added=tuple(new[name] for name in sorted(new.keys() - old.keys() - heirs)),
        removed=tuple(
            RemovedFlag(old[name], _present(use.get(name, ()), new))
            for name in sorted(old.keys() - new.keys() - moved)
        ),
        renamed=renamed,
        changed=tuple(
            ChangedFlag(new[name], *change)
            for name in sorted(old.keys() & new.keys() - moved)
            for change in differences(old[name], new[name])
        ),
    )


def _renamed(
    old: Mapping[str, Flag], new: Mapping[str, Flag], use: Mapping[str, tuple[str, ...]]
) -> tuple[RenamedFlag, ...]:
    """Return names replaced by one new name that replaces nothing else."""
    renames: list[RenamedFlag] = []
    for name, flag in sorted(old.items()):
        now = new.get(name)
        alias = now.alias_of if now is not None and flag.alias_of is None else None
        heirs = (alias,) if alias else use.get(name, ()) if now is None else ()
        if len(heirs) == 1 and heirs[0] in new and heirs[0] not in old:
            renames.append(RenamedFlag(flag, new[heirs[0]], taken=now is not None))
    counts = [rename.after.name for rename in renames]
    return tuple(rename for rename in renames if counts.count(rename.after.name) == 1)


def _present(names: tuple[str, ...], new: Mapping[str, Flag]) -> tuple[str, ...]:
    return tuple(name for name in names if name in new)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFilter:
    """A filter for a list of flags; None and False do not filter.

    `everything`: also what a GPU does not read, what does nothing, what is deprecated, JAX's
    options, and names that earlier releases had.
    """

    channel: Channel | None = None
    text: str = ""  # part of a name or of the description
    changed_since: str | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class ListedFlag:
    """One flag. If it is `gone`, `flag` is its last state."""

    flag: Flag
    first: str | None  # None: in the oldest known release already
    last: str | None  # the newest release with it, if this release does not have it
    changes: tuple[FlagChange, ...] = ()  # since the given release

    @property
    def gone(self) -> bool:
        """True if the release does not have it."""
        return self.last is not None


def listing(
    release: Release, wanted: FlagFilter, does: Mapping[str, str]
) -> tuple[ListedFlag, ...]:
    """Return the selected flags, by name; `does` are descriptions, searched for the text."""
    return tuple(
        listed
        for listed in sorted(_all(release, wanted), key=lambda listed: listed.flag.name)
        if _matches(listed.flag, wanted, does) and (wanted.changed_since is None or listed.changes)
    )


def require_earlier(since: str | None, release: Release) -> None:
    """Raise UsageError if changes are requested since a release later than the listed one."""
    if since is not None and version_number(since) > version_number(release.version):
        raise ArgumentError(
            "changed_since",
            since,
            f"later than the listed release, jaxlib {release.version}",
            instead=release.version,
            beside={"jaxlib": since},
        )


def channels(flag: Flag) -> tuple[Channel, ...]:
    """Return the channels through which a flag, or an option of JAX, can be given."""
    if flag.name[0].isupper():
        return (Channel.ENVIRONMENT, Channel.JAX_CONFIG)
    ways = ((Channel.XLA_FLAGS, flag.xla_flags), (Channel.COMPILER_OPTIONS, flag.compile_option))
    return tuple(channel for channel, accepted in ways if accepted)


def _all(release: Release, wanted: FlagFilter) -> Iterator[ListedFlag]:
    for name in names_ever():
        listed = _listed(name, release, wanted)
        if (
            listed is not None
            and (not listed.gone or wanted.everything or wanted.changed_since is not None)
            and (wanted.everything or _ordinary(listed.flag, wanted))
        ):
            yield listed


def _listed(name: str, release: Release, wanted: FlagFilter) -> ListedFlag | None:
    """Return a name's history up to a release; None if it was added later."""
    until = version_number(release.version)
    life = [(since, facts) for since, facts in states(name) if version_number(since) <= until]
    present = [(since, facts) for since, facts in life if facts is not None]
    if not present:
        return None
    known = releases()
    first = next(since for since, _ in present)
    last = known[known.index(life[-1][0]) - 1] if life[-1][1] is None else None
    return ListedFlag(
        flag_of(name, present[-1][1]),
        None if first == known[0] else first,
        last,
        _changes_since(name, wanted.changed_since, until),
    )


def _changes_since(name: str, since: str | None, until: tuple[int, ...]) -> tuple[FlagChange, ...]:
    past = history(name) if since is not None else None
    changes = past.changes if past else ()
    return tuple(
        change
        for change in changes
        if version_number(since) < version_number(change.version) <= until
    )


def _ordinary(flag: Flag, wanted: FlagFilter) -> bool:
    """Return whether users who train on GPUs may want to set it."""
    if flag.name[0].isupper():
        return wanted.channel in (Channel.ENVIRONMENT, Channel.JAX_CONFIG)
    return not (flag.no_op or flag.deprecated or flag.name.startswith("xla_cpu_"))


def _matches(flag: Flag, wanted: FlagFilter, does: Mapping[str, str]) -> bool:
    if wanted.channel is not None and wanted.channel not in channels(flag):
        return False
    text = wanted.text.lower()
    return text in flag.name.lower() or text in does.get(flag.name, "").lower()


_PIPELINED = "xla_gpu_pipeline_"


class FlagState(StrEnum):
    """The state of a name in a release. XLA aborts on `NEWER` and `GONE` in XLA_FLAGS."""

    TAKEN = "yes"
    NO_OP = "ignored"
    ALIAS = "old name"
    OPTION = "compile option only"
    NEWER = "not yet"
    GONE = "no"
    UNREAD = "nobody reads it"


def state_of(name: str, release: Release) -> FlagState:
    """Return the state of a name in a release."""
    flag = release.flags.get(name)
    if flag is not None:
        return _of_flag(flag)
    if name in release.jax:
        return FlagState.TAKEN
    variable = variables().get(name) or arguments().get(name) or libtpu_setting(name)
    if variable is not None and variable.reader is not ReadingProgram.JAX:
        return _of_variable(variable, release)
    if name.startswith("NCCL_"):
        return FlagState.TAKEN  # only its name is known
    first = release_added(name)
    return (
        FlagState.NEWER
        if first and version_number(first) > version_number(release.version)
        else FlagState.GONE
    )


def release_added(name: str) -> str | None:
    """Return the release that added a flag or JAX option; None if the oldest known has it."""
    past = history(name)
    if past is None:
        return None
    added = (change.version for change in past.changes if change.what == "added")
    return next(added, None)


def _of_flag(flag: Flag) -> FlagState:
    if not flag.xla_flags:
        return FlagState.OPTION
    if flag.no_op:
        return FlagState.NO_OP
    return FlagState.ALIAS if flag.alias_of else FlagState.TAKEN


def _of_variable(variable: DocumentedSetting, release: Release) -> FlagState:
    if variable.type == "none":
        return FlagState.UNREAD
    if not variable.by_jaxlib:
        return FlagState.TAKEN
    if variable.since and version_number(release.version) < version_number(variable.since):
        return FlagState.NEWER
    if variable.until and version_number(release.version) >= version_number(variable.until):
        return FlagState.GONE
    return FlagState.TAKEN


def default_of(name: str, release: Release) -> str | None:
    """Return the default in one release, as spelled there; None if it has none of its own."""
    flag = release.flags.get(name)
    if flag is not None:
        return None if flag.alias_of or flag.no_op else flag.default
    if name in release.jax:
        return release.jax[name]
    variable = variables().get(name) or arguments().get(name) or libtpu_setting(name)
    if (
        variable is None or variable.reader is ReadingProgram.JAX
    ):  # JAX's options are in the release
        return None
    return variable.default


def is_default(name: str, value: str, release: Release) -> bool:
    """Return whether a value, as spelled in XLA_FLAGS or the environment, is the default."""
    flag = release.flags.get(name)
    if flag is not None and flag.alias_of:
        return _alias_is_default(flag, value, release)
    if flag is not None:
        return flag.is_default(value)
    variable = variables().get(name) or arguments().get(name) or libtpu_setting(name)
    return variable is not None and variable.is_default(value)


def _alias_is_default(flag: Flag, value: str, release: Release) -> bool:
    """Handle the old pipelining names, which map true to `on` and false to `default`."""
    heir = release.flags.get(flag.alias_of or "")
    if heir is None or not heir.name.startswith(_PIPELINED):
        return False
    truth = flag.meaning(value)
    return truth is not None and heir.is_default("on" if truth else "default")
