"""What a word of a shell script comes to, under the variables that the script itself has set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from counterpoint.flags.sources.shell_arithmetic import work_out
from counterpoint.flags.sources.shell_lexer import Kind, Lexer, Part, Token
from counterpoint.flags.sources.traced import (
    Budget,
    Piece,
    Traced,
    inherited,
    joined,
    known,
    unknown,
)
from counterpoint.flags.sources.variables import FLAGS, is_setting

_BRACED: Final = re.compile(
    r"\$\{([A-Za-z_]\w*|[0-9]+|[@*])(?:\[[@*]\])?(?:(:?[-=+?])(.*))?\}", re.DOTALL
)

_ELEMENTS: Final = re.compile(r'"?\$\{([A-Za-z_]\w*)\[[@*]\]\}"?')
_BARE: Final = re.compile(r"\$(?:\w+|\{\w+\})")
_ARGUMENT: Final = re.compile(r"\$[0-9@*]")


@dataclass(slots=True)
class Values:
    """Variables, and the references for which a default was taken.

    A function's arguments are among the variables, under their numbers. `strict`: what another
    environment may have set is not known, even where there is a default for it. `whole`: what is
    not among the variables is not set, either.
    """

    where: str
    known: dict[str, Traced] = field(default_factory=dict[str, Traced])
    defaults: dict[str, int] = field(default_factory=dict[str, int])
    strict: bool = False
    whole: bool = False
    budget: Budget | None = None

    def expand(self, parts: Iterable[Part]) -> Traced:
        """The value of a word."""
        values = [self._part(part) for part in parts]
        return self.spend(values[0] if len(values) == 1 else joined(values))

    def spend(self, value: Traced, line: int | None = None) -> Traced:
        """The value, if what the script puts together is not too much."""
        self.spend_on(value.size, line or value.line)
        return value

    def spend_on(self, work: int, line: int | None) -> None:
        self.budget = self.budget or Budget(self.where)
        self.budget.spend_on(work, line)

    def words(self, word: Token) -> list[Traced]:
        """What a word of a command becomes: elements of an array, and `$NAME` without quotes."""
        if match := _ELEMENTS.fullmatch(word.text):
            value = self.known.get(match[1])
            return [self.expand(word.parts)] if value is None else _elements(value)
        value = self.expand(word.parts)
        if not _BARE.fullmatch(word.text):
            return [value]
        return [value.cut(*found.span()) for found in re.finditer(r"\S+", value.text)]

    def _part(self, part: Part) -> Traced:
        if part.kind is Kind.TEXT:
            return known(part.text, part.line)
        if part.text.startswith("$((") and part.text.endswith("))"):
            return self._number(part)
        name, operator, operand = _reference(part)
        value = self.known.get(name)
        if value is None and self.strict and name not in FLAGS:
            operator = ""
        before = self._inherited(name, part.line) if value is None else Traced()
        if operator.endswith("+"):
            return self._operand(operand, part.line) if value else before
        if value is not None and (value.text or not operator.startswith(":")):
            return value
        if operator.endswith(("-", "=")):
            return before + self._default(name, operator, operand, part.line)
        return before if name in FLAGS else unknown(part.text, part.line)

    def _inherited(self, name: str, line: int) -> Traced:
        """What the script inherits stands before its own flags, and is checked where it is set."""
        return inherited(name, line) if name in FLAGS and not self.whole else Traced()

    def _number(self, part: Part) -> Traced:
        number = work_out(part.text[3:-2], self._plain)
        return unknown(part.text, part.line) if number is None else known(str(number), part.line)

    def _plain(self, name: str) -> str | None:
        """A variable's text, where all of it is known."""
        value = self.known.get(name)
        return value.text if value is not None and value.known else None

    def _default(self, name: str, operator: str, operand: str, line: int) -> Traced:
        value = self._operand(operand, line)
        if value.text and (is_setting(name) or "--xla" in value.text):
            self.defaults.setdefault(name, line)
        if operator.endswith("="):
            self.known[name] = value
        return value

    def _operand(self, text: str, line: int) -> Traced:
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        return self.expand(Lexer(text, self.where, line).double_quoted())


def _elements(array: Traced) -> list[Traced]:
    """Elements of an array, between which the lexer has put a piece that is one space."""
    found: list[list[Piece]] = [[]]
    for piece in array.pieces:
        if piece.known and piece.text == " ":
            found.append([])
        else:
            found[-1].append(piece)
    return [Traced(tuple(pieces)) for pieces in found if pieces]


def _reference(part: Part) -> tuple[str, str, str]:
    """Name, operator and operand; no name where the form is another one."""
    if part.kind is Kind.HOLE:
        return (part.text[1:], "", "") if _ARGUMENT.fullmatch(part.text) else ("", "", "")
    if match := _BRACED.fullmatch(part.text):
        return match[1], match[2] or "", match[3] or ""
    return ("", "", "") if part.text.startswith("${") else (part.text[1:], "", "")
