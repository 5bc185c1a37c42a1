"""The words and operators of a shell script, with lines; nothing is run or expanded.

A word is a sequence of parts: plain text, a reference to a variable, or something only a shell can
know (a hole). Only what is certain is text: an unknown syntax is a hole. The lexer takes one pass,
so its work grows with the text; an unclosed quote or bracket is its only error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from counterpoint.core import InputError

_OPERATOR: Final = re.compile(r"<<<|<<-?|;;&|;;|;&|&&|&>>?|\|\||\|&|>>|>\||[<>]&|\n|[;&|<>()]")
_SKIPPED: Final = re.compile(r"(?:[ \t]|\\\n)+|(?<=[\s;&|()])#[^\n]*|^#[^\n]*")
_PLAIN: Final = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
_DOUBLE_PLAIN: Final = re.compile(r'[^"$`\\]+')
_REFERENCE: Final = re.compile(r"\$([A-Za-z_]\w*)", re.ASCII)
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_TILDE: Final = re.compile(r"(?:[A-Za-z_]\w*\+?=(?:.*:)?)?~", re.ASCII)
_NOT_FOLLOWED: Final = re.compile(r"\bcase\s|<<(?!<)")
_BRACES: Final = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ANSI: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_ANSI_ESCAPE: Final = re.compile(r"((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}))+)|\\(.)", re.DOTALL)
_ANSI_BYTE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]+))")


class PartKind(Enum):
    """The kind of a part of a word."""

    TEXT = auto()
    REFERENCE = auto()  # $NAME, ${NAME}, ${NAME:-default}
    HOLE = auto()  # a command, arithmetic, $1
    ELEMENT = auto()  # the end of an array element


@dataclass(frozen=True, slots=True)
class WordPart:
    """A part of a word, as text or, if it is to be expanded, as source."""

    kind: PartKind
    text: str
    line: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    """A word with its parts, or an operator without; `body` is the text of heredocs before it."""

    text: str
    line: int
    parts: tuple[WordPart, ...] = ()
    operator: bool = False
    body: str = ""

    def behind(self, count: int) -> list[WordPart]:
        """Return the parts after the first `count` characters, which are plain text."""
        left: list[WordPart] = []
        for part in self.parts:
            if part.kind is not PartKind.TEXT or count <= 0:
                left.append(part)
                continue
            if count < len(part.text):
                left.append(WordPart(part.kind, part.text[count:], part.line, part.quoted))
            count -= len(part.text)
        return left


def as_tokens(words: Sequence[str], line: int = 0) -> list[Token]:
    """Return words that are already split, as one statement."""
    tokens = [
        Token(word, line, (WordPart(PartKind.TEXT, word, line, quoted=True),)) for word in words
    ]
    return [*tokens, Token("\n", line, operator=True)]


@dataclass(slots=True)
class Lexer:
    """A text and the position reached; `line` is where it begins in its file."""

    text: str
    where: str
    line: int = 1
    at: int = 0
    odd: list[int] = field(default_factory=list[int])
    """Lines of commands in brackets whose end is uncertain."""
    _marks: list[tuple[str, bool, int]] = field(default_factory=list[tuple[str, bool, int]])
    _counted: int = 0

    def tokens(self) -> Iterator[Token]:
        """Yield all tokens; the text of a heredoc comes with the newline before it."""
        while self._skip():
            line = self._here()
            if self.text.startswith("((", self.at):  # arithmetic: `<<` in it is no heredoc
                start = self.at
                self._close("(", ")", start)
                yield Token(self.text[start : self.at], line, ())
                continue
            match = _OPERATOR.match(self.text, self.at)
            if not match or (match[0] in "<>" and self.text[match.end() : match.end() + 1] == "("):
                word = self._word()
                if not (word.text.isdecimal() and self.text[self.at : self.at + 1] in ("<", ">")):
                    yield word
                continue
            self.at = match.end()
            if match[0] in ("<<", "<<-") and self._skip():
                mark = self._word()
                text = "".join(part.text for part in mark.parts)
                self._marks.append((text, match[0] == "<<-", line))
                continue
            yield Token(match[0], line, operator=True, body=self._heredocs(match[0]))
        yield Token("\n", self._here(), operator=True)

    def operand(self) -> tuple[WordPart, ...]:
        """Return the parts of the whole text as if within double quotes."""
        parts: list[WordPart] = []
        while self.at < len(self.text):
            parts += self._in_double(ordinary='"')
        return tuple(parts)

    def _here(self) -> int:
        """Return the current line."""
        self.line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self.line

    def _skip(self) -> bool:
        while match := _SKIPPED.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _heredocs(self, operator: str) -> str:
        """Return the heredocs of a line that ends here; an unterminated one extends to the end."""
        if operator != "\n" or not self._marks:
            return ""
        start = self.at
        for mark, dashed, _ in self._marks:
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if (row.lstrip("\t") if dashed else row) == mark:
                    break
        self._marks.clear()
        return self.text[start : self.at]

    def _word(self) -> Token:
        start, line = self.at, self._here()
        parts: list[WordPart] = []
        while self.at < len(self.text):
            before = self.at
            if self.text[self.at] == "(" and _ARRAY.fullmatch(self.text, start, self.at):
                parts += self._array()
            else:
                parts += self._part()
            if self.at == before:
                break
        self.at += self.at == start  # a character that begins no word here
        text = self.text[start : self.at]
        if _TILDE.match(text) and parts and not parts[0].quoted:  # a home directory
            shown = text.partition("=")[2] or text
            head = text[: len(text) - len(shown)]
            parts = [WordPart(PartKind.TEXT, head, line)] if head else []
            parts.append(WordPart(PartKind.HOLE, shown, line))
        return Token(text, line, tuple(parts))

    def _part(self) -> list[WordPart]:
        """Return the next part of a word; empty at the word's end."""
        line, character = self._here(), self.text[self.at]
        if match := _PLAIN.match(self.text, self.at):
            self.at = match.end()
            return [WordPart(PartKind.TEXT, match[0], line)]
        if character == "'":
            return [WordPart(PartKind.TEXT, self._until("'", self.at + 1), line, quoted=True)]
        if character == '"':
            return self._double()
        if character == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            return (
                []
                if escaped == "\n"
                else [WordPart(PartKind.TEXT, escaped or "\\", line, quoted=True)]
            )
        if character in "$`" or self.text[self.at : self.at + 2] in ("<(", ">("):
            return self._expansion(quoted=False)
        return []

    def _array(self) -> list[WordPart]:
        """Return the elements of NAME=(...), with the end of each."""
        opened = self._here()
        self.at += 1
        parts: list[WordPart] = []
        while True:
            while self._skip() and self.text[self.at] == "\n":
                self.at += 1
            if self.at >= len(self.text):
                raise self._unclosed("(", opened)
            if self.text[self.at] == ")":
                self.at += 1
                return parts or [WordPart(PartKind.ELEMENT, "", opened)]
            word = self._word()
            plain = all(part.quoted or not set("*?[{~=") & set(part.text) for part in word.parts)
            if len(word.parts) == 1 or plain or word.text.startswith("-"):
                parts += word.parts
            else:  # [key]=value, or a file name pattern
                parts.append(WordPart(PartKind.HOLE, word.text, word.line))
            parts.append(WordPart(PartKind.ELEMENT, "", word.line))

    def _double(self) -> list[WordPart]:
        line = self._here()
        self.at += 1
        parts: list[WordPart] = []
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                return parts or [WordPart(PartKind.TEXT, "", line, quoted=True)]
            parts += self._in_double()
        raise self._unclosed('"', line)

    def _in_double(self, ordinary: str = "") -> list[WordPart]:
        line, character = self._here(), self.text[self.at]
        if match := _DOUBLE_PLAIN.match(self.text, self.at):
            self.at = match.end()
            return [WordPart(PartKind.TEXT, match[0], line, quoted=True)]
        if character == "\\":
            escaped = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            if escaped == "\n":
                return []
            special = escaped in ("$", "`", '"', "\\")
            return [
                WordPart(PartKind.TEXT, escaped if special else "\\" + escaped, line, quoted=True)
            ]
        if character == ordinary:
            self.at += 1
            return [WordPart(PartKind.TEXT, character, line, quoted=True)]
        return self._expansion(quoted=True)

    def _expansion(self, *, quoted: bool) -> list[WordPart]:
        """Read what starts with `$`, a backquote, or `<(`."""
        line, start = self._here(), self.at
        two = self.text[start : start + 2]
        if match := _REFERENCE.match(self.text, start):
            self.at = match.end()
            return [WordPart(PartKind.REFERENCE, match[0], line, quoted)]
        if two == "${":
            self._close("{", "}", start + 1, quotes=not quoted)
            return [WordPart(PartKind.REFERENCE, self.text[start : self.at], line, quoted)]
        if two in ("$(", "<(", ">("):
            self._close("(", ")", start + 1)
            arithmetic = self.text.startswith("$((", start)
            if not arithmetic and _NOT_FOLLOWED.search(self.text, start, self.at):
                self.odd.append(line)
        elif two[0] == "`":
            self._until("`", start + 1)
        elif two == "$'" and not quoted:
            return [self._ansi(line)]
        elif two == '$"' and not quoted:
            self.at += 1
            return self._double()
        elif two[1:] and two[1] in "0123456789@*#?$!-_":
            self.at += 2
        else:
            self.at += 1
            return [WordPart(PartKind.TEXT, "$", line, quoted)]
        return [WordPart(PartKind.HOLE, self.text[start : self.at], line, quoted)]

    def _ansi(self, line: int) -> WordPart:
        start = self.at
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise self._unclosed("'", line)
        self.at = end + 1
        try:
            text = _ANSI_ESCAPE.sub(_unescaped, self.text[start + 2 : end])
        except (KeyError, UnicodeDecodeError):
            text = "\0"
        kind = PartKind.HOLE if "\0" in text else PartKind.TEXT
        return WordPart(
            kind, self.text[start : self.at] if "\0" in text else text, line, quoted=True
        )

    def _close(self, opening: str, closing: str, start: int, *, quotes: bool = True) -> None:
        """Move past the bracket that closes the one at `start`."""
        line, depth = self._here(), 0
        self.at = start
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "'" and quotes:
                self._until("'", self.at + 1)
                continue
            if (
                character == "#"
                and opening == "("
                and (match := _SKIPPED.match(self.text, self.at))
            ):
                self.at = match.end()
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
            raise self._unclosed(quote, self._here())
        self.at = end + 1
        return self.text[start:end]

    def _unclosed(self, quote: str, line: int) -> InputError:
        closing = {"(": ")", "{": "}"}.get(quote, quote)
        what = "bracket" if quote in "({" else "quote"
        return InputError(
            f"{self.where}:{line}: unclosed {what}",
            next=f"close it with {closing}",
        )


def has_braces(word: Token) -> bool:
    """Return whether a command gets several words from this one: unquoted `{a,b}`."""
    return any(not part.quoted and _BRACES.search(part.text) for part in word.parts)


def _unescaped(match: re.Match[str]) -> str:
    """Decode one letter, or consecutive bytes; KeyError for an unknown escape."""
    if match[2] is not None:
        return _ANSI[match[2]]
    found = _ANSI_BYTE.findall(match[1])
    values = (int(high, 16) if high else int(octal, 8) & 0xFF for high, octal in found)
    return bytes(values).decode()
