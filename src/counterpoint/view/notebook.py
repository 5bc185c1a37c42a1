"""Results in a notebook: their report, and below it a page in a frame of its own.

Viewers of notebooks that run no programs (nbviewer, GitHub) drop the frame; the report stays.
"""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint import __version__
from counterpoint.diagnose.compare.comparison import Comparison
from counterpoint.diagnose.explanation import Explanation
from counterpoint.report.explain.compare_json import compare_json
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.report.html import html_of
from counterpoint.report.predict.predict_json import predict_json
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.timeline.model import Timeline
from counterpoint.tune.conclusion import Conclusion, conclude
from counterpoint.tune.study import Study, plan_of
from counterpoint.view.page import PageContent, one_file, predicted_steps, title_of
from counterpoint.workflow.prediction import Prediction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOM: Final = 1_500_000
"""Bytes beside the results: notebooks keep each output, and are read and saved as a whole."""
_MOST: Final = 6_000_000
"""Bytes above which there is no frame: the results alone may have more."""
_SPANS: Final = 1_000_000
"""Spans above which there is no frame: drawing more takes seconds."""


def notebook_html(value: object) -> str:
    """Return the HTML that a notebook shows for a value that has a report."""
    static = html_of(value)
    content = _content(value)
    if content is None or sum(len(it.spans) for it in content.timelines) > _SPANS:
        return static
    page = one_file(content, limit=_ROOM + sum(map(len, content.results.values())))
    return static if len(page) > _MOST else f"{static}\n{_frame(page)}"


@singledispatch
def _content(value: object) -> PageContent | None:
    """Return the page of a value; None: its report shows all of it."""
    del value
    return None


@_content.register
def _(value: Timeline) -> PageContent | None:
    return None if value.spans.is_empty() else _page(title_of(value.inputs), {}, [value])


@_content.register
def _(value: Explanation) -> PageContent | None:
    if value.timeline is None:
        return None
    title = title_of(value.inputs)
    return _page(title, {"explain": explain_json(value)}, [value.timeline])


@_content.register
def _(value: Comparison) -> PageContent | None:
    timelines = [side.timeline for side in (value.a, value.b) if side.timeline is not None]
    title = title_of((value.a.name, value.b.name))
    return _page(title, {"compare": compare_json(value)}, timelines)


@_content.register
def _(value: Prediction) -> PageContent:
    timelines, compared = predicted_steps(value)
    title = f"{value.workload} on {value.target}"
    return _page(title, {"predict": predict_json(value), **compared}, timelines)


@_content.register
def _(value: Conclusion) -> PageContent:
    return _page("study", {"tune": tune_json(value, Path("STUDY"))}, [])


@_content.register
def _(value: Study) -> PageContent | None:
    return _content(conclude(value, plan_of(value)))


def _page(title: str, results: Mapping[str, str], timelines: Sequence[Timeline]) -> PageContent:
    return PageContent(
        title=title,
        command="",
        version=__version__,
        results=results,
        timelines=tuple(timelines),
    )


def _frame(page: str) -> str:
    """Return a frame whose programs run, but apart from the notebook: it has no origin."""
    text = page.replace("&", "&amp;").replace("'", "&#39;")
    style = "width:100%;height:42rem;border:1px solid #8884;border-radius:6px"
    return (
        '<iframe title="Counterpoint" sandbox="allow-scripts"'
        f" style=\"{style}\" srcdoc='{text}'></iframe>"
    )
