"""The flags in the value of XLA_FLAGS or LIBTPU_INIT_ARGS, each with its place; faults are slips.

It goes on where XLA stops, so that what stands behind a slip is checked, too. A value that does
not start with a dash names a file, as for XLA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.channel import Channel
from counterpoint.flags.sources.traced import HOLE, Traced, known
from counterpoint.flags.written import Given, Place, Slip, SlipKind
from counterpoint.flags.xla_flags import (
    DASHES,
    LOOKS_LIKE_FLAG,
    SPACE,
    Word,
    expand_xla_flags,
    scan_xla_flags,
)

_LOOKS_LIKE_NAME: Final = re.compile(r"(xla|megascale|tpu|tf)_\w+")
_QUOTES: Final = "'\"`"


@dataclass(slots=True)
class Found:
    """What was found so far, in order."""

    given: list[Given] = field(default_factory=list[Given])
    slips: list[Slip] = field(default_factory=list[Slip])


@dataclass(frozen=True, slots=True)
class Variable:
    """Of what the value is read: its channel, its source, and where a file's name begins."""

    where: str
    channel: Channel = Channel.XLA_FLAGS
    via: str = ""
    directory: Path | None = None


def read_flags(value: Traced, variable: Variable) -> Found:
    """All flags of a value."""
    found = Found()
    start = value.text.lstrip(SPACE)
    if not start:
        return found
    if variable.channel is Channel.XLA_FLAGS and _names_file(start):
        return _read_file(value, variable)
    stray: list[Word] = []
    for word in scan_xla_flags(value.text, where=str(value.place_at(0, variable.where))):
        if word.flag or word.text.startswith((*DASHES, HOLE)):
            found.slips += _strays(value, stray, variable)
            stray = []
            _read_word(value, word, variable, found)
        else:
            stray.append(word)
    found.slips += _strays(value, stray, variable)
    return found


def _names_file(start: str) -> bool:
    first = start.split(maxsplit=1)[0]
    if start[0] in ("-", HOLE, *DASHES, *_QUOTES) or LOOKS_LIKE_FLAG.match(start):
        return False
    return not _LOOKS_LIKE_NAME.fullmatch(first) and len(start.split()) == 1


def _read_file(value: Traced, variable: Variable) -> Found:
    place = value.place_at(0, variable.where)
    if not value.known:
        return Found(slips=[_needs_shell(value.shown.strip(SPACE), place, variable)])
    name = value.text.strip(SPACE)
    path = (variable.directory or Path()) / name
    try:
        text = expand_xla_flags(value.text, where=str(place), directory=variable.directory)
    except InputError as failure:
        return Found(
            slips=[
                Slip(
                    kind=SlipKind.MISSING_FILE,
                    channel=variable.channel,
                    text=name,
                    why=f"a value without `--` names a file: {failure.what.partition(': ')[2]}",
                    place=place,
                )
            ]
        )
    inner = Variable(str(path), variable.channel, f"file {name}")
    return read_flags(known(text, 1), inner) if text.lstrip(SPACE)[:1] == "-" else Found()


def _read_word(value: Traced, word: Word, variable: Variable, found: Found) -> None:
    shown = value.shown_between(word.at, word.end)
    place = value.place_at(word.at, variable.where)
    name, equals, inner = word.text.partition("=")
    if slip := _slip(name, shown, place, variable):
        found.slips.append(slip)
        return
    whole = HOLE not in word.text
    if not whole:
        found.slips.append(_needs_shell(shown, place, variable))
        inner = shown.partition("=")[2]
    found.given.append(
        Given(
            channel=variable.channel,
            name=name[2:],
            value=inner if equals else None,
            place=place,
            text=shown,
            via=variable.via,
            known=whole,
        )
    )


def _slip(name: str, shown: str, place: Place, variable: Variable) -> Slip | None:
    """What is wrong with a word before its equals sign, or None."""
    if HOLE in name:
        return _needs_shell(shown, place, variable)
    if name[0] in DASHES:
        return Slip(
            kind=SlipKind.DASH,
            channel=variable.channel,
            text=shown,
            why=f"it starts with U+{ord(name[0]):04X}, which only looks like a dash:"
            " XLA stops reading there, and what follows is lost in silence",
            place=place,
            mend="--" + shown.lstrip("-" + DASHES),
        )
    if name == "--" or not name.startswith("--") or name.startswith("---"):
        bare = shown.lstrip("-")
        return Slip(
            kind=SlipKind.SINGLE_DASH,
            channel=variable.channel,
            text=shown,
            why="a flag starts with two dashes: XLA does not know this one, and ends the process",
            place=place,
            mend=f"--{bare}" if bare else None,
        )
    return None


def _needs_shell(shown: str, place: Place, variable: Variable) -> Slip:
    return Slip(
        kind=SlipKind.UNKNOWABLE,
        channel=variable.channel,
        text=shown,
        why="what it stands for is known only when the program is started",
        place=place,
    )


def _strays(value: Traced, words: list[Word], variable: Variable) -> Iterator[Slip]:
    """Words that are no flags: one slip for those that stand together."""
    if not words:
        return
    shown = value.shown_between(words[0].at, words[-1].end)
    first = words[0].text
    mend = None
    bare = first.strip(_QUOTES)
    if LOOKS_LIKE_FLAG.match(bare) or _LOOKS_LIKE_NAME.fullmatch(bare):
        mend = f"--{bare}"
    elif bare.startswith("--"):
        mend = bare
    why = (
        "it does not start with `--`: XLA stops reading there, and what follows is lost in silence"
    )
    if first[0] in _QUOTES:
        why = "it starts with a quote, not with `--`: XLA stops there, and what follows is lost"
    yield Slip(
        kind=SlipKind.STRAY,
        channel=variable.channel,
        text=shown,
        why=why,
        place=value.place_at(words[0].at, variable.where),
        mend=mend if len(words) == 1 else None,
    )
