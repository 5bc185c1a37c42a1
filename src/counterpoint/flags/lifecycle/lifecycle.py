"""Flag lifecycle: when a flag was added, changed, removed, and what replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from counterpoint.flags.catalogue.about import SettingReader, documentation_of
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.similar import similar
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.history.history import history
from counterpoint.flags.lifecycle.removed import removal_of
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import LIBTPU, Pairs
from counterpoint.flags.values import as_option
from counterpoint.flags.versions.version import version_number

_FILE: Final = Path(__file__).with_name("succession.tsv")
_TRUTH: Final = {"1": "true", "0": "false"}


def successors(name: str, value: str) -> Pairs:
    """Return the replacements, spelled as in XLA_FLAGS; empty if none are known.

    They are read from succession.tsv, value by value, for code that rewrites a line; `removal_of`
    and `documentation_of` describe the same for readers.
    """
    rows = _rows().get(name, {})
    lowered = value.lower()
    heirs = next(
        (rows[key] for key in (lowered, _TRUTH.get(lowered, lowered), "*") if key in rows), None
    )
    if heirs is None:
        return ()
    return tuple((heir, text.replace("{value}", value)) for heir, text in heirs)


def is_default_now(name: str, value: str) -> bool:
    """Return whether a flag's effect is the default now, so that it can be removed."""
    rows = _rows().get(name, {})
    lowered = value.lower()
    return rows.get(_TRUTH.get(lowered, lowered)) == ()


@cache
def _rows() -> Mapping[str, Mapping[str, Pairs]]:
    text = _FILE.read_text("utf-8")
    found: dict[str, dict[str, Pairs]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value, heirs = line.split("\t")
            found.setdefault(name, {})[value] = tuple(_pair(heir) for heir in heirs.split())
    return found


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


_TENSORFLOW: Final = "tf_xla_"


class LifecycleStatus(Enum):
    """The state of a name in one release."""

    KNOWN = auto()  # the release accepts it, in XLA_FLAGS or as a compiler option
    NEWER = auto()  # only a later release has it
    RENAMED = auto()  # another name does the same today
    REMOVED = auto()  # only an earlier release had it
    FOREIGN = auto()  # read by another program: libtpu, TensorFlow, JAX, NCCL; or by one compile
    NEVER = auto()  # no release had it


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagLifecycle:
    """`when` is a clause on releases, `what` a sentence on the replacement; both may be empty.

    `reader` is the program that reads a foreign name, and `home` the channel it belongs in.
    """

    kind: LifecycleStatus
    when: str = ""
    what: str = ""
    reader: str = ""
    home: Channel | None = None


def lifecycle_of(
    name: str, release: Release, channel: Channel = Channel.XLA_FLAGS
) -> FlagLifecycle:
    """Return the lifecycle of a name of XLA_FLAGS or compiler_options."""
    flag = release.flags.get(name)
    option = channel is Channel.COMPILER_OPTIONS
    if flag is not None and (flag.xla_flags or (option and flag.compile_option)):
        return FlagLifecycle(kind=LifecycleStatus.KNOWN)
    past = history(name)
    if past is not None and past.first is not None:
        if version_number(past.first) > version_number(release.version):
            return FlagLifecycle(
                kind=LifecycleStatus.NEWER, when=f"jaxlib {past.first} is the first that has it"
            )
        if past.last is not None:
            return _gone(name, f"jaxlib {past.last} had it, {past.since} does not", release)
    foreign = _foreign(name, compile_option=flag is not None)
    if foreign is not None:
        return foreign
    removed = removal_of(name)
    if removed is not None:
        return _gone(name, removed.history if removed.last else "", release)
    return FlagLifecycle(kind=LifecycleStatus.NEVER)


def _gone(name: str, when: str, release: Release) -> FlagLifecycle:
    removed = removal_of(name)
    renamed = _renamed(name, release)
    if renamed:
        return FlagLifecycle(
            kind=LifecycleStatus.RENAMED, when=when, what=f"It is called {renamed} now."
        )
    return FlagLifecycle(
        kind=LifecycleStatus.REMOVED, when=when, what=removed.note if removed else ""
    )


def _renamed(name: str, release: Release) -> str | None:
    """Return the one name that does the same with each value, if there is one."""
    (heir,) = (*successors(name, "{value}"), None)[:1]
    if heir is None or heir[1] != "{value}" or heir[0] not in release.flags:
        return None
    return heir[0]


@lru_cache(maxsize=1024)
def _foreign(name: str, *, compile_option: bool) -> FlagLifecycle | None:
    text = documentation_of(name)
    if compile_option or (text is not None and text.kind is SettingReader.COMPILE):
        return FlagLifecycle(
            kind=LifecycleStatus.FOREIGN, reader="one compile", home=Channel.COMPILER_OPTIONS
        )
    if name.startswith(LIBTPU) or (text is not None and text.kind is SettingReader.LIBTPU):
        return FlagLifecycle(
            kind=LifecycleStatus.FOREIGN, reader="libtpu", home=Channel.LIBTPU_INIT_ARGS
        )
    if name.startswith(_TENSORFLOW):
        return FlagLifecycle(kind=LifecycleStatus.FOREIGN, reader="TensorFlow, from TF_XLA_FLAGS")
    if name.lower().startswith("jax_"):
        return FlagLifecycle(kind=LifecycleStatus.FOREIGN, reader="JAX", home=Channel.ENVIRONMENT)
    if name in variables():
        reader = str(variables()[name].reader)
        return FlagLifecycle(kind=LifecycleStatus.FOREIGN, reader=reader, home=Channel.ENVIRONMENT)
    return None


def replacement_of(one: Occurrence, release: Release) -> tuple[tuple[str, str], ...]:
    """Return what to write instead of a removed name, as its channel spells it; (): remove it."""
    heirs = successors(one.name, one.meant) if one.known else ()
    known = [(name, value) for name, value in heirs if name in release.flags]
    if len(known) < len(heirs):
        return ()
    if one.channel is Channel.COMPILER_OPTIONS:
        known = [(name, as_option(release.flags[name], value)) for name, value in known]
    return tuple(known)


def consequence_of_rejection(channel: Channel) -> str:
    """Describe the effect of a setting that its channel does not accept."""
    option = channel is Channel.COMPILER_OPTIONS
    return "the compile fails at it" if option else "XLA ends the process at it"


def meant(name: str, release: Release) -> tuple[str, ...]:
    """Return names of the release that are similar to a misspelled one."""
    return similar(name, release)


def replacements(before: Release, after: Release) -> dict[str, tuple[str, ...]]:
    """Return replacements for the names that the later release does not have."""
    from counterpoint.flags.catalogue.about import documentation_of

    found: dict[str, tuple[str, ...]] = {}
    for name in (before.flags.keys() - after.flags.keys()) | (before.jax.keys() - after.jax.keys()):
        removed = removal_of(name) if name in before.flags else None
        known = documentation_of(name)
        use = (removed.use if removed else ()) or (known.use if known else ())
        if use:
            found[name] = use
    return found
