"""Render a Document as HTML for a notebook: one fragment without scripts or external resources.

Every text is escaped because names come from files. Styles are inline: notebooks remove style
sheets from untrusted output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Final

from counterpoint.diagnose import Explanation
from counterpoint.diagnose.compare import Comparison
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
from counterpoint.report.explain.compare_document import compare_document
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.terminal import bar_cells, chart_lines
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.units import printable
from counterpoint.timeline import Timeline
from counterpoint.tune.conclusion import Conclusion, conclude
from counterpoint.tune.study import Study, plan_of
from counterpoint.workflow.prediction import Prediction

_TOP: Final = 10
_CELLS: Final = 1000
_CHART: Final = 80
_COLOURS: Final = {
    StepPart.COMPUTE: "#4c78a8",
    StepPart.HIDDEN: "#72b7b2",
    StepPart.COLLECTIVE: "#e45756",
    StepPart.COPY: "#eeca3b",
    StepPart.IDLE: "#bab0ac",
}
_TONES: Final = {
    Tone.PLAIN: "",
    Tone.STRONG: "font-weight:bold",
    Tone.QUIET: "opacity:.7",
    Tone.WARNING: "font-weight:bold;color:#b00020",
}


@singledispatch
def html_of(value: object) -> str:
    """Return the HTML that a notebook shows for a value that has a report."""
    raise TypeError(f"{type(value).__name__} has no report")


@html_of.register
def _(value: Timeline) -> str:
    return _tag("p", _text(printable(repr(value).strip("<>"))), "font-size:90%")


@html_of.register
def _(value: Explanation) -> str:
    return document_html(explain_document(value, _TOP))


@html_of.register
def _(value: Comparison) -> str:
    return document_html(compare_document(value, _TOP))


@html_of.register
def _(value: Prediction) -> str:
    return document_html(predict_document(value, _TOP, ""))


@html_of.register
def _(value: Conclusion) -> str:
    return document_html(tune_document(value, Path("STUDY"), _TOP, ""))


@html_of.register
def _(value: Study) -> str:
    return html_of(conclude(value, plan_of(value)))


def document_html(document: Document) -> str:
    """Return the whole document as one element."""
    parts = [part for section in document.sections for part in _section(section)]
    if document.legend:
        parts.append(_tag("p", _text(document.legend), _TONES[Tone.QUIET]))
    if document.next:
        parts.append(_tag("p", f"next: {_tag('code', _text(document.next))}"))
    return _tag("div", "\n".join(parts), "font-size:90%")


def _section(section: Section) -> Iterator[str]:
    summary = _tag("span", _text(section.summary), "font-weight:normal")
    yield _tag("h4", f"{_text(section.title)} {summary}", "margin:1em 0 .3em")
    for block in section.blocks:
        yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    match block:
        case FactList(rows):
            yield _facts(rows)
        case BreakdownBar():
            yield from _breakdown(block)
        case Chart():
            yield _tag("pre", _text("\n".join(chart_lines(block, _CHART, ascii_only=False))))
        case TextTable():
            yield _table(block)
        case Prose(text, tone):
            yield _tag("p", _text(text), _TONES[tone])
        case Log(lines):
            yield _tag("pre", _text("\n".join(lines)))
        case NumberedItem():
            title = _tag("b", f"{block.number}&ensp;{_text(block.title)}")
            price = _tag("span", _text(block.price), _TONES[Tone.QUIET])
            yield _tag("p", f"{title} {price}<br>{_text(block.text)}")
            yield _facts(block.rows)


def _facts(rows: Iterable[Fact]) -> str:
    lines = (
        _tag(
            "tr",
            _tag("th", _text(row.label), "text-align:left;vertical-align:top")
            + _tag("td", _text(row.text), f"text-align:left;{_TONES[row.tone]}"),
        )
        for row in rows
    )
    return _tag("table", "".join(lines))


def _breakdown(block: BreakdownBar) -> Iterator[str]:
    parts = (
        _tag("span", "", f"width:{cells / _CELLS:.1%};background:{_COLOURS[part]}")
        for part, cells in bar_cells(block.slices, _CELLS)
    )
    yield _tag("div", "".join(parts), "display:flex;height:1.2em;max-width:60em")
    rows = (
        "".join(
            (
                _tag("td", "", f"width:1em;background:{_COLOURS[item.part]}"),
                _tag("td", _text(item.label), "text-align:left"),
                _tag("td", f"{_text(item.ms)} ms", "text-align:right"),
                _tag("td", _text(item.share), "text-align:right"),
                _tag("td", _text(item.remark), "text-align:left"),
            )
        )
        for item in block.slices
    )
    yield _tag("table", "".join(_tag("tr", row) for row in rows))


def _table(block: TextTable) -> str:
    sides = ["right" if column.kind is ColumnKind.NUMBER else "left" for column in block.columns]

    def row(cells: Iterable[str], tag: str) -> str:
        elements = (
            _tag(tag, _text(cell), f"text-align:{side}")
            for cell, side in zip(cells, sides, strict=True)
        )
        return _tag("tr", "".join(elements))

    rows = [row((column.title for column in block.columns), "th")]
    rows += [row(cells, "td") for cells in block.rows]
    if block.total is not None:
        rows.append(row(block.total, "th"))
    return _tag("table", "".join(rows))


def _text(text: str) -> str:
    return escape(text, quote=True)


def _tag(name: str, inner: str, style: str = "") -> str:
    """Return an element; `inner` is already HTML, and `style` never comes from a file."""
    return f'<{name} style="{style}">{inner}</{name}>' if style else f"<{name}>{inner}</{name}>"
