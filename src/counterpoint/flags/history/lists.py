"""Listing: selected flags of a release, each with when it was added and removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from counterpoint.core import UsageError
from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.lookup import names_ever, releases, states
from counterpoint.flags.catalogue.table import flag_of
from counterpoint.flags.history.history import FlagChange, history
from counterpoint.flags.settings import Channel
from counterpoint.flags.versions.version import version_number


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagFilter:
    """Which flags to list; None and False do not filter.

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
        raise UsageError(
            f"--changed-since {since}: later than jaxlib {release.version}, which is listed",
            why="what changed is told up to --jaxlib, or else up to the release installed here",
            next=f"--changed-since {release.version} --jaxlib {since}",
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
        _changes(name, wanted.changed_since, until),
    )


def _changes(name: str, since: str | None, until: tuple[int, ...]) -> tuple[FlagChange, ...]:
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
