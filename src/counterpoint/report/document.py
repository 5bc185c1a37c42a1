"""The view model: what a report says and in which order, before it is rendered.

    Document ── sections ──► Section ── blocks ──► Facts | Breakdown | Table | Chart | ...

All text is final (units chosen, unknown figures shown as `?`). The types make it printable: names
come from files, and their control characters must not reach a terminal. Renderers choose colors,
widths and truncation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

from counterpoint.core.printable import printable as printable  # noqa: PLC0414 - a public name


class Tone(Enum):
    """The role of a text, from which the renderer chooses its color."""

    PLAIN = auto()
    STRONG = auto()
    QUIET = auto()
    WARNING = auto()


class ColumnKind(Enum):
    """The kind of content in a column, which decides its alignment and truncation."""

    NUMBER = auto()
    WORD = auto()
    NAME = auto()  # may be shortened in the middle
    LABEL = auto()  # a name to copy and paste: never shortened, wrapped if long
    PLACE = auto()  # may be shortened at the start: the end of a path matters most
    SENTENCE = auto()  # may be shortened at the end, after all optional columns are dropped


class StepPart(Enum):
    """A part of the step, from which the renderer chooses color and pattern."""

    COMPUTE = auto()
    HIDDEN = auto()
    COLLECTIVE = auto()
    COPY = auto()
    IDLE = auto()


class _Texts:
    """Makes the texts of a dataclass printable."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if isinstance(text := getattr(self, name), str):
                object.__setattr__(self, name, printable(text))


@dataclass(frozen=True, slots=True)
class Fact(_Texts):
    """A label and its text."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class FactList:
    """Labeled rows."""

    rows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(_Texts):
    """One part of a whole, next to the others or inside one of them (`within`)."""

    part: StepPart
    label: str
    ms: str
    share: str
    fraction: float
    remark: str = ""
    within: StepPart | None = None


@dataclass(frozen=True, slots=True)
class BreakdownBar:
    """Parts that add up to a whole, as a bar and as rows."""

    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; on narrow screens those with the highest `rank` are dropped first, rank 0 never.

    Rank 0 is for columns that identify a row and those that answer the table's question.
    """

    title: str
    kind: ColumnKind
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """Rows of cells, with an optional row of totals at the end."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] | None = None
    shades: Sequence[Sequence[int]] = ()  # of a heat map on pages: 1 to 9 per figure; 0: unknown


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A column with its cells, from which `table` builds its rows."""

    kind: ColumnKind
    title: str
    cells: Sequence[str]
    rank: int = 0
    total: str = ""
    others: str | None = None  # the cell for rows that are not shown


numbers: Final = partial(CellColumn, ColumnKind.NUMBER)
words: Final = partial(CellColumn, ColumnKind.WORD)
names: Final = partial(CellColumn, ColumnKind.NAME)
labels: Final = partial(CellColumn, ColumnKind.LABEL)
places: Final = partial(CellColumn, ColumnKind.PLACE)


def table(*columns: CellColumn) -> TextTable:
    """Return the table of these columns, with every cell made printable."""
    totalled = any(it.total for it in columns)
    cells = ([*it.cells, *([] if it.others is None else [it.others])] for it in columns)
    return TextTable(
        columns=tuple(Column(it.title, it.kind, it.rank) for it in columns),
        rows=tuple(tuple(map(printable, row)) for row in zip(*cells, strict=True)),
        total=tuple(printable(it.total) for it in columns) if totalled else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(_Texts):
    """A figure over time: `levels` are fractions of its scale over equal intervals."""

    label: str
    levels: tuple[float, ...]
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Series stacked over one time axis, from `first` to `last`."""

    series: tuple[Series, ...]
    first: str
    last: str
    means: bool = False  # a bar shows the mean over its interval; otherwise the maximum


@dataclass(frozen=True, slots=True)
class Prose(_Texts):
    """A paragraph."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Log:
    """Output of another program, verbatim: never wrapped, so that a search finds it."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedItem(_Texts):
    """A numbered item: title, price in the margin, text and facts."""

    number: int
    title: str
    price: str
    text: str
    rows: tuple[Fact, ...]


Block = FactList | BreakdownBar | Chart | TextTable | Prose | Log | NumberedItem


@dataclass(frozen=True, slots=True)
class Section(_Texts):
    """A heading, a one-line answer next to it, and the blocks with the details."""

    title: str
    summary: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(_Texts):
    """A report: sections, a legend of its symbols, and the next command to run."""

    sections: tuple[Section, ...]
    legend: str
    next: str
