"""Flags that were removed: XLA ends the process at the first name it does not know.

The catalogue knows when a flag was removed; gone.toml says what to write instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from counterpoint.flags.catalogue.lookup import names_ever, releases
from counterpoint.flags.history.history import history
from counterpoint.flags.text import LIBTPU, names, similar


@dataclass(frozen=True, slots=True)
class FlagRemoval:
    """A flag that a release no longer knows. `last` and `since` are None if no release had it."""

    name: str
    last: str | None = None  # the newest release known to have it
    since: str | None = None  # the oldest release known not to have it
    use: tuple[str, ...] = ()  # the flags that replace it
    note: str = "Nothing is known to have replaced it: drop it."

    @property
    def history(self) -> str:
        """When it was removed."""
        if self.last is None:
            return f"no release of jaxlib from {releases()[0]} on had it"
        return f"jaxlib {self.last} had it, {self.since} does not"


@cache
def _instead() -> dict[str, dict[str, Any]]:
    """Return the handwritten part: `use` and `note`."""
    import tomllib
    from pathlib import Path

    text = Path(__file__).with_name("gone.toml").read_text("utf-8")
    return tomllib.loads(text)


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


def unknown_hint(name: str, version: str | None = None) -> str:
    """Return what to write instead of a flag that this version of the compiler does not know."""
    removed = removal_of(name)
    if removed:
        return f"{removed.history}. {removed.note}"
    if name.startswith(LIBTPU):
        return "A flag of libtpu: give it in LIBTPU_INIT_ARGS."
    if name.startswith("tf_"):
        return "A flag of TensorFlow: give it in TF_XLA_FLAGS."
    known = names().get(name)
    if known:
        return _known_hint(known.first, known.type, version)
    candidates = similar(name)
    if candidates:
        return f"Did you mean {' or '.join(candidates)}?"
    return "No release of jaxlib that was looked at knows this name."


def _known_hint(first: str, kind: str, version: str | None) -> str:
    """Return why a name that exists may be refused."""
    if kind != "bool" and not first:
        return f"It needs a value (of type {kind}): --name=value."
    here = f"this is {version}" if version else "this one is older"
    if first:
        return f"jaxlib {first} is the oldest known to have it, and {here}."
    return "Write it as --name=value, with underscores."
