"""Reports of results, for people and for programs.

    Explanation ─► Document ─► terminal, plain text, HTML
    Explanation ─► JSON

A Document defines content and order; only the renderers choose colors and widths. Read document.py
first, then its renderers (terminal.py with fit.py and chart.py, markup.py, html.py) and json.py.
The rooms inside hold the reports of related commands: `*_document.py` makes the Document,
`*_json.py` the JSON, and `*_digest.py` the digest. A short report has one module here for them all.
"""
