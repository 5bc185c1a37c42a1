"""Assignments: the lines of a script or Dockerfile that are to replace those that set it before.

What only the shell can know stays as it is written there: between double quotes it means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from counterpoint.flags.channel import Channel
from counterpoint.flags.forms.bash import quoted
from counterpoint.flags.written import Given, Slip, SlipKind, Written
from counterpoint.flags.xla_flags import join_xla_flags

_OF_FLAGS: Final = (Channel.XLA_FLAGS, Channel.LIBTPU_INIT_ARGS)
_NEXT_LINE: Final = " \\\n"
_DOCKER: Final = str.maketrans({character: "\\" + character for character in '\\"$'})
Quote = Callable[[str], str]
_SETTERS: Final = {"shell": "export", "slurm": "export", "docker": "ENV"}
"""The forms that are scripts, each with the word before an assignment."""


def assignments(written: Written) -> str:
    """One for each variable, with all that it holds."""
    refused = [one for one, _ in written.refused]
    written = replace(written, given=tuple(one for one in written.given if one not in refused))
    setter = _SETTERS[written.form]
    quote = _for_docker if setter == "ENV" else quoted
    held = {str(channel): _words(written, channel, quote) for channel in _OF_FLAGS}
    held |= {
        one.name: [quote(one.meant) if one.known else one.meant]
        for one in written.through(Channel.ENVIRONMENT)
    }
    return "".join(
        f'{setter} {name}="{_NEXT_LINE.join(words)}"\n' for name, words in held.items() if words
    )


def is_script(written: Written) -> bool:
    """Whether the settings come from lines that assign."""
    return written.form in _SETTERS


def stays(written: Written, slip: Slip) -> bool:
    """Whether a script's line can hold it as it was written."""
    known_later = slip.kind is SlipKind.UNKNOWABLE and "\n" not in slip.text
    return known_later and is_script(written)


def _words(written: Written, channel: Channel, quote: Quote) -> list[str]:
    """The flags of a variable, and what the shell is to put between them, line by line."""
    given = written.through(channel)
    texts = {(one.place, one.text) for one in given}
    between = [
        slip
        for slip in written.slips
        if slip.channel is channel and stays(written, slip) and (slip.place, slip.text) not in texts
    ]
    return [_word(one, quote) for one in _by_line(given, between)]


def _by_line(given: tuple[Given, ...], between: list[Slip]) -> Iterator[Given | Slip]:
    """In order; of one line the shell's words first, as `$XLA_FLAGS` mostly stands."""
    for one in given:
        line = one.place.line or 0
        while between and (between[0].place.line or 0) <= line:
            yield between.pop(0)
        yield one
    yield from between


def _word(one: Given | Slip, quote: Quote) -> str:
    if isinstance(one, Slip) or not one.known:
        return one.text
    return quote(join_xla_flags([f"--{one.name}={one.meant}"]))


def _for_docker(value: str) -> str:
    """Between double quotes, where docker runs no commands."""
    return value.translate(_DOCKER)
