"""The words of a shell script, expanded from the variables seen so far; nothing is run.

A word is read together with its value: text, `$NAME`, `${NAME:-default}`, arrays; what only a shell
can know is a hole. The text is passed once, so the work grows with it; an unclosed quote or bracket
is the only error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import HOLE, TracedText, either, joined, known, unknown
from counterpoint.flags.settings import FLAG_VARIABLES

OPERATOR: Final = re.compile(r"<<<|<<-?|;;&|;;|;&|&&|&>>?|\|\||\|&|>>|>\||[<>]&|\n|[;&|<>()]")
_SKIPPED: Final = re.compile(r"(?:[ \t]|\\\n)+|(?<=[\s;&|()])#[^\n]*|^#[^\n]*")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?(\+?)=", re.ASCII)
_TILDE: Final = re.compile(r"([A-Za-z_]\w*\+?=(?:[^'\"]*:)?)?~", re.ASCII)
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
_ESCAPED: Final = '$`"\\'
"""Characters that a backslash escapes between double quotes."""
_CAT: Final = re.compile(r"\$\(\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n")
_AFTER_MARK: Final = re.compile(r"[ \t]*\n?\s*\)")
_NOT_FOLLOWED: Final = re.compile(r"\bcase\s|<<(?!<)")


@dataclass(frozen=True, slots=True)
class _Context:
    """The context in which parts are read: `plain` characters are literal, `ends` end it."""

    plain: re.Pattern[str]
    ends: str
    quoted: bool


_WORD: Final = _Context(re.compile(r"[^ \t\n;&|<>()'\"\\$`]+"), " \t\n;&|<>()", quoted=False)
_DOUBLE: Final = _Context(re.compile(r'[^"\\$`]+'), '"', quoted=True)
_DEFAULT: Final = _Context(re.compile(r"[^}'\"\\$`]+"), "}", quoted=False)
_DEFAULT_IN_DOUBLE: Final = _Context(re.compile(r'[^}"\\$`]+'), "}", quoted=True)
_HEREDOC: Final = _Context(re.compile(r"[^\\$`]+"), "", quoted=True)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a word, expanded; `several`: a shell makes words of it."""

    value: TracedText
    quoted: bool = False
    literal: bool = False
    several: tuple[TracedText, ...] | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, with its parts."""

    raw: str
    line: int
    parts: tuple[Part, ...] = ()
    elements: tuple[TracedText, ...] | None = None  # of an array

    @property
    def value(self) -> TracedText:
        return joined(part.value for part in self.parts)

    @property
    def expanded(self) -> tuple[TracedText, ...]:
        """The words that a command gets."""
        if len(self.parts) == 1 and self.parts[0].several is not None:
            return self.parts[0].several
        return (unknown(self.raw, self.line),) if self.braces else (self.value,)

    @property
    def braces(self) -> bool:
        """Return whether a shell makes words of `{a,b}` in it."""
        plain = (part for part in self.parts if part.literal and not part.quoted)
        return any(_BRACES.search(part.value.text) for part in plain)


@dataclass(slots=True)
class ShellWords:
    """A text and the position reached in it."""

    scan: Scan
    source: TracedText
    text: str = ""
    at: int = 0

    def _line(self) -> int:
        return self.source.line_at(self.at) or 0

    def _skip(self) -> bool:
        while match := _SKIPPED.match(self.text, self.at):
            self.at = match.end()
        return self.at < len(self.text)

    def _word(self) -> Word:
        start, line = self.at, self._line()
        if self.text.startswith(("((", "<(", ">("), start):  # `<<` in it is no heredoc
            self._bracket("(", ")")
            raw = self.text[start : self.at]
            return Word(raw, line, (Part(self._hole(start, line)),))
        parts = self.parts(_WORD)
        elements = None
        if self.text.startswith("(", self.at) and ASSIGNMENT.fullmatch(self.text, start, self.at):
            elements = tuple(self._array())
        self.at += self.at == start  # a character that begins no word here
        raw = self.text[start : self.at]
        if raw == "[[":
            self.at = (self.text.find("]]", self.at) + 1 or self.at - 1) + 1
        elif match := _TILDE.match(raw):  # a home directory
            head = len(match[1] or "")
            hole = Part(unknown(raw[head:], line))
            parts = [Part(self.source.cut(start, start + head)), hole] if head else [hole]
        return Word(raw, line, tuple(parts), elements)

    def _array(self) -> Iterator[TracedText]:
        """Read the elements of NAME=(...); of `[key]=value` and file name patterns, none."""
        line = self._line()
        self.at += 1
        while True:
            while self._skip() and self.text[self.at] == "\n":
                self.at += 1
            if self.at >= len(self.text):
                raise self._unclosed("(", line)
            if self.text[self.at] == ")":
                self.at += 1
                return
            word = self._word()
            plain = all(
                part.quoted or not set("*?[{") & set(part.value.text) for part in word.parts
            )
            if plain or len(word.parts) == 1 or word.raw.startswith("-"):
                yield from word.expanded
            else:
                yield unknown(word.raw, word.line)

    def parts(self, context: _Context) -> list[Part]:
        """Read parts up to where the context ends; the text may end first."""
        parts: list[Part] = []
        while self.at < len(self.text):
            start, character = self.at, self.text[self.at]
            if match := context.plain.match(self.text, start):
                self.at = match.end()
                parts.append(Part(self.source.cut(start, self.at), context.quoted, literal=True))
            elif character in context.ends:
                break
            elif character == "\\":
                parts += self._escape(quoted=context.quoted)
            elif character == "'":
                self._until("'", start + 1)
                parts.append(Part(self.source.cut(start + 1, self.at - 1), quoted=True))
            elif character == '"':
                parts += self._double()
            else:
                parts.append(self._expansion(quoted=context.quoted))
        return parts

    def _escape(self, *, quoted: bool) -> list[Part]:
        start = self.at
        escaped = self.text[start + 1 : start + 2]
        self.at += 2
        if escaped == "\n":
            return []
        first = start + 1 if escaped and (escaped in _ESCAPED or not quoted) else start
        return [Part(self.source.cut(first, start + 2), quoted=True)]

    def _double(self) -> list[Part]:
        line = self._line()
        self.at += 1
        parts = self.parts(_DOUBLE)
        if self.at >= len(self.text):
            raise self._unclosed('"', line)
        self.at += 1
        return parts or [Part(TracedText(), quoted=True)]

    def _hole(self, start: int, line: int) -> TracedText:
        return unknown(self.source.shown_between(start, self.at), line)

    def _expansion(self, *, quoted: bool) -> Part:
        """Read what starts with `$` or a backquote."""
        start, line, two = self.at, self._line(), self.text[self.at : self.at + 2]
        if match := _REFERENCE.match(self.text, start):
            return self._reference(match, line, quoted=quoted)
        self.at += 1
        if two[0] == "`":
            self._until("`", self.at)
        elif two == "$(":
            cat = _CAT.match(self.text, start)
            if cat and (printed := self._printed(cat)) is not None:
                return Part(printed, quoted)
            self._bracket("(", ")")
            arithmetic = self.text.startswith("$((", start)
            if not arithmetic and _NOT_FOLLOWED.search(self.text, start, self.at):
                self.scan.leave(line, "a command substitution with `case` or `<<`")
        elif two == "${":
            self._bracket("{", "}")
        elif two == "$'" and not quoted:
            return self._ansi(line, start)
        elif two[1:] and two[1] in "0123456789@*#?$!-_":
            self.at += 1
        else:
            return Part(self.source.cut(start, self.at), quoted)
        return Part(self._hole(start, line), quoted)

    def _reference(self, match: re.Match[str], line: int, *, quoted: bool) -> Part:
        """Read `$NAME`, `${NAME}`, or `${NAME:-default}` with its value."""
        name, index, operator = match[1] or match[2], match[3] or "", match[4] or ""
        self.at = match.end()
        operand = TracedText()
        if match[2]:
            inner = self.parts(_DEFAULT_IN_DOUBLE if quoted else _DEFAULT)
            if self.at >= len(self.text):
                raise self._unclosed("{", line)
            operand = joined(part.value for part in inner)
            self.at += 1
        shown = self.source.shown_between(match.start(), self.at)
        array = self.scan.arrays.get(name) if index else None
        if array is not None and index == "[@]" and quoted:
            return Part(joined(array, " "), quoted, several=tuple(array))
        if array is not None and "IFS" not in self.scan.values:
            value = joined(array, " ")
        else:
            value = self.scan.values.get(name) if array is None else None
        value = self._substituted(name, value, operator, operand, unknown(shown, line))
        self.scan.budget.spend(value, line)
        if quoted or operator:
            return Part(value, quoted)
        words = [value.cut(*word.span()) for word in re.finditer(r"\S+", value.text)]
        return Part(value, quoted, several=tuple(words))

    def _substituted(
        self,
        name: str,
        value: TracedText | None,
        operator: str,
        operand: TracedText,
        hole: TracedText,
    ) -> TracedText:
        line = hole.line
        if value is None:
            return self._unset_value(name, operator[-1:], operand, hole)
        sure = value.known or value.text.strip(HOLE + " ")
        if not operator or operator == "?" or not sure:
            return hole if operator.endswith("+") else value
        empty = operator.startswith(":") and not value.text
        if empty == operator.endswith("+"):
            return TracedText() if empty else value
        operand = operand.as_default() if value.default else operand
        operand = operand.within(next((it.branch for it in value.pieces if it.branch), ()))
        if operator.endswith("="):
            self.scan.values[name] = self.scan.budget.spend(operand, line)
        return operand

    def _unset_value(
        self, name: str, operator: str, operand: TracedText, hole: TracedText
    ) -> TracedText:
        """Return an unset variable's value; flags that it inherits are checked elsewhere."""
        flags = name in FLAG_VARIABLES
        before = self.scan.inherited(name, hole.line)
        if self.scan.certain and not flags:
            return hole
        if operator not in ("-", "=", "+"):
            return before if flags else hole
        if operator == "+":  # `${XLA_FLAGS:+$XLA_FLAGS }`, often with the blank behind it
            return before + operand.cut(len(operand.text.rstrip()))
        operand = operand if self.scan.whole else operand.as_default()
        if operator == "=":
            self.scan.values[name] = operand
        return either(before, operand)

    def _ansi(self, line: int, start: int) -> Part:
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
            return Part(unknown(match[0], line), quoted=True)
        return Part(known(text, line), quoted=True)

    def _bracket(self, opening: str, closing: str) -> None:
        """Move past the bracket that closes the one here."""
        line, depth = self._line(), 0
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

    def _until(self, quote: str, start: int) -> None:
        end = self.text.find(quote, start)
        if end < 0:
            raise self._unclosed(quote, self._line())
        self.at = end + 1

    def _unclosed(self, quote: str, line: int) -> InputError:
        what = "bracket" if quote in "({" else "quote"
        closing = {"(": ")", "{": "}"}.get(quote, quote)
        place = f"{self.scan.where}:{line}" if line else self.scan.where
        return InputError(f"{place}: unclosed {what}", next=f"close it with {closing}")

    def _expanded(self, body: TracedText) -> TracedText:
        """Return the text of a heredoc as a shell passes it on."""
        inner = ShellWords(self.scan, body, body.text)
        return joined(part.value for part in inner.parts(_HEREDOC))

    def _printed(self, match: re.Match[str]) -> TracedText | None:
        """Read `$(cat <<EOF ...)`, whose value is the text of the heredoc."""
        start, end = match.end(), self.text.find(f"\n{match[2]}", match.end() - 1)
        self.scan.budget.spend_on((len(self.text) - start) // 64, self._line())
        after = _AFTER_MARK.match(self.text, end + 1 + len(match[2]))
        if end < 0 or after is None:
            return None
        self.at = after.end()
        body = self.source.cut(start, end)
        return body if match[1] else self._expanded(body)
