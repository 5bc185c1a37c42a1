"""The flags in the value of XLA_FLAGS or LIBTPU_INIT_ARGS, each with its place; faults are slips.

Where XLA stops reading, reading stops: the flags behind it are in the slip, and no settings. A
value that does not start with a dash names a file, as for XLA: a slip, until the file is read
(flag_files.py). A file in which the first word is no flag holds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from counterpoint.flags.settings import Channel
from counterpoint.flags.sources.traced import HOLE, Traced
from counterpoint.flags.written import Given, Place, Slip, SlipKind
from counterpoint.flags.xla_flags import (
    DASHES,
    LOOKS_LIKE_FLAG,
    SPACE,
    Word,
    looks_like_file,
    scan_unread,
    scan_xla_flags,
)

_LOOKS_LIKE_NAME: Final = re.compile(r"(xla|megascale|tpu|tf)_\w+")
_QUOTES: Final = "'\"`"
_HIDDEN: Final = "(a word that is not shown)"
_STOPS: Final = "XLA stops reading there, and what follows is lost in silence"
_IS_NO_FILE: Final = (
    "XLA takes a value that does not start with `-` for the name of a file, and ends the process"
    " where there is none"
)


@dataclass(slots=True)
class Found:
    """What was found so far, in order."""

    given: list[Given] = field(default_factory=list[Given])
    slips: list[Slip] = field(default_factory=list[Slip])
    inherited: list[str] = field(default_factory=list[str])  # sentences on what is not read


@dataclass(frozen=True, slots=True)
class Variable:
    """Of what the value is read: its channel and its source.

    `in_file`: it is what a file of flags holds, which names no other file. `hidden`: of words that
    are no flags only the place is told.
    """

    where: str
    channel: Channel = Channel.XLA_FLAGS
    via: str = ""
    in_file: bool = False
    hidden: bool = False


def read_flags(value: Traced, variable: Variable) -> Found:
    """All flags of a value."""
    found = Found()
    start = value.text.lstrip(SPACE)
    if not start:
        return found
    if (
        variable.channel is Channel.XLA_FLAGS
        and start[0] not in ("-", HOLE)
        and not variable.in_file
    ):
        return _names_file(value, variable)
    return _read_words(value, variable)


def _read_words(value: Traced, variable: Variable) -> Found:
    found = Found()
    stray: list[Word] = []
    for word in scan_xla_flags(value.text, where=str(value.place_at(0, variable.where))):
        if word.flag or word.text.startswith(HOLE):
            found.slips += _strays(value, stray, variable)
            stray = []
            _read_word(value, word, variable, found)
        elif variable.channel is Channel.XLA_FLAGS:
            found.slips.append(_stop(value, word, variable))
            return found
        else:
            stray.append(word)
    found.slips += _strays(value, stray, variable)
    return found


def _names_file(value: Traced, variable: Variable) -> Found:
    """A value that XLA takes for a file's name; what looks like a flag is meant as one."""
    name, place = value.text.strip(SPACE), value.place_at(0, variable.where)
    if not value.known:
        return Found(slips=[_needs_shell(value.shown.strip(SPACE), place, variable)])
    meant = not looks_like_file(value.text) or _LOOKS_LIKE_NAME.fullmatch(name)
    slip = Slip(
        kind=SlipKind.NAMES_FILE,
        channel=variable.channel,
        text=name,
        why="a value without `--` names a file",
        place=place,
        otherwise=tuple(_read_words(value, variable).slips) if meant else (),
    )
    return Found(slips=[slip])


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
    if name == "--" or not name.startswith("--") or name.startswith("---"):
        bare = shown.lstrip("-")
        return Slip(
            kind=SlipKind.SINGLE_DASH,
            channel=variable.channel,
            text=_HIDDEN if variable.hidden else shown,
            why="a flag starts with two dashes: XLA does not know this one, and ends the process",
            place=place,
            mend=f"--{bare}" if bare and not variable.hidden else None,
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


def _stop(value: Traced, word: Word, variable: Variable) -> Slip:
    """The word at which XLA stops, with those beside it that are no flags, and the flags lost."""
    rest = list(scan_unread(value.text, word.end))
    dash = word.text[0] in DASHES
    words = [word] if dash else [word, *takewhile(_is_plain, rest)]
    shown = _shown(value, words, variable)
    unread = Found()
    for one in rest:
        if one.flag:
            _read_word(value, one, variable, unread)
    return Slip(
        kind=SlipKind.DASH if dash else SlipKind.STRAY,
        channel=variable.channel,
        text=shown,
        why=_why_stopped(value, word, variable),
        place=value.place_at(word.at, variable.where),
        mend=None if variable.hidden else _meant(shown, words),
        lost=tuple(unread.given),
    )


def _is_plain(word: Word) -> bool:
    return not word.flag and word.text[0] not in (*DASHES, HOLE)


def _why_stopped(value: Traced, word: Word, variable: Variable) -> str:
    first = not value.text[: word.at].strip(SPACE) and not variable.in_file
    ends = _IS_NO_FILE if first else _STOPS
    return f"{_looks(word.text)}: {ends}"


def _looks(word: str) -> str:
    if word[0] in DASHES:
        return f"it starts with U+{ord(word[0]):04X}, which only looks like a dash"
    if word[0] in _QUOTES:
        return "it starts with a quote, not with `--`"
    if word[0] == "#":
        return "XLA knows no comments, and `#` starts no flag"
    return "it does not start with `--`"


def _shown(value: Traced, words: list[Word], variable: Variable) -> str:
    if variable.hidden:
        return _HIDDEN
    return value.shown_between(words[0].at, words[-1].end)


def _meant(shown: str, words: list[Word]) -> str | None:
    """What words that are no flags were to be, where that is plain."""
    if words[0].text[0] in DASHES:
        return "--" + shown.lstrip("-" + DASHES)
    bare = words[0].text.strip(_QUOTES)
    if len(words) > 1:
        return None
    if LOOKS_LIKE_FLAG.match(bare) or _LOOKS_LIKE_NAME.fullmatch(bare):
        return f"--{bare}"
    return bare if bare.startswith("--") else None


def _strays(value: Traced, words: list[Word], variable: Variable) -> Iterator[Slip]:
    """Words in another channel that are no flags: one slip for those that stand together."""
    if not words:
        return
    shown = _shown(value, words, variable)
    dash = words[0].text[0] in DASHES
    yield Slip(
        kind=SlipKind.DASH if dash else SlipKind.STRAY,
        channel=variable.channel,
        text=shown,
        why=_looks(words[0].text) + ": it is no flag",
        place=value.place_at(words[0].at, variable.where),
        mend=None if variable.hidden else _meant(shown, words),
    )
