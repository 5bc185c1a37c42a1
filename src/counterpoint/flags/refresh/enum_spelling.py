"""Spellings of enum values in XLA_FLAGS: each flag has its own parser for them.

Some take the names of the enum, some without their common prefix, some a single word of them, some
in any case. The parser is tried to find out; compiler options always take the names of the enum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from counterpoint.flags.refresh.parser import ParseResult, is_unknown


@dataclass(frozen=True, slots=True)
class EnumSpelling:
    """The accepted names of the values: in XLA_FLAGS, and in the enum, in the same order."""

    values: tuple[str, ...]
    enum: tuple[str, ...]
    any_case: bool = False


def find_spelling(
    parse: Callable[[str], ParseResult], flag: str, enum: Mapping[int, str]
) -> EnumSpelling | None:
    """Return what a flag accepts; None if it accepts nothing that was tried, or is not a flag."""
    names = tuple(enum.values())

    def takes(value: str) -> bool:
        return parse(f"--{flag}={value}").options is not None

    if is_unknown(parse(f"--{flag}=")):
        return None
    prefix = common_prefix(names)
    forms: tuple[Callable[[str], str], ...] = (
        str,
        str.lower,
        lambda name: name.removeprefix(prefix),
        lambda name: name.removeprefix(prefix).lower(),
    )
    taken = next(filter(None, (_taken(takes, names, form) for form in forms)), None)
    taken = taken or _words_taken(takes, names)
    if not taken:
        return None
    any_case = takes(next(iter(taken.values())).swapcase())
    return EnumSpelling(tuple(taken.values()), tuple(taken), any_case)


def _taken(
    takes: Callable[[str], bool], names: tuple[str, ...], form: Callable[[str], str]
) -> dict[str, str]:
    """Return the names that are accepted in one form."""
    return {name: form(name) for name in names if takes(form(name))}


def _words_taken(takes: Callable[[str], bool], names: tuple[str, ...]) -> dict[str, str]:
    """Return for each name the longest part of it that is accepted, if any is."""
    found = ((name, next(filter(takes, _parts(name)), None)) for name in names)
    return {name: part for name, part in found if part is not None}


def _parts(name: str) -> Iterator[str]:
    """Yield all proper runs of its words, in lower case."""
    words = name.lower().split("_")
    for size in range(len(words) - 1, 0, -1):
        for start in range(len(words) - size + 1):
            yield "_".join(words[start : start + size])


def common_prefix(names: tuple[str, ...]) -> str:
    """Return the prefix of all names, up to an underscore; empty for a single name."""
    if len(names) == 1:
        return ""
    least, most = min(names), max(names)
    differ = (at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b)
    same = least[: next(differ, len(least))]
    return same[: same.rfind("_") + 1]
