"""The next command after an error: the words command line with the wrong option replaced.

The code that raises an error does not know the command line. Its `next` may be a `Retry`, which
says which arguments to change or to omit; this module turns that into a whole command. The parser
decides how many words belong to the old option: only command lines that it accepts are proposed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from counterpoint.cli.wording import in_options, shown_option
from counterpoint.core import CounterpointError
from counterpoint.core.arguments import Retry, option_of

_ALSO: Final = {"-o": "--out", "--out": "-o"}
_NAMED: Final = ("--set", "--env")
"""Options that can be repeated, each for the name before its first `=`."""
_MANY: Final = 3  # names up to which nothing is abbreviated


def with_whole_command(
    error: CounterpointError, words: Sequence[str], is_taken: Callable[[Sequence[str]], bool]
) -> CounterpointError:
    """Return the error with a `next` to paste; `is_taken` says whether a line is valid."""
    retry = error.next
    if isinstance(retry, str):
        error.next = _for_own_target(retry, error.what, words)
    if not isinstance(retry, Retry):
        return error
    change = [_words(name, value) for name, value in retry.given.items()]
    old = [*map(option_of, retry.without), *(words[0] for words in change)]
    replaced = {option_of(name): value for name, value in retry.instead_of.items()}
    lines = _without(tuple(words), old, change, replaced)
    whole = next((line for line in (_with(line, change) for line in lines) if is_taken(line)), None)
    if whole is not None:
        remark = f"   # {retry.remark}" if retry.remark else ""
        error.next = shlex.join(["counterpoint", *_short(whole, is_taken)]) + remark
    else:
        error.next = ("the same command with " if change else "") + in_options(str(retry))
    return error


def with_arguments(words: tuple[str, ...], given: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command with these arguments, in place of its own of the same names."""
    change = [_words(name, value) for name, value in given.items()]
    return _with(next(_without(words, [it[0] for it in change], change, {}), words), change)


def _for_own_target(example: str, problem: str, words: Sequence[str]) -> str:
    """Return an example command with the target that was given, unless that is the problem."""
    target = next((_value_at(words, at) for at in _places(words, "--target")), "")
    if not target or target in problem:
        return example
    return re.sub(r"--target \d*xH100\b", f"--target {shlex.quote(target)}", example)


def _words(name: str, value: object) -> list[str]:
    option = shown_option(name)
    return [option] if value is True else [option, f"{value}"]


def _without(
    words: tuple[str, ...],
    options: Sequence[str],
    change: Sequence[Sequence[str]],
    replaced: Mapping[str, str],
) -> Iterator[tuple[str, ...]]:
    """Yield the command without these options, for each possible number of their values."""
    if not options:
        yield words
        return
    first, *others = options
    named = next(
        (_before_equals(it[1]) for it in change if it[0] == first and first in _NAMED), None
    )
    places = _places(words, first)
    if first in replaced:
        places = [at for at in places if _value_at(words, at) == replaced[first]][:1]
    elif named is not None:
        places = [at for at in places if _before_equals(_value_at(words, at)) == named]
    if len(places) > 1:
        return  # ambiguous
    if not places:
        yield from _without(words, others, change, replaced)
        return
    (place,) = places
    following = words[place + 1 : place + 2]
    is_value = bool(following) and (following[0][:1] != "-" or following[0][1:2].isdecimal())
    counts = (2, 1) if is_value and "=" not in words[place] else (1, 2)
    for count in counts:
        yield from _without((*words[:place], *words[place + count :]), others, change, replaced)


def _places(words: Sequence[str], option: str) -> list[int]:
    own = words[: words.index("--")] if "--" in words else words
    names = (option, _ALSO.get(option, option))
    return [at for at, word in enumerate(own) if word.partition("=")[0] in names]


def _value_at(words: Sequence[str], place: int) -> str:
    """Return the value of the option at a place: after its `=`, or the next word."""
    words = [*words[place].split("=", 1), *words[place + 1 : place + 2]]
    return words[1] if len(words) > 1 else ""


def _before_equals(value: str) -> str:
    return value.lstrip("-").partition("=")[0]


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
