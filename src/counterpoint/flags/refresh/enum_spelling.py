"""How XLA_FLAGS spells the values of an enum: each flag has a parser of its own for them.

Some take the names of the enum, some without what all of them begin with, some a word of them,
some in any case. Which, the parser tells; compiler options always take the names of the enum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from counterpoint.flags.refresh.parser import Parsed, is_unknown


@dataclass(frozen=True, slots=True)
class Spelling:
    """The names of the values that are taken: in XLA_FLAGS, and in the enum, in one order."""

    values: tuple[str, ...]
    enum: tuple[str, ...]
    any_case: bool = False


def find_spelling(
    parse: Callable[[str], Parsed], flag: str, enum: Mapping[int, str]
) -> Spelling | None:
    """What a flag takes; None where it takes none of what was tried, or is no flag."""
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
    return Spelling(tuple(taken.values()), tuple(taken), any_case)


def _taken(
    takes: Callable[[str], bool], names: tuple[str, ...], form: Callable[[str], str]
) -> dict[str, str]:
    """The names that are taken in one form."""
    return {name: form(name) for name in names if takes(form(name))}


def _words_taken(takes: Callable[[str], bool], names: tuple[str, ...]) -> dict[str, str]:
    """For each name the longest part of it that is taken, if any is."""
    found = ((name, next(filter(takes, _parts(name)), None)) for name in names)
    return {name: part for name, part in found if part is not None}


def _parts(name: str) -> Iterator[str]:
    """All runs of its words but the whole, in small letters."""
    words = name.lower().split("_")
    for size in range(len(words) - 1, 0, -1):
        for start in range(len(words) - size + 1):
            yield "_".join(words[start : start + size])


def common_prefix(names: tuple[str, ...]) -> str:
    """What all names begin with, up to an underscore; none where there is one name only."""
    if len(names) == 1:
        return ""
    least, most = min(names), max(names)
    differ = (at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b)
    same = least[: next(differ, len(least))]
    return same[: same.rfind("_") + 1]
