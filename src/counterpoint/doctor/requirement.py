"""Requirement: one `Requires-Dist` line of a package, as pip would read it.

A line that is not understood, or that holds on another system or Python only, is not judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """The versions of one package that another asks for; `extra`: only with that extra."""

    name: str
    text: str
    extra: str | None
    parsed: Parsed

    def takes(self, version: str) -> bool:
        """Return whether a version satisfies it; a nightly build counts as its release.

        A text that is no version is not judged.
        """
        try:
            return self.parsed.specifier.contains(Version(version).base_version)
        except InvalidVersion:
            return True


def parse_requirement(line: str, python: str = "") -> Requirement | None:
    """Read a requirement; None where it doesn't hold on Linux with this Python."""
    try:
        parsed = Parsed(line)
    except InvalidRequirement:
        return None
    if parsed.url:
        return None
    held_for = _held_for(parsed, python)
    if held_for is None:
        return None
    text = ",".join(sorted(map(str, parsed.specifier)))
    return Requirement(normalized_name(parsed.name), text, held_for or None, parsed)


def normalized_name(name: str) -> str:
    """Return a distribution's name in the form in which all names compare."""
    return canonicalize_name(name)


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the release of a version, as numbers; drivers have versions, too."""
    match = _NUMBERS.match(version.strip())
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _held_for(parsed: Parsed, python: str) -> str | None:
    """Return the extra with which the marker holds: "" without one, None if it never does."""
    if parsed.marker is None:
        return ""
    here = {"sys_platform": "linux", "platform_system": "Linux"}
    if python:
        here |= {
            "python_full_version": python,
            "python_version": ".".join(python.split(".")[:2]),
        }
    for extra in ("", *_EXTRA.findall(str(parsed.marker))):
        if parsed.marker.evaluate({**here, "extra": extra}):
            return extra
    return None
