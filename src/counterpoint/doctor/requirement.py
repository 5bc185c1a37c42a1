"""Requirement: one `Requires-Dist` line of a package, as far as the doctor needs it.

Specifiers of PEP 440 on release numbers (`>=1.2,<2`, `==0.0.42.*`, `~=1.4`); of markers, the extra
and the system. What is not understood is not judged: `parse` gives None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Final

_LINE: Final = re.compile(
    r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?"
)
_CLAUSE: Final = re.compile(r"(===|==|!=|<=|>=|~=|<|>)\s*([0-9][\w.+!-]*?)(\.\*)?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_SYSTEM: Final = re.compile(
    r"""(?:sys_platform|platform_system)\s*==\s*['"](?:linux|Linux)['"]|extra\s*==\s*['"][^'"]+['"]"""
)
_COMPARED: Final = {
    "==": eq,
    "===": eq,
    "!=": ne,
    "<=": le,
    ">=": ge,
    "<": lt,
    ">": gt,
}
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one package wants of another. `extra`: only where that was asked for."""

    name: str
    clauses: tuple[tuple[str, str, bool], ...]  # operator, version, whether `.*` follows
    extra: str | None

    @property
    def text(self) -> str:
        """The versions that are wanted."""
        return ",".join(
            f"{op}{version}{'.*' if tail else ''}" for op, version, tail in self.clauses
        )

    def takes(self, version: str) -> bool:
        """Whether a version will do."""
        return all(_holds(version, *clause) for clause in self.clauses)


def parse(line: str) -> Requirement | None:
    """The requirement; None where it holds elsewhere, or can't be understood."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, versions, marker = match[1], match[2].strip(), (match[3] or "").strip()
    parts = [part.strip() for part in versions.split(",") if part.strip()]
    clauses = [_CLAUSE.fullmatch(part) for part in parts]
    if _unknown_marker(marker):
        return None
    found = [(it[1], it[2], it[3] is not None) for it in clauses if it]
    extra = _EXTRA.search(marker)
    if len(found) < len(parts):
        return None
    return Requirement(normal(name), tuple(found), extra[1] if extra else None)


def normal(name: str) -> str:
    """A distribution's name as all of them compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(version: str) -> tuple[int, ...]:
    """The release of a version, as numbers."""
    match = _NUMBERS.match(version.strip())
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _unknown_marker(marker: str) -> bool:
    rest = _SYSTEM.sub("", marker).replace("and", "").replace("(", "").replace(")", "")
    return bool(rest.strip())


def _holds(version: str, operator: str, wanted: str, prefix: bool) -> bool:
    have, want = numbers(version), numbers(wanted)
    if prefix:
        same = _padded(have, len(want))[: len(want)] == want
        return same if operator == "==" else not same
    size = max(len(have), len(want))
    one, other = _padded(have, size), _padded(want, size)
    if operator == "~=":  # ~=1.4.2 is >=1.4.2, ==1.4.*
        return one >= other and have[: len(want) - 1] == want[:-1]
    return _COMPARED[operator](one, other)


def _padded(release: tuple[int, ...], size: int) -> tuple[int, ...]:
    return release + (0,) * (size - len(release))
