"""The next command after an error: the words command line with the wrong option replaced.

The code that raises an error does not know the command line. So its `next` may be an option alone
(`--step 5`), or an instruction to drop one (`omit --ranks`); this module turns both into a
whole command. The parser decides how many words belong to the old option: only command lines that
it accepts are proposed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from counterpoint.core import CounterpointError

_LEFT_OUT: Final = re.compile(r"(?:leave|omit|remove) (--[a-z][a-z-]*)(?: out)?")
_OPTION: Final = re.compile(r"-[a-z]|--[a-z][a-z-]*")
_REMARK: Final = "   # "
_ALSO: Final = {"-o": "--out", "--out": "-o"}
_NAMED: Final = ("--set", "--env")
"""Options that can be repeated, each for the name before its first `=`."""
_MANY: Final = 3  # names up to which nothing is abbreviated


def with_whole_command(
    error: CounterpointError, words: Sequence[str], is_taken: Callable[[Sequence[str]], bool]
) -> CounterpointError:
    """Return the error with a `next` to paste; `is_taken` says whether a line is valid."""
    wanted, hash_, remark = (error.next or "").partition(_REMARK)
    left_out = _LEFT_OUT.fullmatch(wanted)
    if left_out is None and not wanted.startswith("-"):
        return error
    change = [] if left_out else _options(wanted)
    old = [left_out[1]] if left_out else [words[0] for words in change]
    lines = _without(tuple(words), old, change)
    whole = next((line for line in (_with(line, change) for line in lines) if is_taken(line)), None)
    if whole is not None:
        error.next = shlex.join(["counterpoint", *_short(whole, is_taken)]) + hash_ + remark
    elif left_out is None:
        error.next = f"the same command with {wanted}{hash_}{remark}"
    return error


def _options(text: str) -> list[list[str]]:
    """Split into options with their values: `--params 218e6 --layers 32` holds two."""
    found: list[list[str]] = []
    for word in shlex.split(text):
        option, equals, value = word.partition("=")
        if _OPTION.fullmatch(option) and not (found and found[-1][0] == "--slurm"):
            found.append([option, value] if equals else [option])
        elif found:
            found[-1].append(word)
    return found


def _without(
    words: tuple[str, ...], options: Sequence[str], change: Sequence[Sequence[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield the command without these options, for each possible number of their values."""
    if not options:
        yield words
        return
    first, *others = options
    named = next(
        (_name(option) for option in change if option[0] == first and first in _NAMED), None
    )
    places = [place for place in _places(words, first) if _is_meant(words, place, named)]
    if len(places) > 1:
        return  # ambiguous
    if not places:
        yield from _without(words, others, change)
        return
    (place,) = places
    following = words[place + 1 : place + 2]
    counts = (
        (1, 2) if "=" in words[place] or not following or following[0].startswith("-") else (2, 1)
    )
    for count in counts:
        yield from _without((*words[:place], *words[place + count :]), others, change)


def _places(words: Sequence[str], option: str) -> list[int]:
    own = words[: words.index("--")] if "--" in words else words
    names = (option, _ALSO.get(option, option))
    return [at for at, word in enumerate(own) if word.partition("=")[0] in names]


def _is_meant(words: Sequence[str], place: int, named: str | None) -> bool:
    if named is None:
        return True
    words = [*words[place].split("=", 1), *words[place + 1 : place + 2]]
    return _name(words) == named


def _name(option: Sequence[str]) -> str:
    return option[1].lstrip("-").partition("=")[0] if len(option) > 1 else ""


def _with(line: Sequence[str], change: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the line with the options appended, before the words of a program to run."""
    end = line.index("--") if "--" in line else len(line)
    return (*line[:end], *(word for option in change for word in option), *line[end:])


def _short(line: tuple[str, ...], is_taken: Callable[[Sequence[str]], bool]) -> tuple[str, ...]:
    """Return the line with a pattern in place of the many names that the shell expanded it to."""
    from counterpoint.cli.profiles import as_typed  # imports the readers of profiles

    own = line[: line.index("--")] if "--" in line else line
    end = next((at for at, word in enumerate(own) if word.startswith("-")), len(own))
    if end <= _MANY:
        return line
    for begin in range(1, end - _MANY):
        pattern = as_typed(own[begin:end])
        short = (*line[:begin], *pattern, *line[end:])
        if len(pattern) == 1 and is_taken(short):
            return short
    return line
