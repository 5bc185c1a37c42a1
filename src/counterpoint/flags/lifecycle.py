"""Flag lifecycle: when a flag was added, changed, removed, and what replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.about import ReadingProgram, documentation_of
from counterpoint.flags.catalogue.flag import Release, similar
from counterpoint.flags.catalogue.libtpu import libtpu_flag
from counterpoint.flags.catalogue.lookup import names_ever, releases
from counterpoint.flags.catalogue.lookup import release as newest_release
from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.history import history
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.text import LIBTPU, Pairs, names
from counterpoint.flags.values import as_option
from counterpoint.flags.versions import version_number

__all__ = [
    "UNKNOWN_TO_ALL",
    "LifecycleStatus",
    "consequence_of_rejection",
    "lifecycle_of",
    "reads_libtpu",
    "removal_of",
    "replacements",
    "unknown_hint",
]


_DATA: Final = Path(__file__).with_name("catalogue")
_TRUTH: Final = {"1": "true", "0": "false"}


def successors(name: str, value: str) -> Pairs:
    """Return the replacements, spelled as in XLA_FLAGS; empty if none are known.

    They are read from replacements.tsv, value by value, for code that rewrites a line; `removal_of`
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
    text = (_DATA / "replacements.tsv").read_text("utf-8")
    rows: dict[str, dict[str, Pairs]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value, heirs = line.split("\t")
            rows.setdefault(name, {})[value] = tuple(_pair(heir) for heir in heirs.split())
    return rows


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
                kind=LifecycleStatus.NEWER, when=f"jaxlib {past.first} is the first release with it"
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
            kind=LifecycleStatus.RENAMED, when=when, what=f"Its new name is {renamed}."
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
    if compile_option or (text is not None and text.kind is ReadingProgram.COMPILE):
        return FlagLifecycle(
            kind=LifecycleStatus.FOREIGN, reader="one compile", home=Channel.COMPILER_OPTIONS
        )
    if reads_libtpu(name) or (text is not None and text.kind is ReadingProgram.LIBTPU):
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


def consequence_of_rejection(channel: Channel, release: Release | None = None) -> str:
    """Return what happens with a setting that its channel does not accept, in a release."""
    if channel is Channel.COMPILER_OPTIONS:
        return "compilation fails"
    return f"jaxlib {release.asked} aborts" if release else "XLA aborts"


def replacements(before: Release, after: Release) -> dict[str, tuple[str, ...]]:
    """Return replacements for the names that the later release does not have."""
    heirs: dict[str, tuple[str, ...]] = {}
    for name in (before.flags.keys() - after.flags.keys()) | (before.jax.keys() - after.jax.keys()):
        removed = removal_of(name) if name in before.flags else None
        known = documentation_of(name)
        use = (removed.use if removed else ()) or (known.use if known else ())
        if use:
            heirs[name] = use
    return heirs


@dataclass(frozen=True, slots=True)
class FlagRemoval:
    """A flag that a release no longer knows. `last` and `since` are None if no release had it."""

    name: str
    last: str | None = None  # the newest release known to have it
    since: str | None = None  # the oldest release known not to have it
    use: tuple[str, ...] = ()  # the flags that replace it
    note: str = "No replacement is known."

    @property
    def history(self) -> str:
        """A sentence on its removal."""
        if self.last is None:
            return f"no jaxlib since {releases()[0]} has it"
        return f"jaxlib {self.last} had it, {self.since} does not"


@cache
def _instead() -> dict[str, dict[str, Any]]:
    """Return the handwritten part: `use` and `note`."""
    import tomllib

    return tomllib.loads((_DATA / "removed_flags.toml").read_text("utf-8"))


def all_removals() -> dict[str, FlagRemoval]:
    """Return all flags known to have been removed."""
    entries = (removal_of(name) for name in sorted({*names_ever(), *_instead()}))
    return {entry.name: entry for entry in entries if entry}


@cache
def removal_of(name: str) -> FlagRemoval | None:
    """Return the removal of a flag; None if it is not known to have been removed."""
    if name in names():
        return None
    past = history(name)
    written = _instead().get(name)
    if past is None or past.first is None:
        return FlagRemoval(name, **_entry(written)) if written else None
    return FlagRemoval(name, past.last, past.since, **_entry(written or {}))


def _entry(written: dict[str, Any]) -> dict[str, Any]:
    return {**written, "use": tuple(written.get("use", ()))}


def reads_libtpu(name: str) -> bool:
    """Return whether libtpu reads a flag, by its prefix or because a known release has it."""
    return name.startswith(LIBTPU) or libtpu_flag(name) is not None


UNKNOWN_TO_ALL: Final = "No known jaxlib release has this flag."


def unknown_hint(name: str, version: str | None = None) -> str:
    """Return what to write instead of a flag that this version of the compiler does not know."""
    removed = removal_of(name)
    if removed:
        return f"{removed.history}. {removed.note}"
    if reads_libtpu(name):
        return _libtpu_hint(name)
    if name.startswith("tf_"):
        return "This is a TensorFlow flag; set it in TF_XLA_FLAGS."
    known = names().get(name)
    if known:
        return _known_hint(known.first, known.type, version)
    candidates = similar(name, newest_release())
    if candidates:
        return f"Did you mean {' or '.join(candidates)}?"
    return UNKNOWN_TO_ALL


def _libtpu_hint(name: str) -> str:
    if libtpu_flag(name) is not None:
        return "This is a flag of libtpu, and no XLA for GPUs has it."
    return "It has the name of a flag of libtpu, but no known release of libtpu has it."


def _known_hint(first: str, kind: str, version: str | None) -> str:
    """Return why a name that exists may be refused."""
    if kind != "bool" and not first:
        return f"It needs a value of type {kind}: --name=value."
    here = f"this is {version}" if version else "the installed one is older"
    if first:
        return f"jaxlib {first} is the first known release with it; {here}."
    return "Write it as --name=value, with underscores."
