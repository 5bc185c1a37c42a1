"""OwnRelease: the release of jaxlib that a source is written for, if it is not the installed one.

A launch file runs with what it installs, and one that was not touched for a year has the flags of
its time. Checked against another release, it would get remarks that say nothing about the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import known_release, releases, states
from counterpoint.flags.parsed import Occurrence, ParsedSource, Pin
from counterpoint.flags.release_number import version_number
from counterpoint.flags.settings import Channel


@dataclass(frozen=True, slots=True)
class OwnRelease:
    """`why` says what names it: a pin, or flags that the installed one lacks.

    `exact`: no other release is meant, as by the image of a day, or by a range. `witnesses` are the
    releases that all have to refuse a flag; without any, what is refused is not known.
    """

    version: str
    why: str
    pinned: bool
    exact: bool = True
    witnesses: tuple[str, ...] = ()


def own_release(written: ParsedSource, installed: Release) -> OwnRelease | None:
    """Return the release of a source; None if that is the installed one, or is not known."""
    flags = _flags(written)
    pin = written.pin
    exact = pin is not None and len(pin.releases) == 1
    if pin is None or (not exact and installed.asked in pin.releases):
        return _by_flags(flags, installed)
    version = _most_fitting(pin, flags)
    if installed.asked in (version, known_release(version)):
        return None
    known = version_number(version) >= version_number(releases()[0])
    witnesses = pin.releases if pin.nightly else (version,)
    return OwnRelease(
        version,
        _named(pin, written.where),
        pinned=True,
        exact=exact,
        witnesses=witnesses if known else (),
    )


def _named(pin: Pin, where: str) -> str:
    image = pin.text.rpartition("/")[2]
    line = f"line {pin.place.line}" if pin.place.line else ""
    place = pin.place if pin.place.where != where else line
    return f"{image}{f' in {place}' if place else ''}"


def _flags(written: ParsedSource) -> dict[str, Occurrence]:
    given = (one for program in written.programs for one in program.through(Channel.XLA_FLAGS))
    return {one.name: one for one in given}


def _most_fitting(pin: Pin, flags: Iterable[str]) -> str:
    """Return the release that has most of the flags, the first one of those that have as many."""
    taken = [set(_having(name)) for name in flags]
    return max(pin.releases, key=lambda version: sum(version in one for one in taken))


def _by_flags(flags: dict[str, Occurrence], installed: Release) -> OwnRelease | None:
    """Return the nearest release that has all flags that any release has, if there is one."""
    known = {name: having for name in flags if (having := _having(name))}
    asked = installed.version
    if all(asked in having for having in known.values()):
        return None
    common = [version for version in releases() if all(version in it for it in known.values())]
    if not common:
        return None
    newer = version_number(common[0]) > version_number(asked)
    lacking = [f"--{name}" for name, having in known.items() if asked not in having]
    why = ", ".join(lacking[:_NAMED]) + (", ..." if len(lacking) > _NAMED else "")
    return OwnRelease(common[0] if newer else common[-1], why, pinned=False)


_NAMED: Final = 2


def _having(name: str) -> tuple[str, ...]:
    """Return the releases that accept a flag in XLA_FLAGS."""
    changes, has, having = dict(states(name)), False, list[str]()
    for version in releases():
        if version in changes:
            facts = changes[version]
            has = facts is not None and facts.get("xla_flags", True)
        if has:
            having.append(version)
    return tuple(having)
