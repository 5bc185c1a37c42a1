"""Observed: what XLA and JAX of each release do, as far as settings depend on it.

tools/observe_releases.py compiles minimal programs with each release and writes
catalogue/observed.tsv: for each behavior the releases in which it changes. Rules, recipes,
descriptions of settings and pages refer to a behavior by its name, so no release is typed by hand:

    {+scheduler-by-default}     the first release that has it, since when all have it
    {-scheduler-despite-false}  the first release that no longer has it
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from counterpoint.flags.release_number import version_number

__all__ = [
    "OBSERVED",
    "Observation",
    "boundary",
    "has",
    "observations",
    "observations_text",
    "observed_of",
    "observed_releases",
    "release_of",
    "with_releases",
]

OBSERVED: Final = Path(__file__).parent / "catalogue" / "observed.tsv"
_HEAD: Final = """\
# Made by tools/observe_releases.py: minimal programs, compiled with each of these releases for
# absent GPUs. A row: the behavior's name, the releases in which it changes, what was observed.
"""
_RELEASES: Final = "releases"
_NAMED: Final = re.compile(r"\{([+-][\w-]+)\}")
_WORDS: Final = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Observation:
    """A behavior; `changes`: whether a release has it, at each release in which that changes."""

    name: str
    what: str
    changes: Mapping[str, bool]

    def holds(self, release: str | None) -> bool:
        """Return whether a release has it; None, and one that is newer than all: the newest.

        A release older than all that were tried counts as the oldest.
        """
        asked = version_number(release)
        until = [held for at, held in self.changes.items() if version_number(at) <= asked]
        return until[-1] if until else next(iter(self.changes.values()))

    def first(self, *, having: bool) -> str:
        """Return the release since which all have it, or since which none has it.

        A LookupError says that there is none: then no sentence may speak of it.
        """
        at, held = list(self.changes.items())[-1]
        if held is not having or len(self.changes) == 1:
            raise LookupError(f"{self.name}: no release begins or ends it")
        return at


def has(name: str, release: str | None) -> bool:
    """Return whether a release has a behavior."""
    return observations()[name].holds(release)


def boundary(signed: str) -> str:
    """Return the release that `+name` or `-name` stands for."""
    return observations()[signed[1:]].first(having=signed[0] == "+")


def release_of(text: str) -> str:
    """Return the release that `+name` or `-name` stands for; anything else is one already."""
    return boundary(text) if text[1:] in observations() else text


def with_releases(text: str) -> str:
    """Return a text with the release of each `{+name}` and `{-name}` in it."""
    return _NAMED.sub(lambda match: boundary(match[1]), text)


@cache
def observations() -> Mapping[str, Observation]:
    """Return all behaviors, by name."""
    by_name: dict[str, Observation] = {}
    for line in OBSERVED.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, changes, what = line.split("\t")
            if name != _RELEASES:
                by_name[name] = Observation(name, what, dict(map(_change, changes.split())))
    return by_name


def _change(text: str) -> tuple[str, bool]:
    release, _, word = text.partition("=")
    return release, _WORDS[word]


@cache
def observed_releases() -> tuple[str, ...]:
    """Return the releases that were tried, oldest first."""
    lines = OBSERVED.read_text("utf-8").splitlines() if OBSERVED.exists() else []
    rows = [line.split("\t")[1] for line in lines if line.startswith(f"{_RELEASES}\t")]
    return tuple(rows[0].split()) if rows else ()


def observed_of(release: str) -> dict[str, bool]:
    """Return what was observed of one of those releases."""
    number = version_number(release)
    return {
        name: one.holds(release)
        for name, one in observations().items()
        if number >= version_number(next(iter(one.changes)))
    }


def observations_text(seen: Mapping[str, Mapping[str, bool]], whats: Mapping[str, str]) -> str:
    """Return the text of observed.tsv: `seen` by release and name, `whats` by name."""
    releases = sorted(seen, key=version_number)
    rows = [_HEAD.rstrip("\n"), f"{_RELEASES}\t{' '.join(releases)}\tthe releases that were tried"]
    for name, what in whats.items():
        changes: list[str] = []
        before: bool | None = None
        for release in releases:
            now = seen[release].get(name)
            if now is not None and now is not before:
                changes.append(f"{release}={'yes' if now else 'no'}")
            before = now
        if changes:
            rows.append(f"{name}\t{' '.join(changes)}\t{what}")
    return "\n".join(rows) + "\n"
