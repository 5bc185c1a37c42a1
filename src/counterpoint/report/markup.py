"""Render a Document as HTML for the pages of `counterpoint.view`, whose style sheet colors it.

The elements carry meaning (headings, header cells, lists) and classes; the only inline style is the
width of a bar, which is a figure. Every text is escaped because names come from files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby, zip_longest
from typing import Final

from counterpoint.core.printable import printable
from counterpoint.report.chart import chart_lines
from counterpoint.report.document import (
    Block,
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
    StepPart,
    TextTable,
    Tone,
)
from counterpoint.report.terminal import bar_cells

_CELLS: Final = 1000
_CHART: Final = 80
_PARTS: Final = {
    StepPart.COMPUTE: "part-compute",
    StepPart.HIDDEN: "part-hidden",
    StepPart.COLLECTIVE: "part-exposed",
    StepPart.COPY: "part-copy",
    StepPart.IDLE: "part-idle",
}
_TONES: Final = {
    Tone.PLAIN: "",
    Tone.STRONG: "strong",
    Tone.QUIET: "quiet",
    Tone.WARNING: "warning",
}
_COLUMNS: Final = {
    ColumnKind.NUMBER: "number-column",
    ColumnKind.NAME: "name-column",
    ColumnKind.LABEL: "name-column",
    ColumnKind.PLACE: "name-column",
}


def document_markup(document: Document) -> str:
    """Return the sections of a document, then its legend and the next command."""
    parts = [_section(section) for section in document.sections]
    if document.legend:
        parts.append(_element("p", _text(document.legend), "legend"))
    if document.next:
        parts.append(_element("p", f"next: {_element('code', _text(document.next))}", "next"))
    return "\n".join(parts)


def _section(section: Section) -> str:
    summary = f" {_element('span', _text(section.summary), 'summary')}" if section.summary else ""
    parts = [_element("h2", f"{_text(section.title)}{summary}")]
    for numbered, blocks in groupby(section.blocks, lambda block: isinstance(block, NumberedItem)):
        if numbered:
            items = (_finding(block) for block in blocks if isinstance(block, NumberedItem))
            parts.append(_element("ol", "".join(items), "findings"))
        else:
            parts += [_block(block, section.title) for block in blocks]
    return _element("section", "\n".join(parts), "report-section")


def _block(block: Block, title: str) -> str:  # noqa: PLR0911 - one answer for each kind
    match block:
        case NumberedItem():
            return _element("ol", _finding(block), "findings")
        case FactList(rows):
            return _facts(rows)
        case BreakdownBar():
            return _breakdown(block, title)
        case Chart():
            return _scrolled(_chart(block), title)
        case TextTable():
            return _scrolled(_table(block, title), title)
        case Prose(text, tone):
            return _element("p", _text(text), _TONES[tone])
        case Log(lines):
            return _scrolled(_element("pre", "\n".join(map(_text, lines)), "log"), title)


def _finding(block: NumberedItem) -> str:
    price = f" {_element('span', _text(block.price), 'price')}" if block.price else ""
    parts = [
        _element("h3", f"{_text(block.title)}{price}"),
        _element("p", _text(block.text)),
        _facts(block.rows),
    ]
    return f'<li class="finding" value="{block.number}">{"".join(parts)}</li>'


def _facts(rows: Sequence[Fact]) -> str:
    lines = (
        _row((_header(row.label, "row"), _element("td", _text(row.text), _TONES[row.tone])))
        for row in rows
    )
    return _element("table", _element("tbody", "".join(lines)), "facts") if rows else ""


def _chart(block: Chart) -> str:
    """Draw with block characters, and describe each series in words to screen readers."""
    series = "; ".join(f"{each.label}: {each.remark}" for each in block.series)
    described = f"{series}; from {block.first} to {block.last}"
    drawing = "\n".join(map(_text, chart_lines(block, _CHART, ascii_only=False)))
    return f'<pre class="chart" role="img" aria-label="{_text(described)}">{drawing}</pre>'


def _breakdown(block: BreakdownBar, title: str) -> str:
    spans = "".join(
        f'<span class="part {_PARTS[part]}" style="width:{cells / _CELLS:.1%}"></span>'
        for part, cells in bar_cells(block.slices, _CELLS)
    )
    described = f"{title}: " + ", ".join(f"{item.label} {item.share}" for item in block.slices)
    bar = f'<div class="breakdown" role="img" aria-label="{_text(described)}">{spans}</div>'
    rows = (
        _row(
            (
                _element("td", _element("span", "", f"swatch {_PARTS[item.part]}")),
                _header(item.label, "row", "within" if item.within is not None else ""),
                _element("td", f"{_text(item.ms)} ms", "number-column"),
                _element("td", _text(item.share), "number-column"),
                _element("td", _text(item.remark), "quiet"),
            )
        )
        for item in block.slices
    )
    return f"{bar}\n{_element('table', _element('tbody', ''.join(rows)), 'parts')}"


def _table(block: TextTable, title: str) -> str:
    kinds = [_COLUMNS.get(column.kind, "") for column in block.columns]
    columns = zip(block.columns, kinds, strict=True)
    titles = (_header(column.title, "col", kind) for column, kind in columns)
    parts = [
        _element("caption", _text(title), "visually-hidden"),
        _element("thead", _row(titles)),
        _element("tbody", "".join(map(_row, _body(block, kinds)))),
    ]
    if block.total is not None:
        parts.append(_element("tfoot", _row(_cells(block.total, kinds))))
    return _element("table", "".join(parts), "data")


def _body(block: TextTable, kinds: Sequence[str]) -> Iterator[Iterator[str]]:
    """Yield the cells of each row; those of a heat map have a shade."""
    for texts, shades in zip_longest(block.rows, block.shades):
        yield _cells(texts, [kinds[0], *map("heat heat-{}".format, shades)] if shades else kinds)


def _cells(texts: Iterable[str], kinds: Iterable[str]) -> Iterator[str]:
    for text, kind in zip(texts, kinds, strict=True):
        yield _element("td", _text(text), kind)


def _scrolled(inner: str, title: str) -> str:
    """Return something wide in a box that scrolls by keyboard, too."""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{_text(title)}">{inner}</div>'
    )


def _row(cells: Iterable[str]) -> str:
    return _element("tr", "".join(cells))


def _header(text: str, scope: str, kind: str = "") -> str:
    if not text:  # the row continues the one above
        return _element("td", "", kind)
    marked = f' class="{kind}"' if kind else ""
    return f'<th scope="{scope}"{marked}>{_text(text)}</th>'


def _text(text: str) -> str:
    return escape(printable(text), quote=True)


def _element(name: str, inner: str, kind: str = "") -> str:
    """Return an element; `inner` is already HTML, and `kind` never comes from a file."""
    return f'<{name} class="{kind}">{inner}</{name}>' if kind else f"<{name}>{inner}</{name}>"
