"""The words and operators of a shell script, with lines; nothing is run or expanded.

A word is a sequence of parts: text, a reference to a variable, an array, or a hole, which only a
shell can fill: an unknown syntax is a hole. The lexer takes one pass, so its work grows with the
text; an unclosed quote or bracket is its only error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.frozen import frozen

_OPERATOR: Final = re.compile(r"<<<|<<-?|;;&|;;|;&|&&|&>>?|\|\||\|&|>>|>\||[<>]&|\n|[;&|<>()]")
_REDIRECTIONS: Final = (">", ">>", ">|", "&>", "&>>", "<", "<<<", "<&", ">&")
_SKIPPED: Final = re.compile(r"(?:[ \t]|\\\n)+|(?<=[\s;&|()])#[^\n]*|^#[^\n]*")
_ARRAY: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_TILDE: Final = re.compile(r"([A-Za-z_]\w*\+?=(?:.*:)?)?~", re.ASCII)
_BRACES: Final = re.compile(r"\{(?=[^{}]*(?:,|\.\.))[^{}]*+\}")
_REFERENCE: Final = re.compile(
    r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=+?])|(?=\})))", re.ASCII
)
_ANSI: Final = re.compile(
    r"\$'((?:[^'\\]|\\[ntr\\'\"]|\\x[0-9a-fA-F]{1,2}|\\(?:[0-3][0-7]{2}|[0-7]{1,2}(?![0-7])))*)'"
    r"|\$'(?:[^'\\]|\\.)*'",
    re.DOTALL,
)
"""`$'...'`; the content is matched if all its escapes are known."""
_ONE_DIGIT: Final = re.compile(r"(\\[^x])|\\x([0-9a-fA-F])(?![0-9a-fA-F])", re.DOTALL)
"""`\\xa`, which Python writes as `\\x0a`; or another escape, such as the `\\\\` in `\\\\xa`."""
_IN_BRACKETS: Final = re.compile(r"[^(){}'\"\\`#]+")
_NOT_FOLLOWED: Final = re.compile(r"\bcase\s|<<(?!<)")
_ESCAPED: Final = '$`"\\'
"""Characters that a backslash escapes between double quotes."""


@frozen
class _Context:
    """The context in which parts are read: `plain` characters are literal, `ends` end it."""

    plain: re.Pattern[str]
    ends: str
    quoted: bool


_WORD: Final = _Context(re.compile(r"[^ \t\n;&|<>()'\"\\$`]+"), " \t\n;&|<>()", quoted=False)
_DOUBLE: Final = _Context(re.compile(r'[^"\\$`]+'), '"', quoted=True)
_DEFAULT: Final = _Context(re.compile(r"[^}'\"\\$`]+"), "}", quoted=False)
_DEFAULT_IN_DOUBLE: Final = _Context(re.compile(r'[^}"\\$`]+'), "}", quoted=True)


class PartKind(Enum):
    """The kind of a part of a word."""

    TEXT = auto()
    REFERENCE = auto()  # $NAME, ${NAME}, ${NAME:-default}
    ARRAY = auto()
    HOLE = auto()  # a command, arithmetic, $1


@frozen
class WordPart:
    """A part of a word, as text or, if it is to be expanded, as source.

    A reference has a name, `[@]` as `index`, an operator such as `:-`, and its operand in `inner`;
    an array has its elements there, each as a part of kind ARRAY.
    """

    text: str
    line: int
    kind: PartKind = PartKind.TEXT
    quoted: bool = False
    name: str = ""
    index: str = ""
    operator: str = ""
    inner: tuple[WordPart, ...] = ()


@frozen
class Token:
    """A word with its parts, or an operator without."""

    text: str
    line: int
    parts: tuple[WordPart, ...] = ()
    operator: bool = False

    def after(self, count: int) -> tuple[WordPart, ...]:
        """Return the parts after the first `count` characters, which are one plain text."""
        first = replace(self.parts[0], text=self.parts[0].text[count:])
        return (first, *self.parts[1:]) if first.text else self.parts[1:]


def as_tokens(words: Sequence[str], line: int = 0) -> list[Token]:
    """Return words that are already split, as one statement."""
    tokens = [Token(word, line, (WordPart(word, line, quoted=True),)) for word in words]
    return [*tokens, Token("\n", line, operator=True)]


@dataclass(slots=True)
class Lexer:
    """A text and the position reached; `line` is where it begins in its file."""

    text: str
    where: str
    line: int = 1
    at: int = 0
    heredocs: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    uncertain: list[int] = field(default_factory=list[int])
    """Lines of commands in brackets whose end is uncertain."""
    _marks: list[tuple[str, bool, int]] = field(default_factory=list[tuple[str, bool, int]])
    _counted: int = 0

    def tokens(self) -> Iterator[Token]:
        """Yield words and operators, without redirections; the text of heredocs is kept apart."""
        while self._skip():
            start, line = self.at, self._here()
            if self.text[start : start + 2] in ("((", "<(", ">("):  # `<<` in it is no heredoc
                self._close("(", ")")
                text = self.text[start : self.at]
                yield Token(text, line, (WordPart(text, line, PartKind.HOLE),))
                continue
            match = _OPERATOR.match(self.text, start)
            if match is None:
                word = self._word()
                if word.text == "[[":
                    self.at = (self.text.find("]]", self.at) + 1 or self.at - 1) + 1
                if not (word.text.isdecimal() and self.text[self.at : self.at + 1] in ("<", ">")):
                    yield word
                continue
            self.at = match.end()
            if match[0] in ("<<", "<<-") and self._skip():
                mark = "".join(part.text for part in self._word().parts)
                self._marks.append((mark, match[0] == "<<-", line))
            elif match[0] not in _REDIRECTIONS:
                yield Token(match[0], line, operator=True)
                self._read_heredocs(match[0])
            elif self._skip() and not _OPERATOR.match(self.text, self.at):
                self._word()
        yield Token("\n", self._here(), operator=True)

    def _here(self) -> int:
        """Return the current line."""
        self.line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self.line

    def _skip(self) -> bool:
        while match := _SKIPPED.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _read_heredocs(self, operator: str) -> None:
        """Read the heredocs of a line that ends here; an unterminated one extends to the end."""
        if operator != "\n":
            return
        for mark, dashed, line in self._marks:
            start = self.at
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                if (row.lstrip("\t") if dashed else row) == mark:
                    break
            self.heredocs.append((line, self.text[start : self.at]))
        self._marks.clear()

    def _word(self) -> Token:
        start, line = self.at, self._here()
        parts = self._parts(_WORD)
        if self.text.startswith("(", self.at) and _ARRAY.fullmatch(self.text, start, self.at):
            parts.append(self._array())
        self.at += self.at == start  # a character that begins no word here
        text = self.text[start : self.at]
        if parts and not parts[0].quoted and (match := _TILDE.match(text)):  # a home directory
            head = match[1] or ""
            parts = [WordPart(text[len(head) :], line, PartKind.HOLE)]
            parts[:0] = [WordPart(head, line)] if head else []
        return Token(text, line, tuple(parts))

    def _array(self) -> WordPart:
        """Read the elements of NAME=(...); of `[key]=value` and file name patterns, none."""
        start, line = self.at, self._here()
        self.at += 1
        elements: list[WordPart] = []
        while True:
            while self._skip() and self.text[self.at] == "\n":
                self.at += 1
            if self.at >= len(self.text):
                raise self._unclosed("(", line)
            if self.text[self.at] == ")":
                self.at += 1
                text = self.text[start : self.at]
                return WordPart(text, line, PartKind.ARRAY, inner=tuple(elements))
            word = self._word()
            plain = all(part.quoted or not set("*?[{") & set(part.text) for part in word.parts)
            simple = plain or len(word.parts) == 1 or word.text.startswith("-")
            inner = word.parts if simple else (WordPart(word.text, word.line, PartKind.HOLE),)
            elements.append(WordPart(word.text, word.line, PartKind.ARRAY, inner=inner))

    def _parts(self, context: _Context) -> list[WordPart]:
        """Read parts up to where the context ends; the text may end first."""
        parts: list[WordPart] = []
        while self.at < len(self.text):
            line, character = self._here(), self.text[self.at]
            if match := context.plain.match(self.text, self.at):
                self.at = match.end()
                braces = context is _WORD and _BRACES.search(match[0])
                kind = PartKind.HOLE if braces else PartKind.TEXT
                parts.append(WordPart(match[0], line, kind, context.quoted))
            elif character in context.ends:
                break
            elif character == "\\":
                parts += self._escape(line, quoted=context.quoted)
            elif character == "'":
                parts.append(WordPart(self._until("'", self.at + 1), line, quoted=True))
            elif character == '"':
                parts += self._double()
            else:
                parts.append(self._expansion(line, quoted=context.quoted))
        return parts

    def _escape(self, line: int, *, quoted: bool) -> list[WordPart]:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped == "\n":
            return []
        bare = escaped if escaped in _ESCAPED or not quoted else "\\" + escaped
        return [WordPart(bare or "\\", line, quoted=True)]

    def _double(self) -> list[WordPart]:
        line = self._here()
        self.at += 1
        parts = self._parts(_DOUBLE)
        if self.at >= len(self.text):
            raise self._unclosed('"', line)
        self.at += 1
        return parts or [WordPart("", line, quoted=True)]

    def _expansion(self, line: int, *, quoted: bool) -> WordPart:
        """Read what starts with `$` or a backquote."""
        start, two = self.at, self.text[self.at : self.at + 2]
        if match := _REFERENCE.match(self.text, start):
            return self._reference(match, line, quoted=quoted)
        self.at += 1
        if two[0] == "`":
            self._until("`", self.at)
        elif two == "$(":
            self._close("(", ")")
            arithmetic = self.text.startswith("$((", start)
            if not arithmetic and _NOT_FOLLOWED.search(self.text, start, self.at):
                self.uncertain.append(line)
        elif two == "${":
            self._close("{", "}")
        elif two == "$'" and not quoted:
            return self._ansi(line, start)
        elif two[1:] and two[1] in "0123456789@*#?$!-_":
            self.at += 1
        else:
            return WordPart("$", line, quoted=quoted)
        return WordPart(self.text[start : self.at], line, PartKind.HOLE, quoted)

    def _reference(self, match: re.Match[str], line: int, *, quoted: bool) -> WordPart:
        """Read `$NAME`, `${NAME}`, or `${NAME:-default}` with its parts."""
        self.at = match.end()
        inner: list[WordPart] = []
        if match[2]:
            inner = self._parts(_DEFAULT_IN_DOUBLE if quoted else _DEFAULT)
            if self.at >= len(self.text):
                raise self._unclosed("{", line)
            self.at += 1
        return WordPart(
            self.text[match.start() : self.at],
            line,
            PartKind.REFERENCE,
            quoted,
            name=match[1] or match[2],
            index=match[3] or "",
            operator=match[4] or "",
            inner=tuple(inner),
        )

    def _ansi(self, line: int, start: int) -> WordPart:
        match = _ANSI.match(self.text, start)
        if match is None:
            raise self._unclosed("'", line)
        self.at = match.end()
        try:
            plain = _ONE_DIGIT.sub(lambda it: it[1] or f"\\x0{it[2]}", match[1] or "")
            text = plain.encode().decode("unicode_escape").encode("latin-1").decode()
        except UnicodeDecodeError:
            text = "\0"
        if match[1] is None or "\0" in text:
            return WordPart(match[0], line, PartKind.HOLE, quoted=True)
        return WordPart(text, line, quoted=True)

    def _close(self, opening: str, closing: str) -> None:
        """Move past the bracket that closes the one here."""
        line, depth = self._here(), 0
        while self.at < len(self.text):
            if match := _IN_BRACKETS.match(self.text, self.at):
                self.at = match.end()
                continue
            character = self.text[self.at]
            comment = _SKIPPED.match(self.text, self.at) if character == "#" else None
            if character == "'":
                self._until("'", self.at + 1)
            elif character == '"':
                self._double()
            elif comment and opening == "(":
                self.at = comment.end()
            else:
                self.at += 2 if character == "\\" else 1
                depth += (character == opening) - (character == closing)
                if depth == 0 and character == closing:
                    return
        raise self._unclosed(opening, line)

    def _until(self, quote: str, start: int) -> str:
        end = self.text.find(quote, start)
        if end < 0:
            raise self._unclosed(quote, self._here())
        self.at = end + 1
        return self.text[start:end]

    def _unclosed(self, quote: str, line: int) -> InputError:
        what = "bracket" if quote in "({" else "quote"
        closing = {"(": ")", "{": "}"}.get(quote, quote)
        return InputError(f"{self.where}:{line}: unclosed {what}", next=f"close it with {closing}")
