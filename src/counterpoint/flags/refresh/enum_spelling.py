"""How XLA_FLAGS spells the values of an enum: each flag has a parser of its own for them.

Some take the names of the enum, some without what all of them begin with, some in any case. Which,
the parser tells; compiler options always take the names of the enum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    for form in (_as_it_is, _lower, _short(names), _short_lower(names)):
        taken = {name: form(name) for name in names if takes(form(name))}
        if taken:
            any_case = takes(next(iter(taken.values())).swapcase())
            return Spelling(tuple(taken.values()), tuple(taken), any_case)
    return None


def _as_it_is(name: str) -> str:
    return name


def _lower(name: str) -> str:
    return name.lower()


def _short(names: tuple[str, ...]) -> Callable[[str], str]:
    prefix = common_prefix(names)
    return lambda name: name.removeprefix(prefix)


def _short_lower(names: tuple[str, ...]) -> Callable[[str], str]:
    prefix = common_prefix(names)
    return lambda name: name.removeprefix(prefix).lower()


def common_prefix(names: tuple[str, ...]) -> str:
    """What all names begin with, up to an underscore; none where there is one name only."""
    if len(names) == 1:
        return ""
    least, most = min(names), max(names)
    differ = (at for at, (a, b) in enumerate(zip(least, most, strict=False)) if a != b)
    same = least[: next(differ, len(least))]
    return same[: same.rfind("_") + 1]
