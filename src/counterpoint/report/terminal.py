"""Render a Document as lines of text: colored on a terminal, plain in a pipe or file.

rich detects what the terminal supports (colors, NO_COLOR, width). Lines are laid out here and only
colored by rich, so a pipe gets whole rows without padding and a name is never parsed as markup.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from counterpoint.report.chart import chart_lines
from counterpoint.report.document import (
    BreakdownBar,
    Chart,
    ColumnKind,
    Document,
    Fact,
    FactList,
    Log,
    NumberedItem,
    Prose,
    Section,
    Slice,
    StepPart,
    TextTable,
    Tone,
)
from counterpoint.report.fit import GAP, fit, widths
from counterpoint.report.places import ELLIPSIS

Pattern = Mapping[StepPart, str]

BLOCKS: Final[Pattern] = {
    StepPart.COMPUTE: "█",
    StepPart.HIDDEN: "▓",
    StepPart.COLLECTIVE: "▒",
    StepPart.COPY: "░",
    StepPart.IDLE: "·",
}
LETTERS: Final[Pattern] = {
    StepPart.COMPUTE: "#",
    StepPart.HIDDEN: "+",
    StepPart.COLLECTIVE: "=",
    StepPart.COPY: "-",
    StepPart.IDLE: ".",
}
_INDENT: Final = "  "
_PROSE: Final = 110
"""Maximum width of text: longer lines are hard to read. Only tables use a wider terminal."""
_GROUPS: Final = "   "
_GLUE: Final = "\0"
_PIPE_PROSE: Final = 100
_NARROWEST: Final = 40
_STYLES: Final = {Tone.PLAIN: "", Tone.STRONG: "bold", Tone.QUIET: "dim", Tone.WARNING: "bold red"}
_COLORS: Final = {
    StepPart.COMPUTE: "blue",
    StepPart.HIDDEN: "cyan",
    StepPart.COLLECTIVE: "red",
    StepPart.COPY: "yellow",
    StepPart.IDLE: "bright_black",
}


def bar_cells(slices: Sequence[Slice], width: int) -> list[tuple[StepPart, int]]:
    """Return each part with its number of characters, which add up to the width.

    A slice within another takes its characters from that slice.
    """
    inner = {item.within: item.fraction for item in slices if item.within is not None}
    own = [item.fraction - inner.get(item.part, 0.0) for item in slices]
    ends = [0.0]
    for fraction in own:
        ends.append(ends[-1] + max(fraction, 0.0))
    whole = ends[-1] or 1.0
    bounds = [round(end / whole * width) for end in ends]
    return [
        (item.part, last - first)
        for item, (first, last) in zip(slices, pairwise(bounds), strict=True)
    ]


def print_document(document: Document, stream: TextIO) -> None:
    """Write the document in the form that the stream supports."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    paper = _Paper(
        width=max(console.width, _NARROWEST) if stream.isatty() else None,  # ignore FORCE_COLOR
        pattern=LETTERS if console.options.ascii_only else BLOCKS,
        ellipsis=".." if console.options.ascii_only else ELLIPSIS,
    )
    with console.capture() as captured:  # rich would exit the process on a broken pipe
        for line in _document(document, paper):
            console.print(line, soft_wrap=True)
    stream.write(captured.get())


def plain_text(document: Document) -> str:
    """Return the document as it is written to a pipe."""
    paper = _Paper(width=None, pattern=BLOCKS, ellipsis=ELLIPSIS)
    return "".join(f"{line.plain.rstrip()}\n" for line in _document(document, paper))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paper:
    """The output medium: its width (None: unlimited) and the symbols it can show."""

    width: int | None
    pattern: Pattern
    ellipsis: str

    @property
    def prose(self) -> int:
        return _PIPE_PROSE if self.width is None else min(self.width, _PROSE)


def _document(document: Document, paper: _Paper) -> Iterator[Text]:
    for section in document.sections:
        yield from _section(section, paper)
        yield Text()
    if document.legend:
        lines = [document.legend] if paper.width is None else _lines(document.legend, paper.width)
        yield from (Text(line, "dim") for line in lines)
    if document.next:
        yield Text.assemble(("next: ", "bold"), document.next)


def _section(section: Section, paper: _Paper) -> Iterator[Text]:
    start = f"{section.title}{_GROUPS}"
    first, *others = _wrapped(section.summary, paper.prose, len(start))
    yield Text.assemble((start if first else section.title, "bold"), first)
    yield from (Text(line) for line in others)
    for block in section.blocks:
        match block:
            case FactList(rows):
                yield from _facts(rows, paper, _INDENT)
            case BreakdownBar():
                yield from _breakdown(block, paper)
            case Chart():
                ascii_only = paper.pattern is LETTERS
                for line in chart_lines(block, paper.prose - len(_INDENT), ascii_only=ascii_only):
                    yield Text(_INDENT + line)
            case TextTable():
                yield from _table(block, paper)
            case Prose(text, tone):
                lines = _lines(text, paper.prose - len(_INDENT))
                yield from (Text(_INDENT + line, _STYLES[tone]) for line in lines)
            case Log(lines):
                yield from (Text(_cut(_INDENT + line, paper), "dim") for line in lines)
            case NumberedItem():
                yield from _entry(block, paper)


def _cut(line: str, paper: _Paper) -> str:
    if paper.width is None or len(line) <= paper.width:
        return line
    return line[: paper.width - len(paper.ellipsis)] + paper.ellipsis


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """Wrap the text, indenting all lines but the first."""
    filler = " " * indent
    first, *others = _lines(text, max(width - indent, _NARROWEST // 2)) or [""]
    return [first, *(filler + line for line in others)]


def _lines(text: str, width: int) -> list[str]:
    """Wrap between words, keeping a figure with its unit and a group of words together."""
    separated = _GROUPS in text
    glued = re.sub(r"(?<! ) (?! )" if separated else r"(?<=\d) (?=[mu]s\b)", _GLUE, text)
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    if separated and any(len(line) > width for line in lines):
        return _lines(re.sub(" +", " ", text), width)
    return [line.replace(_GLUE, " ") for line in lines]


def _facts(rows: Iterable[Fact], paper: _Paper, indent: str) -> Iterator[Text]:
    rows = tuple(rows)
    label_width = max((len(row.label) for row in rows), default=0)
    for row in rows:
        start = f"{indent}{row.label:<{label_width}}  " if label_width else indent
        style = _STYLES[row.tone]
        lines = _wrapped(row.text, paper.prose, len(start))
        yield Text.assemble(
            (start, "dim" if row.tone is not Tone.WARNING else style), (lines[0], style)
        )
        yield from (Text(line, style) for line in lines[1:])


def _breakdown(block: BreakdownBar, paper: _Paper) -> Iterator[Text]:
    bar = Text(_INDENT)
    for part, cells in bar_cells(block.slices, paper.prose - 2 * len(_INDENT)):
        bar.append(paper.pattern[part] * cells, _COLORS[part])
    yield bar
    labels = [f"{_INDENT if s.within else ''}{s.label}" for s in block.slices]
    columns = [[s.ms for s in block.slices], [s.share for s in block.slices]]
    label_width = max(map(len, labels))
    ms_width, share_width = (max(map(len, column)) for column in columns)
    for item, label in zip(block.slices, labels, strict=True):
        row = Text(_INDENT)
        row.append(paper.pattern[item.part], _COLORS[item.part])
        row.append(
            f" {label:<{label_width}}  {item.ms:>{ms_width}} ms  {item.share:>{share_width}}"
        )
        if item.remark and len(row) + len(_GROUPS) + len(item.remark) <= paper.prose:
            row.append(f"   {item.remark}", "dim")
        yield row


def _table(block: TextTable, paper: _Paper) -> Iterator[Text]:
    width = None if paper.width is None else paper.width - len(_INDENT)
    table = fit(block, width, paper.ellipsis)
    room = widths(table)

    def row(cells: tuple[str, ...]) -> Iterator[str]:
        for line in zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
            padded = [
                f"{part:>{size}}" if column.kind is ColumnKind.NUMBER else f"{part:<{size}}"
                for column, part, size in zip(table.columns, line, room, strict=True)
            ]
            yield (_INDENT + (" " * GAP).join(padded)).rstrip()

    yield from (Text(line, "dim") for line in row(tuple(column.title for column in table.columns)))
    for cells in table.rows:
        yield from map(Text, row(cells))
    if table.total is not None:
        yield from (Text(line, "dim") for line in row(table.total))
    shown = {" ".join(column.title.split()) for column in table.columns}
    left_out = [column.title for column in block.columns if column.title not in shown]
    if any(left_out):
        words = f"no room for: {', '.join(filter(None, left_out))}"
        yield from (
            Text(_INDENT + line, "dim") for line in _lines(words, paper.prose - len(_INDENT))
        )


def _entry(block: NumberedItem, paper: _Paper) -> Iterator[Text]:
    number = f"{_INDENT}{block.number}  "
    indent = " " * len(number)
    room = paper.prose - len(indent)
    first, *others = _lines(block.title, room)
    margin = room - len(block.title) - len(block.price)
    heading = Text.assemble((number, "dim"), (first, "bold"))
    if margin >= GAP:
        yield heading.append(" " * margin + block.price)
    else:
        yield heading
        yield from (Text.assemble(indent, (line, "bold")) for line in others)
        yield Text(indent + block.price)
    yield from (Text(indent + line) for line in _lines(block.text, room))
    yield from _facts(block.rows, paper, indent)
