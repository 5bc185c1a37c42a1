"""The text of XLA_FLAGS, parsed as XLA parses it, and written so that XLA reads the same.

XLA's syntax: spaces, tabs and newlines as separators, `--name=value`, `--name='value'` (nothing is
special inside) and `--name="value"` (a backslash escapes the next character), and `--name` for a
bool that is true. It stops silently at the first word that does not start with a dash: what follows
is lost, including flags appended later. So that is an error here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from counterpoint.core import InputError, UsageError
from counterpoint.flags.catalogue.flag import similar as similar_flags
from counterpoint.flags.catalogue.lookup import facts_at, release, releases, states
from counterpoint.flags.named_files import ANYWHERE, AllowedFiles, read_regular

__all__ = ["Pairs", "parse_xla_flags", "render_xla_flags"]

Pairs: TypeAlias = tuple[tuple[str, str], ...]

SPACE: Final = " \t\r\n"
"""Separators of flags. Python's white space includes more: a form feed belongs to a word."""

_NAME: Final = re.compile(r"[-_A-Za-z0-9]*")
_WORD: Final = re.compile(r"[^ \t\r\n]*")
LOOKS_LIKE_FLAG: Final = re.compile(r"\w+=")
"""A text that starts like this is not a file name."""

DASHES: Final = "\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
"""Characters that look like a dash but are not."""

_QUOTES: Final = "'\"`"


@dataclass(frozen=True, slots=True)
class FlagWord:
    """One flag, or what is in its place, at `at` to `end` of the text.

    `text` is what XLA's parser passes on, without the quotes of the value; `flag` is False where
    XLA stops reading.
    """

    at: int
    end: int
    text: str
    flag: bool


def parse_xla_flags(text: str, *, where: str = "XLA_FLAGS") -> Pairs:
    """Return names without dashes, and values, in XLA's order."""
    return tuple(_pair(word, where) for word in split_xla_flags(text, where=where))


def scan_xla_flags(text: str, *, where: str = "XLA_FLAGS") -> Iterator[FlagWord]:
    """Yield the words as XLA's parser reads them; it stops at the first that is not a `flag`."""
    at = _past_space(text, 0)
    while at < len(text):
        word = _word(text, at, where)
        yield word
        at = _past_space(text, word.end)


def scan_unread(text: str, at: int) -> Iterator[FlagWord]:
    """Yield the words after the place where XLA stops; an unclosed quote there is not an error."""
    at = _past_space(text, at)
    while at < len(text):
        try:
            word = _word(text, at, "")
        except UsageError:
            end = _end(_WORD, text, at)
            word = FlagWord(at, end, text[at:end], flag=True)
        yield word
        at = _past_space(text, word.end)


def split_xla_flags(text: str, *, where: str = "XLA_FLAGS") -> tuple[str, ...]:
    """Return the flags as XLA's parser passes them on: dashes, name, equals sign, bare value."""
    words: list[str] = []
    for word in scan_xla_flags(text, where=where):
        if not word.flag:
            raise _stray(text, word.at, where)
        words.append(_checked(word.text, where))
    return tuple(words)


def render_xla_flags(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the text that XLA reads as these pairs."""
    return join_xla_flags(f"--{name}={value}" for name, value in pairs)


def join_xla_flags(words: Iterable[str]) -> str:
    """Return the text that XLA splits into these words."""
    parts = (word.partition("=") for word in words)
    return " ".join(f"{name}{equals}{_quoted(value)}" for name, equals, value in parts)


def expand_xla_flags(
    value: str,
    *,
    where: str = "XLA_FLAGS",
    directory: Path | None = None,
    reach: AllowedFiles = ANYWHERE,
) -> str:
    """Return the flags in a variable's value: the value itself, or the file's content if it is one.

    XLA takes a value that does not start with a dash for a file name, relative to where the process
    runs (`directory`). A value of only spaces is an error in XLA, but no flags here.
    """
    if not value.strip(SPACE):
        return ""
    start = value.lstrip(SPACE)
    if start[0] == "-":
        return value
    path = (directory or Path()) / value
    if not looks_like_file(value) and not (reach.holds(path) and path.exists()):
        raise _stray(value, len(value) - len(start), where)
    return _file_text(path, where, reach)


def looks_like_file(value: str) -> bool:
    """Return whether a value without a leading dash is meant as a file name; XLA assumes it is."""
    start = value.lstrip(SPACE)
    flag = start[:1] in (*DASHES, *_QUOTES, "#") or LOOKS_LIKE_FLAG.match(start)
    return not (flag or len(start.split()) > 1)


def _file_text(path: Path, where: str, reach: AllowedFiles) -> str:
    """Return the content of a file of flags; errors show the place of a non-flag, not its text."""
    why = "a value that does not start with `--` names a file of flags"
    if not reach.holds(path):
        raise InputError(
            f"{where}: {path} is not read: it is not in the directory of the source",
            why=why,
            next="write the flags of the file in its place",
        )
    try:
        text = read_regular(path).decode()
    except OSError as failure:
        raise InputError(
            f"{where}: {path} can't be read: {failure.strerror or failure}",
            why=why,
            next="unset XLA_FLAGS",
        ) from None
    except (UnicodeDecodeError, ValueError):
        raise InputError(f"{where}: {path} is not text", why=why) from None
    if "\0" in text:
        raise InputError(f"{where}: {path} is not text", why=why)
    for word in scan_xla_flags(text, where=str(path)):
        if not word.text.startswith("--"):
            line = text.count("\n", 0, word.at) + 1
            raise InputError(f"{where}: {path}:{line}: a word does not start with `--`", why=why)
    return text


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def _word(text: str, at: int, where: str) -> FlagWord:
    if text[at] == "-":
        word, end = _flag(text, at, where)
        return FlagWord(at, end, word, flag=True)
    end = _end(_WORD, text, at)
    return FlagWord(at, end, text[at:end], flag=False)


def _flag(text: str, at: int, where: str) -> tuple[str, int]:
    """Return one flag as XLA passes it on, without the quotes, and its end."""
    end = _end(_NAME, text, at)
    quote = text[end + 1 : end + 2]
    if text[end : end + 1] != "=" or not quote or quote not in "'\"":
        end = _end(_WORD, text, end)
        return text[at:end], end
    value, after = _quoted_value(text, end + 2, quote)
    if after is None:
        raise UsageError(
            f"{where}: the quote after {text[at : end + 1]} is not closed: {_excerpt(text, at)}",
            why="everything after it would become part of the value",
            next=f"close it with {quote}",
        )
    return text[at : end + 1] + value, after


def _quoted_value(text: str, at: int, quote: str) -> tuple[str, int | None]:
    value: list[str] = []
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and at + 1 < len(text):
            at += 1
        value.append(text[at])
        at += 1
    return "".join(value), at + 1 if at < len(text) else None


def _checked(word: str, where: str) -> str:
    name, equals, value = word.partition("=")
    if not name.startswith("--") or name.startswith("---") or name == "--":
        raise UsageError(
            f"{where}: {word} is not a flag",
            why="a flag is two dashes, a name, and usually `=value`",
            next=f"--{name.lstrip('-') or 'xla_...'}{equals}{value}",
        )
    return word


def _pair(word: str, where: str) -> tuple[str, str]:
    """Split a flag; without a value, XLA takes it as true, and refuses it unless it is a bool."""
    name, equals, value = word[2:].partition("=")
    known = names().get(name)
    if not equals and known and known.type != "bool":
        raise UsageError(
            f"{where}: --{name} has no value",
            why=f"its type is {known.type}; only a bool needs no value",
            next=f"write --{name}=VALUE",
        )
    return name, value if equals else "true"


def _stray(text: str, at: int, where: str) -> UsageError:
    word = text[at : _end(_WORD, text, at)]
    if text[at] in DASHES:
        return UsageError(
            f"{where}: {word} starts with U+{ord(text[at]):04X}, which looks like a dash",
            why="word processors replace `--` by it",
            next="--" + word.lstrip(DASHES),
        )
    if at == _past_space(text, 0):
        named = re.match(r"\w+", word)
        return UsageError(
            f"{where}: {word} is not a flag",
            why="flags start with `--`",
            next=f"--{word}" if named else "write flags only: XLA has no comments or quotes",
        )
    return UsageError(
        f"{where}: {word} is not a flag",
        why="XLA silently stops reading there; the flags after it are lost",
        next="write a value as --name=value, in quotes if it contains spaces",
    )


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _excerpt(text: str, at: int, length: int = 60) -> str:
    rest = text[at:]
    return rest if len(rest) <= length else f"{rest[:length]}..."


def _quoted(value: str) -> str:
    if "\0" in value:
        raise UsageError(f"a flag's value can't hold a zero byte: {value!r}")
    if not any(character in SPACE for character in value) and value[:1] not in ("'", '"'):
        return value
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


LIBTPU: Final = ("xla_tpu_", "xla_jf_", "xla_sc_", "xla_msa_", "megascale_")
"""Prefixes of flags that libtpu reads, from LIBTPU_INIT_ARGS."""


@dataclass(frozen=True, slots=True)
class FlagName:
    """One flag. `first` is the oldest known release that has it; empty: the oldest of all."""

    name: str
    type: str  # bool, int32, int64, float, string, enum; lists: enums, strings, map
    first: str = ""
    values: tuple[str, ...] = ()


@cache
def names() -> dict[str, FlagName]:
    """Return all flags of the newest known jaxlib."""
    return {
        name: FlagName(name, facts["type"], _first(name), tuple(facts.get("values", ())))
        for name, facts in facts_at(releases()[-1]).items()
        if facts.get("xla_flags", True)
    }


def _first(name: str) -> str:
    for since, facts in states(name):
        if facts is not None and facts.get("xla_flags", True):
            return "" if since == releases()[0] else since
    return ""


def similar(name: str, count: int = 2) -> tuple[str, ...]:
    """Return known names that are similar to a misspelled one."""
    return similar_flags(name, release(), count)
