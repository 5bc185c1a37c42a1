"""Reports of results, for people and for programs.

    Explanation ─► Document ─► terminal, plain text, HTML
    Explanation ─► JSON

A Document defines content and order; only the renderers choose colors and widths. Read document.py
first, then its renderers (terminal.py with fit.py and chart.py, markup.py, html.py) and json.py.
The rooms inside hold the reports of related commands: `*_document.py` makes the Document,
`*_json.py` the JSON, and `*_digest.py` the digest. A short report has one module here for them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.core.printable import counted_noun as counted_noun
    from counterpoint.core.printable import printable as printable
    from counterpoint.report.document import Document as Document
    from counterpoint.report.html import html_of as html_of
    from counterpoint.report.markup import document_markup as document_markup
    from counterpoint.report.summary import FINDING_COLUMNS as FINDING_COLUMNS
    from counterpoint.report.summary import Summary as Summary
    from counterpoint.report.terminal import plain_text as plain_text
    from counterpoint.report.terminal import print_document as print_document
    from counterpoint.report.tune.figures import budget_text as budget_text
    from counterpoint.report.tune.figures import end_text as end_text
    from counterpoint.report.units import size as size

__getattr__ = lazy(__name__)
