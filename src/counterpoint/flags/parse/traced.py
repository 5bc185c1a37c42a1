"""Traced text: a value whose pieces record their lines, and whether they are known.

A value is assembled from pieces on several lines of a source, so that the line of a flag in the
middle can be found. What can't be known (a command's output, a variable from elsewhere) is a hole:
one character HOLE in `text`, while `shown` has it as written. Flags that a program inherits precede
its own and are read where they are set: here they are an empty piece.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.parsed import Branch, Location

_WORDS: Final = re.compile(r"(\s*)(\S+|$)")
_LINE_END: Final = re.compile(r"\n")
_MOST: Final = 1_000_000  # pieces, or sixteen characters each: hundreds of appended flags
_MISSED: Final = 100  # after so many words not found in the source, the rest aren't searched for
HOLE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands in `text` for what can't be known."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a value that begins on one line; for a hole, `text` is its source."""

    text: str
    line: int | None
    known: bool = True
    where: str | None = None  # if it differs from the name of the whole source
    inherits: str = ""  # the variable whose earlier value belongs here, without a text
    branch: Branch = ()  # the block that it was written in, which may not run
    default: bool = False  # what applies if a variable is not set


@dataclass(frozen=True, slots=True)
class TracedText:
    """A value in pieces."""

    pieces: tuple[Piece, ...] = ()
    text: str = field(init=False)
    _starts: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        parts = [piece.text if piece.known else HOLE for piece in self.pieces]
        starts, at = list[int](), 0
        for part in parts:
            starts.append(at)
            at += len(part)
        object.__setattr__(self, "text", "".join(parts))
        object.__setattr__(self, "_starts", tuple(starts))

    def __add__(self, other: TracedText) -> TracedText:
        return TracedText(self.pieces + other.pieces)

    @property
    def known(self) -> bool:
        return all(piece.known for piece in self.pieces)

    @property
    def inherits(self) -> Iterator[tuple[str, int | None]]:
        """Yield the variables whose earlier values are part of it, each with its line."""
        yield from ((piece.inherits, piece.line) for piece in self.pieces if piece.inherits)

    def inherited_at(self, at: int) -> str:
        """Return the variable whose earlier value ends at a character, or nothing."""
        ends = (
            piece.inherits
            for piece, start in zip(self.pieces, self._starts, strict=True)
            if start == at
        )
        return next(filter(None, ends), "")

    @property
    def default(self) -> bool:
        return any(piece.default for piece in self.pieces)

    def within(self, branch: Branch) -> TracedText:
        """Return the value as it is set in a branch; parts of other branches stay in theirs."""
        if not branch:
            return self
        return TracedText(
            tuple(piece if piece.branch else replace(piece, branch=branch) for piece in self.pieces)
        )

    def as_default(self) -> TracedText:
        """Return the value as what applies if nothing else is set."""
        return TracedText(tuple(replace(piece, default=True) for piece in self.pieces))

    def pieces_between(self, at: int, end: int) -> tuple[Piece, ...]:
        """Return the pieces that a part of `text` is made of."""
        first, last = bisect_right(self._starts, at) - 1, bisect_left(self._starts, end)
        return self.pieces[max(first, 0) : last]

    @property
    def size(self) -> int:
        """The work of assembling it, in units of a Budget."""
        return len(self.pieces) + len(self.text) // 16

    @property
    def shown(self) -> str:
        """The text with holes as they were written."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def line(self) -> int | None:
        """The line where it begins."""
        return next((piece.line for piece in self.pieces if piece.text), None)

    def line_at(self, at: int) -> int | None:
        """Return the line of a character of `text`."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return None
        piece = self.pieces[index]
        if piece.line is None or not piece.known:
            return piece.line
        return piece.line + bisect_left(_line_ends(piece.text), at - self._starts[index])

    def place_at(self, at: int, where: str) -> Location:
        """Return the place of a character; `where` is the name of the source."""
        index = max(bisect_right(self._starts, at) - 1, 0)
        inner = self.pieces[index].where if self.pieces else None
        return Location(inner or where, self.line_at(at))

    def shown_between(self, at: int, end: int) -> str:
        """Return a part of `text` with holes as they were written."""
        text, holes = self.text[at:end], self._holes(at, end)
        for hole in holes:
            text = text.replace(HOLE, hole, 1)
        return text

    def cut(self, start: int, end: int | None = None) -> TracedText:
        """Return a part of the value, with its lines."""
        pieces: list[Piece] = []
        end = len(self.text) if end is None else end
        first, last = bisect_left(self._starts, start), bisect_right(self._starts, end)
        for index in range(max(first - 1, 0), last):
            piece, at = self.pieces[index], self._starts[index]
            size = len(piece.text) if piece.known else 1
            low, high = max(start - at, 0), min(end - at, size)
            if low < high and piece.known:
                line = piece.line and piece.line + bisect_left(_line_ends(piece.text), low)
                pieces.append(replace(piece, text=piece.text[low:high], line=line))
            elif low < high or (piece.inherits and start <= at <= end):
                pieces.append(piece)
        return TracedText(tuple(pieces))

    def _holes(self, at: int, end: int) -> list[str]:
        first, last = bisect_left(self._starts, at), bisect_left(self._starts, end)
        return [piece.text for piece in self.pieces[first:last] if not piece.known]


@lru_cache(maxsize=8)
def _line_ends(text: str) -> tuple[int, ...]:
    """Return the newlines' offsets; cached, since each flag of a long text needs its line."""
    return tuple(match.start() for match in _LINE_END.finditer(text))


class TooMuchError(InputError):
    """The source expands to too much text, so nothing more of it is read."""


@dataclass(slots=True)
class TextBudget:
    """The text of one source that may still be assembled: `x="$x$x"` doubles with each line."""

    where: str
    left: int = _MOST

    def spend(self, value: TracedText, line: int | None) -> TracedText:
        """Return the value, if the budget allows it."""
        self.spend_on(value.size, line)
        return value

    def spend_on(self, work: int, line: int | None) -> None:
        self.left -= work
        if self.left < 0:
            place = self.where if line is None else f"{self.where}:{line}"
            raise TooMuchError(
                f"{place}: variables expand to too much text; not read from here on",
                next="write the settings out, or check them with --env where the program starts",
            )


def known(text: str, line: int | None = None, where: str | None = None) -> TracedText:
    """Return a text that begins on a line; no line if the source has none."""
    return TracedText((Piece(text, line or None, where=where),)) if text else TracedText()


def unknown(source: str, line: int | None = None) -> TracedText:
    """Return a hole, with its source text."""
    return TracedText((Piece(source, line or None, known=False),))


def inherited(name: str, line: int | None = None) -> TracedText:
    """Return the inherited value of a variable of flags, which is unknown."""
    return TracedText((Piece("", line or None, inherits=name),))


def either(inherited: TracedText, default: TracedText) -> TracedText:
    """Return an inherited value and what counts without it, which are not one text."""
    apart = inherited.pieces and default.text
    between = known(" ", default.line) if apart else TracedText()
    return inherited + between + default


def joined(parts: Iterable[TracedText], separator: str = "") -> TracedText:
    """Concatenate parts."""
    pieces: list[Piece] = []
    for part in parts:
        if pieces and separator:
            pieces.append(Piece(separator, pieces[-1].line))
        pieces.extend(part.pieces)
    return TracedText(tuple(pieces))


def located(text: str, source: Sequence[str], line: int, last: int) -> TracedText:
    """Return a text, with its words located in the lines `line` to `last` of its source, in order.

    For values that a parser folded (YAML's `>-`, Python's adjacent strings), where the lines are
    lost. A word that is not found gets the line of the one before.
    """
    lines = source[line - 1 : last]
    pieces: list[Piece] = []
    row = column = missed = 0
    for space, word in _WORDS.findall(text):
        for ahead in range(row, len(lines) if missed < _MISSED else row):
            at = lines[ahead].find(word, column if ahead == row else 0)
            if at >= 0:
                row, column = ahead, at + len(word)
                break
        else:
            missed += 1
        # The line is that of the word: newlines before it were counted as lines of the source.
        pieces += [Piece(space, line + row - space.count("\n")), Piece(word, line + row)]
    return TracedText(tuple(piece for piece in pieces if piece.text))
