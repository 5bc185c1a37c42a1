"""Render a Document as HTML for a notebook: one fragment without scripts or external resources.

It is the markup of the pages, with its classes replaced by inline styles: notebooks remove style
sheets from untrusted output.
"""

from __future__ import annotations

import re
from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Final

from counterpoint.core.printable import printable
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.explanation import Explanation
from counterpoint.report.document import Document
from counterpoint.report.explain.compare_document import compare_document
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.markup import document_markup
from counterpoint.report.memory.memory_document import memory_document
from counterpoint.report.predict.predict_document import predict_document
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.timeline.model import Timeline
from counterpoint.tune.conclusion import Conclusion, conclude
from counterpoint.tune.study import Study, plan_of
from counterpoint.workflow.memory.report import MemoryReport
from counterpoint.workflow.prediction import Prediction

_TOP: Final = 10
_QUIET: Final = "opacity:.7"
_CELL: Final = "text-align:left;vertical-align:top;padding:.1em .8em .1em 0;white-space:pre-wrap"
_STYLES: Final = {
    "h2": "font-size:1.1em;margin:1em 0 .3em",
    "h3": "font-size:1em;margin:.6em 0 .2em",
    "td": _CELL,
    "th": _CELL,
    "number-column": "text-align:right;white-space:nowrap",
    "findings": "padding-left:1.4em",
    "visually-hidden": "display:none",
    "scroll": "overflow-x:auto",
    "breakdown": "display:flex;height:1.2em;max-width:60em",
    "swatch": "display:inline-block;width:.8em;height:.8em",
    "part-compute": "background:#4c78a8",
    "part-hidden": "background:#72b7b2",
    "part-exposed": "background:#e45756",
    "part-copy": "background:#eeca3b",
    "part-idle": "background:#bab0ac",
    "strong": "font-weight:bold",
    "summary": f"font-weight:normal;white-space:pre-wrap;{_QUIET}",
    "price": f"font-weight:normal;{_QUIET}",
    "quiet": _QUIET,
    "legend": _QUIET,
    "warning": "font-weight:bold;color:#b00020",
    **{f"heat-{shade}": f"background:rgba(228,87,86,{shade * 0.065:.2f})" for shade in range(10)},
}
"""Styles of elements and of the classes of markup.py; later ones of an element override earlier."""
_START: Final = re.compile(r"<([a-z]\w*+)([^<>]*)>")
_ATTRIBUTE: Final = re.compile(r'(?<![a-z-])([a-z-]++)="([^"]*)"')


@singledispatch
def html_of(value: object) -> str:
    """Return the HTML that a notebook shows for a value that has a report."""
    raise TypeError(f"{type(value).__name__} has no report")


@html_of.register
def _(value: Timeline) -> str:
    return f'<p style="font-size:90%">{escape(printable(repr(value).strip("<>")))}</p>'


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
def _(value: MemoryReport) -> str:
    return document_html(memory_document(value, _TOP, ""))


@html_of.register
def _(value: Conclusion) -> str:
    return document_html(tune_document(value, Path("STUDY"), _TOP, ""))


@html_of.register
def _(value: Study) -> str:
    return html_of(conclude(value, plan_of(value)))


def document_html(document: Document) -> str:
    """Return the whole document as one element."""
    return f'<div style="font-size:90%">{_START.sub(_styled, document_markup(document))}</div>'


def _styled(start: re.Match[str]) -> str:
    """Return a start tag with styles instead of classes; texts in it are escaped already."""
    name, attributes = start[1], dict(_ATTRIBUTE.findall(start[2]))
    kinds = (name, *attributes.pop("class", "").split())
    styles = [*(_STYLES[kind] for kind in kinds if kind in _STYLES), attributes.get("style", "")]
    if style := ";".join(filter(None, styles)):
        attributes["style"] = style
    return "<" + " ".join((name, *(f'{key}="{it}"' for key, it in attributes.items()))) + ">"
