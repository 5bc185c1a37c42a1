"""A page: reports, results and Timelines of a command, as one file or for the local app.

Both have the same parts: `page.json`, and blocks with a name each (docs/formats/levels.md). A file
contains as many blocks as its limit allows, the most useful first: what folds many devices, then
ever finer levels, then the spans of the typical step, then all others.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from html import escape
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from counterpoint.core.printable import printable
from counterpoint.timeline.model import Timeline
from counterpoint.view.blocks import embedded
from counterpoint.view.levels import LevelColumns
from counterpoint.view.picture import drawing
from counterpoint.view.timeline_page import TimelinePage

if TYPE_CHECKING:
    from counterpoint.workflow.prediction import Prediction

_LONGEST_NAME: Final = 64
_NAMED: Final = 2
"""Inputs that a title names."""
ASSETS: Final = ("app.js", "app.css")
FORMAT: Final = 2
_LIMIT: Final = 20_000_000
"""Bytes of a file: more is refused by trackers of experiments."""
_OVERVIEW: Final = 16384
"""Buckets of the finest level that belongs to the overview of a whole Timeline."""
_RESULTS_WITH_FINDINGS: Final = ("explain", "predict")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PageContent:
    """The content of a page.

    `reports` are titles and HTML of reports (`report.document_markup`); `results` are the texts
    that commands print as JSON, by command.
    """

    title: str
    command: str
    version: str
    reports: tuple[tuple[str, str], ...] = ()
    results: Mapping[str, str]
    timelines: tuple[Timeline, ...] = ()
    step: int | None = None  # that was to be explained; None: a typical one


class _Use(IntEnum):
    """The purpose of a tile, the most useful first."""

    OVERVIEW = 0
    TYPICAL_SPANS = 1
    LEVEL = 2
    OTHER_SPANS = 3


_MOST: Final = {_Use.LEVEL: 10_000_000, _Use.OTHER_SPANS: 5_000_000}
"""Bytes of a file up to which it gets tiles that are less useful."""


class LivePage:
    """A page whose Timelines are drawn after it was opened; its blocks are made when asked for."""

    def __init__(self, content: PageContent) -> None:
        self._content = content
        self._results = _parsed(content)
        self._lock = threading.Lock()
        self._timelines = self._undrawn(content.timelines)

    def _undrawn(
        self, timelines: Sequence[Timeline], *, preview: bool = False
    ) -> list[TimelinePage]:
        return [
            TimelinePage(
                number=number,
                timeline=timeline,
                findings=self._findings(number),
                step=self._content.step,
                preview=preview,
            )
            for number, timeline in enumerate(timelines)
        ]

    @property
    def title(self) -> str:
        """The name of what is shown."""
        return self._content.title

    def _findings(self, number: int) -> list[Mapping[str, Any]]:
        known = [self._results[it] for it in _RESULTS_WITH_FINDINGS if it in self._results]
        return list(known[0].get("findings", ())) if known and not number else []

    @property
    def complete(self) -> bool:
        """True if all levels are computed."""
        return all(each.complete for each in self._timelines)

    @property
    def is_empty(self) -> bool:
        """True if nothing has been read yet; a preview may be shown."""
        return not self._results and all(each.preview for each in self._timelines)

    def preview(self, timelines: Sequence[Timeline]) -> None:
        """Show what is known of Timelines while they are read."""
        with self._lock:
            self._timelines = self._undrawn(timelines, preview=True)

    def show(self, content: PageContent) -> None:
        """Show this content instead: it was read."""
        with self._lock:
            self._content = content
            self._results = _parsed(content)
            self._timelines = self._undrawn(content.timelines)

    def add(self, reports: tuple[tuple[str, str], ...], results: Mapping[str, str]) -> None:
        """Show reports and results, too, which were found after the page was opened."""
        content = replace(
            self._content,
            reports=(*self._content.reports, *reports),
            results={**self._content.results, **results},
        )
        parsed = _parsed(content)
        with self._lock:
            self._content, self._results = content, parsed
            self._timelines = [
                replace(each, findings=self._findings(each.number)) for each in self._timelines
            ]

    def compute(self, grown: Callable[[], None] = lambda: None) -> None:
        """Draw the Timelines; other threads may read the page meanwhile.

        `grown` is called when there is more to be seen.
        """
        for number, each in enumerate(self._timelines):
            if each.complete:
                continue
            for picture in drawing(each.timeline, each.typical[1:]):
                with self._lock:
                    self._timelines[number] = replace(self._timelines[number], picture=picture)
                grown()

    def page_json(self) -> bytes:
        """Return the page as it is now."""
        return _json(self._page([each.describe() for each in self._timelines])).encode()

    def block(self, name: str) -> bytes | None:
        """Return a block by its name; None if there is none."""
        parts = name[:_LONGEST_NAME].split(".")
        if not 2 <= len(parts) <= 4 or not parts[0].isdecimal():
            return None
        if int(parts[0]) >= len(self._timelines):
            return None
        page = self._timelines[int(parts[0])]
        if parts[1:] == ["ops"]:
            return page.ops_block()
        if page.picture is None or len(parts) != 4 or not all(map(str.isdecimal, parts)):
            return None
        track, level, tile = map(int, parts[1:])
        try:
            return page.picture.tracks[track].levels[level].block(tile)
        except IndexError:
            return None

    def block_names(self) -> Iterator[str]:
        """Yield the names of all blocks; of Timelines that are drawn, their tiles too."""
        for page in self._timelines:
            yield f"{page.number}.ops"
            yield from (tile.name for tile in _tiles(page))

    def _page(self, timelines: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": self._content.version,
            "title": self._content.title,
            "command": self._content.command,
            "reports": [{"title": title, "html": html} for title, html in self._content.reports],
            "results": self._results,
            "timelines": timelines,
        }

    def file(self, limit: int | None) -> str:
        """Return the page as one HTML text of at most `limit` bytes; None: with all spans."""
        self.compute()
        drawn = _json(self._page([page.describe() for page in self._timelines]))
        chosen = _Chosen(limit, len(drawn) + sum(map(len, map(asset, ASSETS))))
        has: list[dict[int, dict[tuple[int, int], bool]]] = [{} for _ in self._timelines]
        for page in self._timelines:
            chosen.add(f"{page.number}.ops", page.ops_block())
        tiles = [tile for page in self._timelines for tile in _tiles(page)]
        for tile in sorted(tiles, key=lambda tile: tile.use):
            if chosen.takes(tile) and chosen.add(tile.name, tile.block()):
                has[tile.timeline].setdefault(tile.track, {})[tile.level, tile.tile] = True
        described = [page.describe(has[page.number]) for page in self._timelines]
        return _html(self._content.title, _json(self._page(described)), chosen.blocks)


def _parsed(content: PageContent) -> dict[str, dict[str, Any]]:
    return {name: json.loads(text) for name, text in content.results.items()}


def one_file(content: PageContent, *, full: bool = False, limit: int = _LIMIT) -> str:
    """Return a page as one HTML text; `full` has the spans of all steps, without a limit."""
    return LivePage(content).file(None if full else limit)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Tile:
    """A tile, and how useful it is: first come levels from coarse to fine, then spans."""

    timeline: int
    track: int
    level: int
    tile: int
    columns: LevelColumns
    use: tuple[_Use, int, int, int]

    @property
    def name(self) -> str:
        return f"{self.timeline}.{self.track}.{self.level}.{self.tile}"

    def block(self) -> bytes:
        return self.columns.block(self.tile)


def _tiles(page: TimelinePage) -> Iterator[_Tile]:
    _, first, last = page.typical
    end = 0 if page.picture is None else page.picture.end
    shown = page.worst_places
    for number, track in enumerate(() if page.picture is None else page.picture.tracks):
        for level, columns in enumerate(track.levels):
            for tile, (start, stop) in enumerate(columns.extents):
                distance = max(start - last, first - stop, 0)
                if len(track.levels) == 1 or columns.width * _OVERVIEW > end:
                    use = _Use.OVERVIEW
                elif columns.width:
                    use = _Use.LEVEL
                else:
                    opened = any(start <= at < stop for at in shown.get(number, ()))
                    use = _Use.OTHER_SPANS if distance and not opened else _Use.TYPICAL_SPANS
                yield _Tile(
                    timeline=page.number,
                    track=number,
                    level=level,
                    tile=tile,
                    columns=columns,
                    use=(use, -columns.width, distance, number),
                )


class _Chosen:
    """The blocks of a file, as long as there is room for them."""

    def __init__(self, limit: int | None, size: int) -> None:
        self.blocks: dict[str, str] = {}
        self._limit = limit
        self._size = size

    def takes(self, tile: _Tile) -> bool:
        """Return whether there is room for such a tile."""
        most = min(_MOST.get(tile.use[0], self._limit or 0), self._limit or 0)
        return self._limit is None or self._size < most

    def add(self, name: str, block: bytes) -> bool:
        text = embedded(block)
        size = len(text) + len(name) + _MARKUP
        if self._limit is not None and self._size + size > self._limit and self.blocks:
            return False
        self._size += size
        self.blocks[name] = text
        return True


_MARKUP: Final = 64
"""Bytes of the element around a block."""


def title_of(inputs: Sequence[str]) -> str:
    """Return the names of inputs, without their directories."""
    names = [PurePath(name).name or name for name in dict.fromkeys(inputs)]
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def predicted_steps(prediction: Prediction) -> tuple[list[Timeline], dict[str, str]]:
    """Return what `side_by_side` does of the predicted step and that of the best candidate.

    The candidate is the best with a program of its own; without one the step is shown alone.
    """
    others = (it for it in prediction.candidates if not (it.is_base or it.same_as))
    forecasts = [prediction.base, *(it.forecast for it in others if it.forecast)][:2]
    if len(forecasts) < 2:
        return [prediction.timeline], {}
    return side_by_side([(it.name, it.timeline) for it in forecasts])


def side_by_side(steps: Iterable[tuple[str, Timeline]]) -> tuple[list[Timeline], dict[str, str]]:
    """Return predicted steps, named by their settings, and what `compare` says of two, as JSON."""
    named = [
        replace(timeline, inputs=(name.replace("/", "\N{DIVISION SLASH}"),))  # not a path
        for name, timeline in steps
    ]
    if len(named) < 2:
        return named, {}
    from counterpoint.diagnose.compare.comparison import compare
    from counterpoint.report.explain.compare_json import compare_json

    return named, {"compare": compare_json(compare(*named))}


def asset(name: str) -> bytes:
    """Return a file of the page: its program or its styles."""
    return resources.files("counterpoint.view").joinpath("assets", name).read_bytes()


def _json(value: object) -> str:
    """Return JSON that may stand in a script element: no `<` ends it or begins a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _html(title: str, page: str, blocks: Mapping[str, str]) -> str:
    """Return the whole file; its policy lets it load nothing, from nowhere."""
    policy = (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
    )
    script, style = (asset(name).decode() for name in ASSETS)
    elements = "\n".join(
        f'<script type="text/plain" id="block-{escape(name)}">{text}</script>'
        for name, text in blocks.items()
    )
    return whole_html(
        title,
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>',
        f'<script type="application/json" id="counterpoint-page">{page}</script>\n'
        f"{elements}\n<script>{script}</script>\n",
    )


def whole_html(title: str, head: str, body: str) -> str:
    """Return the HTML of a page with what its head and its body contain."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Counterpoint">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(printable(title))}</title>
{head}
</head>
<body>
<noscript>This page needs JavaScript, which this browser has turned off.</noscript>
{body}</body>
</html>
"""
