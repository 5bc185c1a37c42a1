"""The words and operators of a shell script, with lines; nothing is run and nothing expanded.

A word is a row of parts: plain text, a reference to a variable, or what needs a shell. The text of
a heredoc hangs at its operator, since it is some other program's. An unclosed quote is the only
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import accumulate
from typing import Final

from counterpoint.core.errors import InputError

_OPERATOR: Final = re.compile(r"<<<|<<-?|;;&|;;|;&|&&|&>>?|\|\||\|&|>>|>\||[<>]&|\n|[;&|<>()]")
_SKIPPED: Final = re.compile(r"(?:[ \t\r\f\ufeff]|\\\r?\n)+|(?<=[\s;&|()])#[^\n]*|^#[^\n]*")
_PLAIN: Final = re.compile(r"[^ \t\r\f\ufeff\n;&|<>()'\"\\$`]+")
_DOUBLE_PLAIN: Final = re.compile(r'[^"$`\\]+')
_REFERENCE: Final = re.compile(r"\$([A-Za-z_]\w*)")
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_ANSI: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_ANSI_ESCAPE: Final = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}))+)|\\(.)", re.DOTALL)
_ANSI_BYTE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]+))")


class Kind(Enum):
    """What a part of a word is."""

    TEXT = auto()
    REFERENCE = auto()  # $NAME, ${NAME}, ${NAME:-default}
    HOLE = auto()  # a command, arithmetic, $1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a word, as text or, where it is to be expanded, as source."""

    kind: Kind
    text: str
    line: int


@dataclass(slots=True)
class Heredoc:
    """A text that stands behind a command; `line` is the one of the command."""

    mark: str
    line: int
    dashed: bool  # `<<-`: tabs before its lines do not count
    quoted: bool  # nothing in it is expanded
    text: str = ""
    start: int = 0  # the line of its text


@dataclass(frozen=True, slots=True)
class Token:
    """A word with its parts, or an operator without."""

    text: str
    line: int
    parts: tuple[Part, ...] = ()
    operator: bool = False
    heredoc: Heredoc | None = None


@dataclass(slots=True)
class Lexer:
    """A text and how far it is read; `line` is where it begins in its file."""

    text: str
    where: str
    line: int = 1
    at: int = 0
    _heredocs: list[Heredoc] = field(default_factory=list[Heredoc])  # whose text is to come
    _counted: int = 0
    _lines: dict[str, int] = field(default_factory=dict[str, int])  # where each stands last
    _dashed: dict[str, int] = field(default_factory=dict[str, int])  # the same without tabs

    def tokens(self) -> Iterator[Token]:
        """All tokens."""
        while self._skip():
            line = self.here()
            match = _OPERATOR.match(self.text, self.at)
            if not match or (match[0] in "<>" and self.text[match.end() : match.end() + 1] == "("):
                yield self._word()
                continue
            self.at = match.end()
            heredoc = None
            if match[0] in ("<<", "<<-") and self._skip():
                mark = self._word()
                heredoc = Heredoc(
                    mark="".join(part.text for part in mark.parts),
                    line=line,
                    dashed=match[0] == "<<-",
                    quoted=any(character in "'\"\\" for character in mark.text),
                )
                self._heredocs.append(heredoc)
            yield Token(match[0], line, operator=True, heredoc=heredoc)
            if match[0] == "\n":
                for waiting in self._heredocs:
                    self._take(waiting)
                self._heredocs.clear()
        yield Token("\n", self.here(), operator=True)

    def double_quoted(self) -> tuple[Part, ...]:
        """The whole text as it would be within double quotes, where quotes are characters."""
        parts: list[Part] = []
        while self.at < len(self.text):
            parts += self._in_double(ordinary='"')
        return tuple(parts)

    def here(self) -> int:
        """The line that was come to."""
        self.line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self.line

    def _skip(self) -> bool:
        while match := _SKIPPED.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _word(self) -> Token:
        start, line = self.at, self.here()
        parts: list[Part] = []
        while self.at < len(self.text):
            before = self.at
            if _ARRAY.fullmatch(self.text, start, self.at) and self.text[self.at] == "(":
                parts += self._array()
            else:
                parts += self._part()
            if self.at == before:
                break
        return Token(self.text[start : self.at], line, tuple(parts))

    def _part(self) -> list[Part]:
        """The next part of a word; nothing, where the word ends."""
        line, character = self.here(), self.text[self.at]
        if match := _PLAIN.match(self.text, self.at):
            self.at = match.end()
            return [Part(Kind.TEXT, match[0], line)]
        if character == "'":
            return [Part(Kind.TEXT, self._until("'", self.at + 1), line)]
        if character == '"':
            return self._double()
        if character == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            return [] if escaped == "\n" and not self._goes_on() else [self._text(escaped, line)]
        if character in "$`" or self.text[self.at : self.at + 2] in ("<(", ">("):
            return self._expansion()
        return []

    def _text(self, escaped: str, line: int) -> Part:
        return Part(Kind.TEXT, "" if escaped == "\n" else escaped, line)

    def _goes_on(self) -> bool:
        following = self.text[self.at : self.at + 1]
        return bool(following) and not following.isspace() and following not in ";&|<>()"

    def _array(self) -> list[Part]:
        """The elements of NAME=(...), with spaces between."""
        self.at += 1
        parts: list[Part] = []
        while True:
            while self._skip() and self.text[self.at] == "\n":
                self.at += 1
            if self.at >= len(self.text):
                raise self._unclosed("(", self.line)
            if self.text[self.at] == ")":
                self.at += 1
                return parts
            before, line = self.at, self.here()
            word = self._word()
            self.at += self.at == before
            parts += [Part(Kind.TEXT, " ", line)] if parts else []
            parts += word.parts

    def _double(self) -> list[Part]:
        line = self.here()
        self.at += 1
        parts: list[Part] = []
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return parts or [Part(Kind.TEXT, "", line)]
            parts += self._in_double()
        raise self._unclosed('"', line)

    def _in_double(self, ordinary: str = "") -> list[Part]:
        line, character = self.here(), self.text[self.at]
        if match := _DOUBLE_PLAIN.match(self.text, self.at):
            self.at = match.end()
            return [Part(Kind.TEXT, match[0], line)]
        if character == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            if escaped == "\n":
                return []
            special = escaped in ("$", "`", '"', "\\")
            return [Part(Kind.TEXT, escaped if special else "\\" + escaped, line)]
        if character == ordinary:
            self.at += 1
            return [Part(Kind.TEXT, character, line)]
        return self._expansion()

    def _expansion(self) -> list[Part]:
        """What starts with `$`, a backquote, or `<(`."""
        line, start = self.here(), self.at
        two = self.text[start : start + 2]
        if match := _REFERENCE.match(self.text, start):
            self.at = match.end()
            return [Part(Kind.REFERENCE, match[0], line)]
        if two == "${":
            self._close("{", "}")
            return [Part(Kind.REFERENCE, self.text[start : self.at], line)]
        if two in ("$(", "<(", ">("):
            self._close("(", ")")
        elif two[0] == "`":
            self._until("`", start + 1)
        elif two == "$'":
            return [Part(Kind.TEXT, self._ansi(), line)]
        elif two == '$"':
            self.at += 1
            return self._double()
        elif two[1:].strip() and two[1] in "0123456789@*#?$!-":
            self.at += 2
        else:
            self.at += 1
            return [Part(Kind.TEXT, "$", line)]
        return [Part(Kind.HOLE, self.text[start : self.at], line)]

    def _ansi(self) -> str:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        body = self.text[self.at + 2 : end]
        self.at = end + 1
        return _ANSI_ESCAPE.sub(_unescaped, body)

    def _close(self, opening: str, closing: str) -> None:
        """Go behind the bracket that closes the one after the next character."""
        line, depth = self.here(), 0
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "'" and opening == "(":
                self._until("'", self.at + 1)
                continue
            if character == '"':
                self._double()
                continue
            self.at += 2 if character == "\\" else 1
            depth += (character == opening) - (character == closing)
            if depth == 0:
                return
        raise self._unclosed(opening, line)

    def _until(self, quote: str, start: int) -> str:
        end = self.text.find(quote, start)
        if end < 0:
            raise self._unclosed(quote, self.here())
        self.at = end + 1
        return self.text[start:end]

    def _take(self, heredoc: Heredoc) -> None:
        """The lines up to the mark; without a mark it was a shift (`<<`), and nothing is taken."""
        if not self._lines:
            starts = accumulate((len(it) + 1 for it in self.text.split("\n")), initial=0)
            rows = zip(self.text.split("\n"), starts, strict=False)
            self._lines = {row.rstrip("\r"): start for row, start in rows}
            for row, start in self._lines.items():
                bare = row.lstrip("\t")
                self._dashed[bare] = max(start, self._dashed.get(bare, -1))
        if (self._dashed if heredoc.dashed else self._lines).get(heredoc.mark, -1) < self.at:
            return
        at, lines = self.at, list[str]()
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end].rstrip("\r")
            line = line.lstrip("\t") if heredoc.dashed else line
            at = min(end + 1, len(self.text))
            if line == heredoc.mark:
                heredoc.start = self.here()
                heredoc.text = "".join(f"{one}\n" for one in lines)
                self.at = at
                return
            lines.append(line)

    def _unclosed(self, quote: str, line: int) -> InputError:
        closing = {"(": ")", "{": "}"}.get(quote, quote)
        what = "bracket" if quote in "({" else "quote"
        return InputError(
            f"{self.where}:{line}: a {what} is opened and not closed",
            next=f"close it with {closing}",
        )


def _unescaped(match: re.Match[str]) -> str:
    """One letter, or bytes that are text together."""
    if match[2] is not None:
        return _ANSI.get(match[2], match[0])
    found = _ANSI_BYTE.findall(match[1])
    values = (int(high, 16) if high else int(octal, 8) & 0xFF for high, octal in found)
    return bytes(values).decode(errors="replace")


def as_tokens(words: Sequence[str], line: int = 0) -> list[Token]:
    """Words that somebody else has split, as one statement."""
    tokens = [Token(word, line, (Part(Kind.TEXT, word, line),)) for word in words]
    return [*tokens, Token("\n", line, operator=True)]


def behind(parts: tuple[Part, ...], count: int) -> list[Part]:
    """The parts behind the first `count` characters, which are plain text."""
    left: list[Part] = []
    for part in parts:
        if part.kind is not Kind.TEXT or count <= 0:
            left.append(part)
            continue
        left += [Part(part.kind, part.text[count:], part.line)] if count < len(part.text) else []
        count -= len(part.text)
    return left
