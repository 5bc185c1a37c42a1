"""The view model: what a report says and in which order, before anything is drawn.

    Document ── sections ──► Section ── blocks ──► Facts | Breakdown | Table | Chart | ...

All text is final (units chosen, unknown figures `?`) and printable: names come from files, and a
control character in one must not reach a terminal. Colours, widths and shortening are the drawer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from counterpoint.report.units import printable as printable  # noqa: PLC0414 - a public name


class Tone(Enum):
    """What a text is, for the drawer to choose its colour."""

    PLAIN = auto()
    STRONG = auto()
    QUIET = auto()
    WARNING = auto()


class Kind(Enum):
    """What a column holds, which decides how it is aligned and shortened."""

    NUMBER = auto()
    WORD = auto()
    NAME = auto()  # may lose its middle
    LABEL = auto()  # a name that is pasted back: stays whole, in several lines where it is long
    PLACE = auto()  # may lose its beginning: a path says most at its end
    SENTENCE = auto()  # may lose its end, after every column that can be left out


class Part(Enum):
    """A part of the step, for the drawer to choose its colour and pattern."""

    COMPUTE = auto()
    HIDDEN = auto()
    COLLECTIVE = auto()
    COPY = auto()
    IDLE = auto()


@dataclass(frozen=True, slots=True)
class Fact:
    """A label and what is said of it."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Facts:
    """Labels under each other."""

    rows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One part of a whole: `within` another one, or beside it."""

    part: Part
    label: str
    ms: str
    share: str
    fraction: float
    remark: str = ""
    within: Part | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts that add up to a whole, as a bar and as rows."""

    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; those of higher `rank` are left out first where width is short, 0 never.

    Rank 0 have the columns that a row is known by, and those that answer what the table is for.
    """

    title: str
    kind: Kind
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells, with an optional last row that sums them up."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A figure over time: `levels` are shares of its scale, each of an equal part of the time."""

    label: str
    levels: tuple[float, ...]
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Courses under each other over one time, from `first` to `last`."""

    courses: tuple[Course, ...]
    first: str
    last: str
    means: bool = False  # a bar shows the mean of its part of the time; else the highest level


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Log:
    """Lines as another program wrote them: never wrapped, so that they can be searched for."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One of several numbered things: its title, its price at the margin, text and facts."""

    number: int
    title: str
    price: str
    text: str
    rows: tuple[Fact, ...]


Block = Facts | Breakdown | Chart | Table | Prose | Log | Entry


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, the answer in one line beside it, and the blocks that carry it out."""

    title: str
    summary: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report: sections, what its signs mean, and the command to run next."""

    sections: tuple[Section, ...]
    legend: str
    next: str
