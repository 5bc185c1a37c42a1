"""A Chart drawn with characters: one row of bars per series, above a time axis.

A bar shows the mean or the maximum of its interval, as the Chart specifies: means preserve the area
of a flow, maxima keep every peak. Any level above zero is drawn as at least the lowest bar.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from counterpoint.report.document import Chart, Series

BARS: Final = " ▁▂▃▄▅▆▇█"
ASCII_BARS: Final = " .:-=+*#@"
_WIDEST: Final = 72
_LEAST: Final = 10


def chart_lines(chart: Chart, width: int, *, ascii_only: bool) -> Iterator[str]:
    """Yield each series with its label and remark, then the time axis."""
    labels = max((len(series.label) for series in chart.series), default=0)
    room = max(min(width - labels - 4, _WIDEST), _LEAST)
    bars = ASCII_BARS if ascii_only else BARS
    side = "|" if ascii_only else "│"
    for series in chart.series:
        row = "".join(bars[level] for level in _levels(chart, series, room, len(bars) - 1))
        yield f"{series.label:<{labels}}  {side}{row}{side}"
        indent = " " * (labels + 3)
        remarks = textwrap.wrap(series.remark, max(width - len(indent), _LEAST))
        yield from (indent + line for line in remarks)
    gap = max(room - len(chart.first) - len(chart.last), 1)
    yield f"{'':<{labels}}   {chart.first}{'':<{gap}}{chart.last}"


def _levels(chart: Chart, series: Series, room: int, highest: int) -> Iterator[int]:
    """Yield the bar index of each character, from the mean or maximum level within it."""
    shares: Sequence[float] = series.levels
    count = len(shares)
    for at in range(room):
        first, last = at * count // room, max((at + 1) * count // room, at * count // room + 1)
        part = shares[first:last] or (0.0,)
        share = sum(part) / len(part) if chart.means else max(part)
        yield 0 if share <= 0 else min(max(math.ceil(share * highest - 1e-9), 1), highest)
